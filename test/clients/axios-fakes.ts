/** axios instances on adapters that answer by themselves, with no socket; and copies of axios that nobody else has. */
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

/** The parts of an answer; or whatever an adapter would do instead. */
export type FakeAnswer =
  | { status?: number; data?: unknown; headers?: unknown; request?: unknown }
  | AxiosAdapter

export interface FakeApi extends Rig {
  readonly api: AxiosInstance
  /** The configs that the adapter was called with. */
  readonly configs: InternalAxiosRequestConfig[]
}

/** An adapter that gives these answers in turn, and after them 200, and notes the configs. */
export function answering(
  answers: FakeAnswer[] = [],
  configs: InternalAxiosRequestConfig[] = [],
): AxiosAdapter {
  const left = [...answers]
  return (config) => {
    configs.push(config)
    const answer = left.shift() ?? {}
    if (typeof answer === 'function') return answer(config)
    return Promise.resolve({ status: 200, statusText: '', data: '', headers: {}, ...answer, config } as never)
  }
}

/** An instance at the merchant API, with the token attached, whose adapter gives these answers. */
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

/** The copy of axios that this package finds by require(). */
export function requiredCopy(): AxiosStatic {
  return require('axios')
}

/** A copy that it finds by no means, as another version in the caller's own node_modules folder would be. */
export function unknownCopy(): AxiosStatic {
  requiredCopy()
  const path = require.resolve('axios')
  const known = require.cache[path]
  delete require.cache[path]
  const copy: AxiosStatic = require('axios')
  if (known !== undefined) require.cache[path] = known
  return copy
}

/** Runs something with a server on a socket of this machine. Resolves with the `Authorization` of each request. */
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
