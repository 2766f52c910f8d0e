/**
 * The token on axios: attached inside the adapter, to the config that axios made for this call.
 *
 * @module merchant-auth/axios
 */
// Not by its name: bundles of axios often have a banner that declares `createRequire`.
import * as nodeModule from 'node:module'
import type { Readable } from 'node:stream'
import importedAxios from 'axios'
import { startTimer } from '../clock.ts'
import { ConfigurationError, isMerchantAuthError, type Problem } from '../errors.ts'
import type { AttachOptions, TokenProviderOptions } from '../options.ts'
import { UsedSecrets } from '../redact.ts'
import type { AccessToken } from '../token/access-token.ts'
import { createTokenProvider, type TokenProvider } from '../token/provider.ts'
import { onAbort } from '../waiting.ts'
import {
  type AttachContext,
  type AuthorizedCall,
  acquire,
  authorize,
  createAttachContext,
  MAX_DRAINED_BYTES,
  type Rejection,
  shouldAttach,
} from './authorize.ts'
import { hideInConfig, hideRequest } from './axios-log-output.ts'
import type {
  AxiosAdapterOption,
  AxiosBeforeRedirect,
  AxiosConfig,
  AxiosLike,
  AxiosModule,
  AxiosRedirect,
  AxiosRequestInterceptor,
  AxiosResponse,
} from './axios-types.ts'
import { canSendAgain, isWebStream } from './body.ts'

export type { AxiosLike, AxiosRequestInterceptor } from './axios-types.ts'

const DEFAULT_ADAPTERS = ['xhr', 'http', 'fetch']

/** The interceptors of the instances that have a token attached. */
const attached = new WeakMap<AxiosLike, number>()

/**
 * Attaches the token to the calls of an axios instance below the environment's `apiUrls`. When an API returns 401
 * (RFC 6750 §3.1), it renews the token once and repeats the call. The token appears in no log output of errors and responses.
 * Other interceptors may be registered before or after, in any order. All other calls pass through unchanged.
 *
 * Calls reject as axios does, and as `TokenProvider.getToken` does if no token can be acquired. `signal`, `cancelToken`
 * and `timeout` (ms) also end a call's wait for a token, with axios' own errors; `timeout` applies to the wait and to each
 * send separately.
 *
 * @param instance an axios instance (`axios.create()`, or axios itself), from any copy of axios 1.13 or newer, with no
 *   token attached yet
 * @param tokens the provider, which any number of instances may share
 * @param attach the header, its scheme, the statuses that renew
 * @returns a function that detaches the token; later calls go without it
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every invalid option; if the instance has a default header of the
 *   token's name; and if it already has a token attached
 * @example
 * const api = axios.create({ baseURL: 'https://api.test.example.com/merchant' })
 * attachAuth(api, tokens)
 */
export function attachAuth(instance: AxiosLike, tokens: TokenProvider, attach?: AttachOptions): () => void {
  const context = createAttachContext(tokens, attach)
  assertAttachable(instance, context)
  const wrapAdapter = (config: AxiosConfig): AxiosConfig => {
    hideInConfig(config) // a call that is canceled before its adapter runs rejects with an error, too
    const { adapter = DEFAULT_ADAPTERS } = config
    // A config that is sent again has the wrapper if its adapter did not run, because its call was canceled before.
    const given = (adapter as { readonly given?: AxiosAdapterOption }).given ?? adapter
    const wrapper = (final: AxiosConfig): Promise<AxiosResponse> => {
      final.adapter = given // for a config that is sent again
      return callAdapter(final, given, context)
    }
    config.adapter = Object.assign(wrapper, { given })
    return config
  }
  // Synchronous, so that axios does not wait where no other interceptor makes it wait.
  const id = instance.interceptors.request.use(wrapAdapter as object as AxiosRequestInterceptor, null, {
    synchronous: true,
  })
  attached.set(instance, id)
  return () => {
    instance.interceptors.request.eject(id)
    if (attached.get(instance) === id) attached.delete(instance)
  }
}

