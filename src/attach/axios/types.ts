/** The parts of axios used here, typed structurally: axios ships two declaration files, and callers may use either. */
import type { TokenProvider } from '../../token/provider.ts'

/**
 * A request interceptor for `instance.interceptors.request.use(…)`. It returns the config that it gets, or a promise of it
 * if it has to wait.
 */
export type AxiosRequestInterceptor = <Config extends object>(config: Config) => Config | Promise<Config>

/** The interceptor that `createAuthInterceptor` returns. */
export type AuthInterceptor = AxiosRequestInterceptor & {
  /** Its provider: where it was created from options, for `tokens.close()`. */
  readonly tokens: TokenProvider
}

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
        options?: { synchronous?: boolean; runWhen?(config: object): boolean },
      ): number
      /** Removes the interceptor with this number. */
      eject(id: number): void
    }
  }
}

/** The config of a request, which axios makes for each call. */
export interface AxiosConfig {
  url?: string
  method?: string
  baseURL?: string
  allowAbsoluteUrls?: boolean
  headers: Record<string, unknown>
  data?: unknown
  adapter?: AxiosAdapterOption | undefined
  signal?: AbortSignal
  cancelToken?: AxiosCancelToken
  timeout?: number
  timeoutErrorMessage?: string
  transitional?: { readonly clarifyTimeoutError?: boolean }
  auth?: object
  socketPath?: string | null
  beforeRedirect?: AxiosBeforeRedirect | undefined
  httpAgent?: unknown
  httpsAgent?: unknown
  env?: { readonly fetch?: typeof fetch } | undefined
  fetchOptions?: { readonly redirect?: RequestInit['redirect']; readonly dispatcher?: unknown } | undefined
}

export interface AxiosResponse {
  readonly status: number
  readonly headers: Record<string, unknown>
  readonly data: unknown
  readonly request?: unknown
}

export type AxiosAdapter = (config: AxiosConfig) => Promise<AxiosResponse>

/** A function, a name, or several to choose from. */
export type AxiosAdapterOption = AxiosAdapter | string | readonly (AxiosAdapter | string)[]

/** axios' older API for cancellation. */
export interface AxiosCancelToken {
  subscribe(listener: (reason: unknown) => void): void
  unsubscribe(listener: (reason: unknown) => void): void
}

/** The options of the request that follows a redirect. */
export interface AxiosRedirect {
  readonly href: string
  readonly protocol?: string
  readonly hostname?: string
  readonly port?: number | string
  readonly path?: string
  readonly headers: Record<string, unknown>
}

/** Called by axios' http adapter before each redirect. */
export type AxiosBeforeRedirect = (options: AxiosRedirect, ...rest: readonly unknown[]) => void

/** Its `toJSON` shows its config without circles. */
interface AxiosErrorJson {
  toJSON(): { readonly config?: object }
}

/** The parts of the module `axios`. */
export interface AxiosModule {
  getAdapter(adapter: AxiosAdapterOption, config: AxiosConfig): AxiosAdapter
  readonly AxiosError: new (message: string, code: string, config: AxiosConfig) => Error & AxiosErrorJson
  readonly AxiosHeaders: unknown
  readonly CanceledError: new (message: string | undefined, config: AxiosConfig) => Error
}
