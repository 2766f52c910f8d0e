/** The parts of axios used here, typed structurally: axios ships two declaration files, and callers may use either. */

/**
 * A request interceptor for `instance.interceptors.request.use(…)`. It returns the config that it gets, or a promise of it
 * if it has to wait.
 */
export type AxiosRequestInterceptor = <Config extends object>(config: Config) => Config | Promise<Config>

/** An axios instance, from any copy of axios. */
export interface AxiosLike {
  /** The instance's defaults; `attachAuth` checks their headers. */
  readonly defaults: object
  /** Where interceptors are registered. */
  readonly interceptors: {
    /** Those of requests. */
    readonly request: {
      /** Registers an interceptor; returns its number. */
      use(
        onFulfilled: AxiosRequestInterceptor,
        onRejected?: null,
        options?: { synchronous?: boolean },
      ): number
      /** Removes the interceptor with this number. */
      eject(id: number): void
    }
  }
}

/** The config of a request. */
export interface AxiosConfig {
  /** Other properties of callers and adapters. */
  [field: string]: unknown
  url?: unknown
  baseURL?: string | undefined
  allowAbsoluteUrls?: boolean | undefined
  headers: Record<string, unknown>
  data?: unknown
  adapter?: AxiosAdapterOption | undefined
  signal?: AbortSignal | undefined
  cancelToken?: AxiosCancelToken | undefined
  timeout?: number | string | undefined
  timeoutErrorMessage?: string | undefined
  transitional?: { readonly clarifyTimeoutError?: boolean } | undefined
  auth?: unknown
  socketPath?: unknown
  beforeRedirect?: AxiosBeforeRedirect | undefined
  transport?: AxiosTransport | undefined
  httpAgent?: unknown
  httpsAgent?: unknown
  env?: { readonly fetch?: typeof fetch } | undefined
  fetchOptions?: RequestInit | undefined
}

/** What axios resolves with. */
export interface AxiosResponse {
  readonly status?: number
  readonly headers?: unknown
  readonly data?: unknown
  readonly request?: unknown
  config?: AxiosConfig
}

/** What axios rejects with, where it is an AxiosError. */
export interface AxiosErrorLike {
  readonly request?: unknown
  readonly response?: AxiosResponse
  readonly cause?: unknown
  config?: AxiosConfig
}

export type AxiosAdapter = (config: AxiosConfig) => Promise<AxiosResponse>

/** A function, a name, or several to choose from. */
export type AxiosAdapterOption = AxiosAdapter | string | readonly (AxiosAdapter | string)[]

/** axios' older API for cancellation. */
export interface AxiosCancelToken {
  readonly reason?: unknown
  subscribe(listener: (reason: unknown) => void): void
  unsubscribe(listener: (reason: unknown) => void): void
}

/** The options of follow-redirects for the next redirect. */
export interface AxiosRedirectOptions {
  readonly href: string
  readonly protocol?: string | undefined
  readonly hostname?: string | undefined
  readonly port?: number | string | undefined
  readonly path?: string | undefined
  readonly headers: Record<string, unknown>
}

/** Sends requests for axios' http adapter. */
export interface AxiosTransport {
  request(
    options: { readonly beforeRedirect?: AxiosBeforeRedirect | undefined },
    ...rest: readonly unknown[]
  ): unknown
}

export type AxiosBeforeRedirect = (options: AxiosRedirectOptions, response: unknown, request: unknown) => void
