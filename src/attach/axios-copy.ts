/** The copy of axios that an instance belongs to: its callers expect the adapters and errors of that copy. */
// Not by its name: bundles of axios often have a banner that declares `createRequire`.
import * as nodeModule from 'node:module'
import axios from 'axios'
import type {
  AxiosAdapter,
  AxiosAdapterOption,
  AxiosConfig,
  AxiosErrorLike,
  AxiosLike,
} from './axios-types.ts'

/** What is needed from a copy of axios. */
export interface AxiosCopy {
  /** The adapter that the copy would use. */
  resolveAdapter(adapter: AxiosAdapterOption, config: AxiosConfig): AxiosAdapter
  /** Rejects with that copy's AxiosError for a timeout. */
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

/** The copy that created an instance. */
export function axiosCopyOf(instance: AxiosLike): AxiosCopy {
  const known = knownCopy(
    (copy) => classOf(copy.interceptors.request) === classOf(instance.interceptors.request),
  )
  return known === undefined ? foreignCopy(instance as AxiosInstance) : staticCopy(known)
}

/** The copy that created a request's headers; if unknown, the one that this package imports. */
export function axiosCopyOfHeaders(headers: object): AxiosCopy {
  return staticCopy(knownCopy((copy) => copy.AxiosHeaders === classOf(headers)) ?? asStatic(axios))
}

// One import and one require: axios has different classes as an ES module and as a CommonJS module.
function knownCopy(matches: (copy: AxiosStatic) => boolean): AxiosStatic | undefined {
  if (matches(asStatic(axios))) return asStatic(axios)
  try {
    const required: AxiosStatic = nodeModule.createRequire(import.meta.url)('axios')
    if (matches(required)) return required
  } catch {} // bundled, without a node_modules folder, or something else is registered by that name
  return undefined
}

function asStatic(copy: object): AxiosStatic {
  return copy as AxiosStatic
}

function classOf(value: object): unknown {
  return value.constructor
}

function staticCopy({ getAdapter, AxiosError }: AxiosStatic): AxiosCopy {
  return {
    resolveAdapter: getAdapter,
    rejectTimeout: (config) => {
      const { message, code } = timeoutOf(config)
      return Promise.reject(new AxiosError(message, code, config))
    },
  }
}

/** A copy that can only be reached through an instance: adapters run in a bare instance of that copy. */
function foreignCopy(instance: AxiosInstance): AxiosCopy {
  let made: AxiosInstance | undefined
  // Created on demand: if `create` attached every new instance, this would never end.
  const bare = (): AxiosInstance => {
    made ??= bareInstance(instance)
    return made
  }
  return {
    resolveAdapter: (adapter) => {
      if (typeof adapter === 'function') return adapter
      return (config) =>
        bare()
          .request({ ...config, ...UNTRANSFORMED, adapter })
          .then(
            (response) => withConfig(response, config),
            (error: unknown) => Promise.reject(withConfig(error, config)),
          )
    },
    rejectTimeout: (config) =>
      bare()
        .request({ adapter: [] })
        .catch((error: AxiosErrorLike) => {
          throw Object.assign(error, { ...timeoutOf(config), config })
        }),
  }
}

const UNTRANSFORMED = { transformRequest: [], transformResponse: [] }

/** An instance of the same copy without defaults and interceptors, which have already run before an adapter does. */
function bareInstance(instance: AxiosInstance): AxiosInstance {
  const bare =
    instance.create?.(UNTRANSFORMED) ??
    (Reflect.construct(classOf(instance) as new () => AxiosInstance, [UNTRANSFORMED]) as AxiosInstance)
  for (const key of Object.keys(bare.defaults)) Reflect.deleteProperty(bare.defaults, key)
  bare.interceptors.request.clear()
  bare.interceptors.response.clear()
  return bare
}

/**
 * Puts the config that was sent on an outcome, and on the response in an error, where the bare instance put its own. That
 * config gets the headers of this one, because the error of a stream that fails later refers to it.
 */
function withConfig<T>(outcome: T, config: AxiosConfig): T {
  const { response } = Object(outcome) as Partial<AxiosErrorLike>
  for (const holder of [outcome, response]) {
    const { config: bare } = Object(holder) as Partial<AxiosErrorLike>
    if (bare?.headers === undefined) continue // none, or one that the caller passed with a cancellation
    Reflect.set(bare, 'headers', config.headers)
    Reflect.set(holder as object, 'config', config)
  }
  return outcome
}

/** The message and code that the request's adapter would use. */
function timeoutOf({ adapter, timeout, timeoutErrorMessage, transitional }: AxiosConfig): {
  message: string
  code: string
} {
  const clarify = transitional?.clarifyTimeoutError === true || usesFetch(adapter)
  return {
    message: timeoutErrorMessage || `timeout of ${timeout}ms exceeded`,
    code: clarify ? 'ETIMEDOUT' : 'ECONNABORTED',
  }
}

/** Whether axios resolves these names to its fetch adapter: in Node.js it uses the first of http and fetch. */
function usesFetch(adapter: AxiosAdapterOption | undefined): boolean {
  const names: readonly unknown[] = Array.isArray(adapter) ? adapter : [adapter]
  return names.find((name) => typeof name === 'function' || name === 'http' || name === 'fetch') === 'fetch'
}
