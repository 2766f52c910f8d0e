/** axios instances on adapters that answer by themselves, with no socket; and copies of axios that nobody else has. */
import { createRequire } from 'node:module'
import axios, {
  type AxiosInstance,
  type AxiosStatic,
  type CreateAxiosDefaults,
  type InternalAxiosRequestConfig,
} from 'axios'
import type { AttachOptions } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { MERCHANT_URL, type Rig, rig } from '../token/harness.ts'

/** An adapter of a caller's own. */
export type OwnAdapter = (config: InternalAxiosRequestConfig) => Promise<never>

/** The parts of an answer; or whatever an adapter would do instead. */
export type FakeAnswer = { status?: number; data?: unknown; headers?: unknown } | OwnAdapter

export interface FakeApi extends Rig {
  readonly api: AxiosInstance
  /** The configs that the adapter was called with. */
  readonly configs: InternalAxiosRequestConfig[]
}

/** An adapter that gives these answers in turn, and after them 200, and notes the configs. */
export function answering(answers: FakeAnswer[], configs: InternalAxiosRequestConfig[] = []): OwnAdapter {
  const left = [...answers]
  return (config) => {
    configs.push(config)
    const answer = left.shift() ?? {}
    if (typeof answer === 'function') return answer(config)
    const { status = 200, data = '', headers = {} } = answer
    return Promise.resolve({ status, statusText: '', data, headers, config } as never)
  }
}

/** An instance at the merchant API, with the token attached, whose adapter gives these answers. */
export function fakeApi(
  answers: FakeAnswer[],
  { config, attach }: { config?: CreateAxiosDefaults; attach?: AttachOptions } = {},
): FakeApi {
  const made = rig()
  const configs: InternalAxiosRequestConfig[] = []
  const api = axios.create({ baseURL: MERCHANT_URL, adapter: answering(answers, configs), ...config })
  attachAuth(api, made.provider, attach)
  return { ...made, api, configs }
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
