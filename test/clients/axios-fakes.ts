/** axios instances with adapters that answer without a socket, and further copies of axios. */
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type {
  AxiosAdapter,
  AxiosInstance,
  AxiosStatic,
  CreateAxiosDefaults,
  InternalAxiosRequestConfig,
} from 'axios'
import type { AttachOptions } from 'merchant-auth'
import { MERCHANT_URL, type Rig, rig } from '../token/harness.ts'
import { axiosWith } from './drivers.ts'

/** The parts of a response, or an adapter that is called instead. */
export type FakeAnswer =
  | { status?: number; data?: unknown; headers?: unknown; request?: unknown }
  | AxiosAdapter

export interface FakeApi extends Rig {
  readonly api: AxiosInstance
  /** The configs that the adapter was called with. */
  readonly configs: InternalAxiosRequestConfig[]
}

/** An adapter that returns these answers in turn and then 200, and records its configs. */
export function answering(
  answers: FakeAnswer[] = [],
  configs: InternalAxiosRequestConfig[] = [],
): AxiosAdapter {
  const remaining = [...answers]
  return (config) => {
    configs.push(config)
    const answer = remaining.shift() ?? {}
    if (typeof answer === 'function') return answer(config)
    return Promise.resolve({ status: 200, statusText: '', data: '', headers: {}, ...answer, config } as never)
  }
}

/** An instance for the merchant API with the token attached, whose adapter returns these answers. */
export function fakeApi(
  answers: FakeAnswer[],
  { config, attach }: { config?: CreateAxiosDefaults; attach?: AttachOptions } = {},
): FakeApi {
  const made = rig()
  const configs: InternalAxiosRequestConfig[] = []
  const defaults = { baseURL: MERCHANT_URL, adapter: answering(answers, configs), ...config }
  return { ...made, api: axiosWith(made.provider, defaults, { attach }), configs }
}

const require = createRequire(import.meta.url)

/** The copy of axios that this package loads by require(). */
export function requiredCopy(): AxiosStatic {
  return require('axios')
}

/** A copy that the package cannot find, like another version in the caller's own node_modules folder. */
export function unknownCopy(): AxiosStatic {
  requiredCopy()
  const path = require.resolve('axios')
  const known = require.cache[path]
  delete require.cache[path]
  const copy: AxiosStatic = require('axios')
  if (known !== undefined) require.cache[path] = known
  return copy
}

/** Calls `run` with the path of a server's Unix socket. Resolves with the `Authorization` of each request. */
export async function onSocket(
  run: (socketPath: string) => Promise<unknown>,
): Promise<(string | undefined)[]> {
  const seen: (string | undefined)[] = []
  const server = createServer(({ headers }, response) => {
    seen.push(headers.authorization)
    response.end()
  })
  const socketPath = join(tmpdir(), `merchant-auth-${crypto.randomUUID()}.sock`)
  await new Promise<void>((resolve) => void server.listen(socketPath, resolve))
  try {
    await run(socketPath)
  } finally {
    server.closeAllConnections()
    server.close()
  }
  return seen
}