function assertAttachable(instance: AxiosLike, { header, headerKey }: AttachContext): void {
  const reject = (kind: Problem['kind'], reason: string): never => {
    throw new ConfigurationError('The token cannot be attached', [{ option: 'instance', kind, reason }])
  }
  if (typeof instance?.interceptors?.request?.use !== 'function')
    reject('invalid', 'must be an axios instance')
  if (attached.has(instance)) reject('conflict', 'already has a token attached; detach that one first')
  const { headers = {} } = instance.defaults as { headers?: object }
  for (const defaults of [headers, ...Object.values(headers)])
    if (typeof defaults === 'object' && getHeader(defaults, headerKey) !== undefined)
      reject(
        'conflict',
        `has a default header ${header}, which would replace the token; delete it from instance.defaults.headers`,
      )
}

function callAdapter(
  config: AxiosConfig,
  adapter: AxiosAdapterOption,
  context: AttachContext,
): Promise<AxiosResponse> {
  const call = new AxiosCall(config, adapter, context)
  if (getsToken(config, call.url, context)) return authorize(call, context)
  return call.send().then((outcome) => call.settle(outcome))
}

/** Whether the token is attached to a call, by its final config. Emits `token-withheld` where it is not. */
function getsToken({ headers, auth, socketPath }: AxiosConfig, url: string, context: AttachContext): boolean {
  const header = getHeader(headers, context.headerKey) !== undefined
  return shouldAttach(context, socketPath ? '' : url, { header, credentials: Boolean(auth) })
}

const ABSOLUTE = /^([a-z][a-z\d+\-.]*:)?\/\//i

/** The URL that axios' adapters call, without the params: `baseURL` and `url` as axios combines them. */
function urlOf({ baseURL, url, allowAbsoluteUrls }: AxiosConfig): string {
  const given = String(url ?? '')
  if (!baseURL || (allowAbsoluteUrls !== false && ABSOLUTE.test(given))) return given
  return given === '' ? baseURL : `${baseURL.replace(/\/?\/$/, '')}/${given.replace(/^\/+/, '')}`
}

/** One axios request. */
class AxiosCall implements AuthorizedCall<Outcome, AxiosResponse> {
  readonly url: string
  readonly repeatable: boolean
  readonly #config: AxiosConfig
  readonly #adapter: AxiosAdapterOption
  readonly #context: AttachContext
  #wait: ReturnType<typeof startWait> | undefined
  #isRedirected = false

  constructor(config: AxiosConfig, adapter: AxiosAdapterOption, context: AttachContext) {
    this.url = urlOf(config)
    this.repeatable = canSendAgain(config.data)
    this.#config = config
    this.#adapter = adapter
    this.#context = context
  }

  get body(): unknown {
    return this.#config.data
  }

  set body(body: unknown) {
    this.#config.data = body
  }

  get signal(): AbortSignal | undefined {
    this.#wait ??= startWait(this.#config, kindOf(this.#adapter) === 'fetch')
    return this.#wait.signal
  }

  endWait(): void {
    this.#wait?.end()
    this.#wait = undefined
  }

