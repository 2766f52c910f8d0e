/** The copy of axios that an instance belongs to: its adapters and its errors are the ones its callers know. */
import { createRequire } from 'node:module'
import axios from 'axios'
import type { AxiosAdapter, AxiosAdapterOption, AxiosConfig, AxiosFailure, AxiosLike } from './axios-types.ts'

/** What is needed from a copy of axios. */
export interface AxiosCopy {
  /** The adapter that the copy would use. */
  resolveAdapter(adapter: AxiosAdapterOption, config: AxiosConfig): AxiosAdapter
  /** Rejects with the copy's own AxiosError for a time-out. */
  rejectTimeout(config: AxiosConfig): Promise<never>
}

interface AxiosStatic extends AxiosLike {
  getAdapter(adapter: AxiosAdapterOption, config: AxiosConfig): AxiosAdapter
  readonly AxiosError: new (message: string, code: string, config: AxiosConfig) => Error
  readonly AxiosHeaders: unknown
}

interface AxiosInstance extends AxiosLike {
  readonly interceptors: AxiosLike['interceptors'] & Record<'request' | 'response', { clear(): void }>
  request(config: object): Promise<never>
  create?(defaults: object): AxiosInstance
}

/** The copy that an instance was made by. */
export function axiosCopyOf(instance: AxiosLike): AxiosCopy {
  const known = knownCopy(
    (copy) => classOf(copy.interceptors.request) === classOf(instance.interceptors.request),
  )
  return known === undefined ? foreignCopy(instance as AxiosInstance) : staticCopy(known)
}

/** The copy that a request's headers were made by; where it is not known, the one that this package would import. */
export function axiosCopyOfHeaders(headers: object): AxiosCopy {
  return staticCopy(knownCopy((copy) => copy.AxiosHeaders === classOf(headers)) ?? asStatic(axios))
}

// One import and one require: Node gives an ES module and a CommonJS module of the same axios different classes.
function knownCopy(matches: (copy: AxiosStatic) => boolean): AxiosStatic | undefined {
  if (matches(asStatic(axios))) return asStatic(axios)
  try {
    const required: AxiosStatic = createRequire(import.meta.url)('axios')
    return matches(required) ? required : undefined
  } catch {
    return undefined // bundled, without a node_modules folder
  }
}

function asStatic(copy: object): AxiosStatic {
  return copy as AxiosStatic
}

function classOf(value: object): unknown {
  return value.constructor
}

function staticCopy({ getAdapter, AxiosError }: AxiosStatic): AxiosCopy {
  return {
    resolveAdapter: (adapter, config) =>
      typeof adapter === 'function' ? adapter : getAdapter(adapter, config),
    rejectTimeout: (config) => {
      const { message, code } = timeoutOf(config)
      return Promise.reject(new AxiosError(message, code, config))
    },
  }
}

/** A copy that cannot be reached but through an instance: adapters run through a bare instance of its own. */
function foreignCopy(instance: AxiosInstance): AxiosCopy {
  let made: AxiosInstance | undefined
  // Made when it is needed: where `create` attaches every new instance, there would be no end to it.
  const bare = (): AxiosInstance => {
    made ??= bareInstance(instance)
    return made
  }
  return {
    resolveAdapter: (adapter) =>
      typeof adapter === 'function'
        ? adapter
        : (config) => bare().request({ ...config, ...UNTRANSFORMED, adapter }),
    rejectTimeout: (config) =>
      bare()
        .request({ adapter: [] })
        .catch((error: AxiosFailure) => {
          throw Object.assign(error, { ...timeoutOf(config), config })
        }),
  }
}

const UNTRANSFORMED = { transformRequest: [], transformResponse: [] }

/** An instance of the same copy without defaults and interceptors: they have done their part when an adapter runs. */
function bareInstance(instance: AxiosInstance): AxiosInstance {
  const bare =
    instance.create?.(UNTRANSFORMED) ??
    (Reflect.construct(classOf(instance) as new () => AxiosInstance, [UNTRANSFORMED]) as AxiosInstance)
  for (const key of Object.keys(bare.defaults)) Reflect.deleteProperty(bare.defaults, key)
  bare.interceptors.request.clear()
  bare.interceptors.response.clear()
  return bare
}

/** As the adapter that the request is meant for words it. */
function timeoutOf({ adapter, timeout, timeoutErrorMessage, transitional }: AxiosConfig): {
  message: string
  code: string
} {
  const clarify = transitional?.clarifyTimeoutError === true || usesFetch(adapter ?? [])
  return {
    message: timeoutErrorMessage || `timeout of ${timeout}ms exceeded`,
    code: clarify ? 'ETIMEDOUT' : 'ECONNABORTED',
  }
}

/** Whether axios resolves these names to its fetch adapter: in Node.js it takes the first of these two. */
function usesFetch(adapter: AxiosAdapterOption): boolean {
  const names: readonly unknown[] = Array.isArray(adapter) ? adapter : [adapter]
  return names.find((name) => typeof name === 'function' || name === 'http' || name === 'fetch') === 'fetch'
}
