/** Adapters of axios that answer without a socket, and further copies of axios. */
import { createRequire } from 'node:module'
import type { AxiosAdapter, AxiosStatic, InternalAxiosRequestConfig } from 'axios'

/** The parts of a response, or an adapter that is called instead. */
export type FakeAnswer =
  | { status?: number; data?: unknown; headers?: unknown; request?: unknown }
  | AxiosAdapter

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