  /** Interceptors and axios-retry read `error.config`. Log output does not show it. */
  onError(error: unknown): void {
    if (isMerchantAuthError(error))
      Object.defineProperty(error, 'config', { value: this.#config, writable: true })
  }

  /** Sends the config. The token is on it only until the adapter settles. */
  async send(token?: AccessToken): Promise<Outcome> {
    const config = this.#config
    const { beforeRedirect, env, fetchOptions } = config
    const { header: name, headerKey: key, headerValue, isAuthorization } = this.#context
    const header = token && { name, key, value: headerValue(token) }
    if (header !== undefined) {
      config.headers[name] = header.value
      config.beforeRedirect = guardOf(config, this.url, this.#context, () => {
        this.#isRedirected = true
      })
      config.env = { ...env, fetch: watchedFetch(env?.fetch) }
      if (!isAuthorization) config.fetchOptions = withoutRedirects(fetchOptions)
    }
    let outcome: Outcome
    try {
      outcome = { response: await axiosOf(config).getAdapter(this.#adapter, config)(config) }
    } catch (error) {
      outcome = {
        response: (error as { response?: AxiosResponse } | undefined)?.response,
        failure: { error },
      }
    }
    if (header !== undefined) {
      clearHeader(config.headers, key)
      Object.assign(config, { beforeRedirect, env, fetchOptions })
    }
    this.#isRedirected ||= followed.has(outcome.response?.request as object)
    hideInConfig(config)
    hideRequest(outcome.failure?.error ?? outcome.response, header)
    return outcome
  }

  statusOf({ response }: Outcome): number | undefined {
    return response?.status
  }

  rejectionOf({ response }: Outcome): Rejection {
    const challenge = String(getHeader(response?.headers, 'www-authenticate') ?? '')
    return { challenge, redirected: this.#isRedirected }
  }

  settle({ response, failure }: Outcome): AxiosResponse {
    if (failure !== undefined) throw failure.error
    return response as AxiosResponse
  }

  /** Reads the rest of a small stream, so that its connection can be reused; closes the connection of any other. */
  discard({ response }: Outcome): void {
    const { data, headers } = response ?? {}
    const stream = data as Partial<Readable> | null | undefined
    if (isWebStream(data)) data.cancel().catch(() => {})
    else if (Number(getHeader(headers, 'content-length')) <= MAX_DRAINED_BYTES) stream?.resume?.()
    else stream?.destroy?.()
  }
}

/** `failure`: what the call rejects with, whether or not there is a response. */
type Outcome = {
  readonly response?: AxiosResponse | undefined
  readonly failure?: { readonly error: unknown }
}

/** Adds to the caller's `beforeRedirect`: the token stays only within `apiUrls` and on the origin of the call. */
function guardOf(
  { beforeRedirect, headers }: AxiosConfig,
  url: string,
  { destinations, headerKey }: AttachContext,
  onRedirect = (): void => {},
): AxiosBeforeRedirect {
  const value = getHeader(headers, headerKey)
  return (options, ...rest) => {
    onRedirect()
    const target = targetOf(options)
    beforeRedirect?.(options, ...rest)
    const mayKeep =
      targetOf(options) === target && // otherwise the caller sends the request elsewhere
      new URL(options.href).origin === new URL(url).origin &&
      destinations(options.href).api !== undefined
    const name = nameOf(options.headers, headerKey)
    if (!mayKeep && name !== undefined && options.headers[name] === value) delete options.headers[name]
  }
}

/** What Node.js will request: with a proxy it differs from `href`. */
function targetOf({ protocol, hostname, port, path }: AxiosRedirect): string {
  return `${protocol}//${hostname}:${port}${path}`
}

/** What axios resolves these names to: in Node.js the first of http and fetch, or a function before them. */
function kindOf(adapter: AxiosAdapterOption): unknown {
  const names: readonly unknown[] = typeof adapter === 'object' ? adapter : [adapter]
  return names.find((one) => typeof one === 'function' || one === 'http' || one === 'fetch')
}

/** fetch would send any header but `Authorization` along to another origin. */
function withoutRedirects(options: AxiosConfig['fetchOptions']): AxiosConfig['fetchOptions'] {
  return options?.redirect === 'error' ? options : { ...options, redirect: 'manual' }
}

/** The Requests of axios' fetch adapter whose response came by a redirect, which its response does not say. */
const followed = new WeakSet<object>()
const watching = new WeakMap<typeof fetch, typeof fetch>()

const globalFetch: typeof fetch = (input, init) => globalThis.fetch(input, init)

/** Adds redirected Requests to `followed`. The same function for each fetch, because axios keeps an adapter for each. */
function watchedFetch(given: typeof fetch = globalFetch): typeof fetch {
  const watched: typeof fetch = async (input, init) => {
    const response = await given(input, init)
    if (response.redirected && typeof input === 'object') followed.add(input)
    return response
  }
  if (!watching.has(given)) watching.set(given, watched)
  return watching.get(given) as typeof fetch
}

/** Starts a wait that the caller's `signal`, `cancelToken` and `timeout` end with axios' own errors. */
function startWait(config: AxiosConfig, isFetch: boolean): { signal?: AbortSignal; end(): void } {
  const { signal, cancelToken, timeout = 0 } = config
  if (signal === undefined && cancelToken === undefined && timeout <= 0) return { end: () => {} }
  const { AxiosError, CanceledError } = axiosOf(config)
  const controller = new AbortController()
  const onTime = (): void => {
    const message = config.timeoutErrorMessage || `timeout of ${timeout}ms exceeded`
    const clarify = isFetch || config.transitional?.clarifyTimeoutError
    controller.abort(new AxiosError(message, clarify ? 'ETIMEDOUT' : 'ECONNABORTED', config))
  }
  const onCancel = (reason: unknown): void => controller.abort(reason)
  const stopTimer = timeout > 0 ? startTimer(onTime, timeout) : undefined
  const stopSignal = onAbort(signal, () => controller.abort(new CanceledError(undefined, config)))
  cancelToken?.subscribe(onCancel)
  return {
    signal: controller.signal,
    end: () => {
      stopTimer?.()
      stopSignal()
      cancelToken?.unsubscribe(onCancel)
    },
  }
}

/** The name under which a header is set; `key` is its name in lower case. */
function nameOf(headers: object | undefined, key: string): string | undefined {
  const record = headers as Record<string, unknown>
  for (const name in record)
    if (name.length === key.length && record[name] !== undefined && name.toLowerCase() === key) return name
  return undefined
}

function getHeader(headers: object | undefined, key: string): unknown {
  return (headers as Record<string, unknown> | undefined)?.[nameOf(headers, key) ?? '']
}

/** Sets a header to undefined, which axios does not send: calls whose headers had a property deleted are slower. */
function clearHeader(headers: Record<string, unknown>, key: string): void {
  const name = nameOf(headers, key)
  if (name !== undefined) headers[name] = undefined
}

let requiredAxios: AxiosModule | undefined

/**
 * The copy of axios that made a config, because callers expect its errors. axios has different classes as an ES module and
 * as a CommonJS module. If it is neither of those that this package finds, `isAxiosError` still holds for the errors.
 */
function axiosOf({ headers }: AxiosConfig): AxiosModule {
  const imported: AxiosModule = importedAxios as object as AxiosModule
  if (headers.constructor === imported.AxiosHeaders) return imported
  try {
    requiredAxios ??= nodeModule.createRequire(import.meta.url)('axios') as AxiosModule
  } catch {} // bundled, without a node_modules folder
  return headers.constructor === requiredAxios?.AxiosHeaders ? requiredAxios : imported
}

/**
 * A request interceptor that only attaches the token to calls below the environment's `apiUrls`: a 401 does not renew it,
 * and axios' errors show the header. Register it first, so that it runs last and sees the final URL; if that is not
 * possible, use `attachAuth`.
 *
 * It rejects as `TokenProvider.getToken` does if no token can be acquired.
 *
 * @param auth a provider, or the options for a new one
 * @param attach the header and its scheme; `renewOnStatus` has no effect here
 * @returns an interceptor for `instance.interceptors.request.use(…)`
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every invalid option
 * @example
 * api.interceptors.request.use(createAuthInterceptor(options))
 */
export function createAuthInterceptor(
  auth: TokenProvider | TokenProviderOptions,
  attach?: AttachOptions,
): AxiosRequestInterceptor {
  const tokens = auth && 'getToken' in auth ? auth : createTokenProvider(auth)
  const context = createAttachContext(tokens, attach)
  /** What this interceptor set: a config that is sent again gets the current token. */
  const placed = new UsedSecrets()
  const addHeader = (config: AxiosConfig, token: AccessToken): AxiosConfig => {
    const value = context.headerValue(token)
    placed.add(value)
    config.headers[context.header] = value
    config.beforeRedirect = guardOf(config, urlOf(config), context)
    if (!context.isAuthorization) config.fetchOptions = withoutRedirects(config.fetchOptions)
    return config
  }
  const intercept = (config: AxiosConfig): AxiosConfig | Promise<AxiosConfig> => {
    if (placed.has(getHeader(config.headers, context.headerKey)))
      clearHeader(config.headers, context.headerKey)
    if (!getsToken(config, urlOf(config), context)) return config
    const token = tokens.currentToken()
    if (token !== undefined) return addHeader(config, token)
    const call = new AxiosCall(config, config.adapter || DEFAULT_ADAPTERS, context)
    return acquire(call, tokens).then((acquired) => addHeader(config, acquired))
  }
  return intercept as object as AxiosRequestInterceptor
}
