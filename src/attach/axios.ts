/**
 * The token on axios: attached inside the adapter, to a copy of the final config.
 *
 * @module merchant-auth/axios
 */
import { ConfigurationError } from '../errors.ts'
import type { AttachOptions } from '../options.ts'
import type { AccessToken } from '../token/access-token.ts'
import type { TokenProvider } from '../token/provider.ts'
import {
  type AttachContext,
  type Attempt,
  type AuthorizedCall,
  authorize,
  createAttachContext,
  MAX_DRAINED_BYTES,
} from './authorize.ts'
import { configGetsToken, originalOf, rememberWrapper, urlOf, waitWithin, writable } from './axios-config.ts'
import { type AxiosCopy, axiosCopyOf } from './axios-copy.ts'
import { stripInterceptorHeader } from './axios-interceptor.ts'
import {
  cleanSent,
  copyForSend,
  hideAgents,
  hideInError,
  hideInResponse,
  isObject,
  moveChanges,
  type SentConfig,
} from './axios-redact.ts'
import { cameByRedirect, guardOf, guardTransportAndFetch, watchedFetch } from './axios-redirects.ts'
import type {
  AxiosAdapter,
  AxiosAdapterOption,
  AxiosConfig,
  AxiosErrorLike,
  AxiosLike,
  AxiosRequestInterceptor,
  AxiosResponse,
} from './axios-types.ts'
import { boundaryOf, canSendAgain, isFormData, multipartBlob, snapshotOf, watchBody } from './body.ts'
import { deleteHeader, getHeader, isHeaders } from './headers.ts'
import { realOf } from './stand-in.ts'

export { createAuthInterceptor } from './axios-interceptor.ts'
export type { AxiosLike, AxiosRequestInterceptor } from './axios-types.ts'

const DEFAULT_ADAPTERS = ['xhr', 'http', 'fetch']

const attached = new WeakSet<AxiosLike>()

/**
 * Attaches the token to the calls of an axios instance below the environment's `apiUrls`. When an API answers 401
 * (RFC 6750 §3.1), it renews the token once and repeats the call. The token appears in no error and no response.
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
  const attachment = new Attachment(instance, context)
  const wrap: AxiosRequestInterceptor = (config) =>
    attachment.wrapAdapter(config as object as AxiosConfig) as typeof config
  // Synchronous, so that axios does not wait where no other interceptor makes it wait.
  const id = instance.interceptors.request.use(wrap, null, { synchronous: true })
  attached.add(instance)
  return () => {
    if (!attachment.active) return
    attachment.active = false
    attached.delete(instance)
    instance.interceptors.request.eject(id)
  }
}

function assertAttachable(instance: AxiosLike, { header, headerKey }: AttachContext): void {
  const reject = (reason: string): never => {
    throw new ConfigurationError('The token cannot be attached', [{ option: 'instance', reason }])
  }
  if (typeof instance?.interceptors?.request?.use !== 'function') reject('must be an axios instance')
  if (attached.has(instance)) reject('already has a token attached; detach that one first')
  const defaults: unknown = Reflect.get(instance.defaults, 'headers')
  for (const headers of [defaults, ...Object.values(defaults ?? {})]) {
    if (getHeader(headers, headerKey) !== undefined)
      reject(
        `has a default header ${header}, which would replace the token; delete it from instance.defaults.headers`,
      )
  }
}

/** One `attachAuth`. */
class Attachment {
  /** False once detached: calls that are under way then go on without the token. */
  active = true
  readonly #instance: AxiosLike
  readonly #context: AttachContext
  readonly #copy: AxiosCopy
  /** The wrapper of the instance's default adapter, which most calls have. */
  #default: { readonly original: AxiosAdapterOption | undefined; readonly wrapper: AxiosAdapter } | undefined

  constructor(instance: AxiosLike, context: AttachContext) {
    this.#instance = instance
    this.#context = context
    this.#copy = axiosCopyOf(instance)
  }

  /** Returns the config, or a copy if it is frozen. */
  wrapAdapter(given: AxiosConfig): AxiosConfig {
    const config = writable(given)
    this.#prepare(config) // a call may be canceled, and its config logged, before its adapter runs
    config.adapter = this.#wrapperOf(originalOf(config.adapter || undefined)) // axios ignores falsy values
    return config
  }

  #wrapperOf(given: AxiosAdapterOption | undefined): AxiosAdapter {
    if (this.#default !== undefined && isSame(given, this.#default.original)) return this.#default.wrapper
    const original = copyOfOption(given)
    const wrapper: AxiosAdapter = (final) => {
      const config = writable(final)
      config.adapter = copyOfOption(original)
      return this.#run(config, original ?? (this.#defaultAdapter || DEFAULT_ADAPTERS))
    }
    rememberWrapper(wrapper, { original, context: this.#context })
    if (isSame(original, this.#defaultAdapter)) this.#default = { original, wrapper }
    return wrapper
  }

  get #defaultAdapter(): AxiosAdapterOption | undefined {
    return (this.#instance.defaults as Partial<AxiosConfig>).adapter
  }

  #run(config: AxiosConfig, adapter: AxiosAdapterOption): Promise<AxiosResponse> {
    const context = this.#context
    const url = urlOf(config)
    if (this.active) this.#prepare(config, url) // another interceptor may have changed it
    const getsToken = this.active && configGetsToken(context, url, config)
    const call = new AxiosCall({ url, config, adapter, context, copy: this.#copy, getsToken })
    return getsToken ? authorize(call, context) : call.send().then((attempt) => attempt.settle())
  }

  /** Removes what would show a token or conflict with it. */
  #prepare(config: AxiosConfig, url?: string): void {
    hideAgents(config)
    stripInterceptorHeader(config, this.#context, url)
  }
}

/** Whether two adapter options are the same: axios copies lists for each call. */
function isSame(one: AxiosAdapterOption | undefined, other: AxiosAdapterOption | undefined): boolean {
  if (!Array.isArray(one) || !Array.isArray(other)) return one === other
  return one.length === other.length && one.every((adapter, at) => adapter === other[at])
}

function copyOfOption(option: AxiosAdapterOption | undefined): AxiosAdapterOption | undefined {
  return Array.isArray(option) ? [...option] : option
}

/** The parts of one call. */
interface CallParts {
  readonly url: string
  readonly config: AxiosConfig
  readonly adapter: AxiosAdapterOption
  readonly copy: AxiosCopy
  readonly context: AttachContext
  readonly getsToken: boolean
}

/** One axios request. Each send gets a copy of its config; responses and errors refer to the config itself. */
class AxiosCall implements AuthorizedCall<AxiosResponse> {
  readonly url: string
  readonly context: AttachContext
  readonly repeatable: boolean
  /** Whether the http adapter was redirected. */
  redirected = false
  readonly #parts: CallParts
  /** The body. One that can be sent again is a snapshot: the caller's later changes do not count. */
  #body: unknown

  constructor(parts: CallParts) {
    const { config, context, getsToken } = parts
    const data = realOf(config.data) // it may be a stand-in, if the config is sent again
    this.url = parts.url
    this.context = context
    this.repeatable = getsToken && context.renewOnStatus.length > 0 && canSendAgain(data)
    this.#parts = parts
    this.#body = this.repeatable ? this.#snapshot(data, config) : data
  }

  async send(token?: AccessToken): Promise<Attempt<AxiosResponse>> {
    const { config, copy, adapter } = this.#parts
    const { context } = this
    const header = token && { key: context.headerKey, value: context.headerValue(token) }
    const sent = copyForSend(config)
    const call: SentConfig = { config, sent, keys: Object.keys(sent), header }
    try {
      if (header !== undefined) this.#addToken(sent, header.value)
      const response = await copy.resolveAdapter(adapter, sent)(sent)
      cleanSent(call)
      hideInResponse(response, call)
      return new AxiosAttempt(this, call, { response })
    } catch (error) {
      cleanSent(call)
      const response = responseIn(error)
      hideInError(error, call)
      return new AxiosAttempt(this, call, { response, failure: { error } })
    }
  }

  wait<T>(start: (signal: AbortSignal | undefined) => Promise<T>): Promise<T> {
    const { config, copy } = this.#parts
    const wait = waitWithin(config, copy, start)
    const bodyToSend = watchBody(this.#body)
    return wait.finally(() => {
      this.#body = bodyToSend()
    })
  }

  #addToken(sent: AxiosConfig, value: string): void {
    const { env, beforeRedirect } = sent
    sent.headers[this.context.header] = value
    sent.beforeRedirect = guardOf(beforeRedirect, this)
    sent.env = { ...env, fetch: watchedFetch(env && Object.hasOwn(env, 'fetch') ? env.fetch : undefined) }
    guardTransportAndFetch(sent, this)
    if (sent.data === this.#body) return
    if (isFormData(sent.data)) {
      deleteHeader(sent.headers, 'content-type') // it lacks the boundary
      sent.headers['Content-Type'] = (this.#body as Blob).type
    }
    sent.data = this.#body
  }

  #snapshot(data: unknown, { headers }: AxiosConfig): unknown {
    if (!isFormData(data)) return snapshotOf(data as Parameters<typeof snapshotOf>[0])
    if (typeof this.#parts.adapter === 'function') return data // it may need the form itself
    return multipartBlob(data, boundaryOf(String(getHeader(headers, 'content-type'))))
  }
}

/** The response in an AxiosError or an error like it; an empty one if there is none. */
function responseIn(error: unknown): AxiosResponse {
  if (!isObject(error) || !('config' in error)) return {}
  const { response } = error as AxiosErrorLike
  return isObject(response) ? response : {}
}

interface Outcome {
  /** Empty if there is none. */
  readonly response: AxiosResponse
  /** The error that the call rejects with, whether or not there is a response. */
  readonly failure?: { readonly error: unknown }
}

class AxiosAttempt implements Attempt<AxiosResponse> {
  readonly #call: AxiosCall
  readonly #sent: SentConfig
  readonly #outcome: Outcome

  constructor(call: AxiosCall, sent: SentConfig, outcome: Outcome) {
    this.#call = call
    this.#sent = sent
    this.#outcome = outcome
  }

  get status(): number | undefined {
    return this.#outcome.response?.status
  }

  get challenge(): string {
    return String(this.#header('www-authenticate') ?? '')
  }

  get redirected(): boolean {
    return this.#call.redirected || cameByRedirect(this.#outcome.response.request)
  }

  settle(): AxiosResponse {
    const { response, failure } = this.#outcome
    moveChanges(this.#sent)
    if (failure !== undefined) throw failure.error
    return response
  }

  discard(): void {
    const { data } = this.#outcome.response
    if (!isObject(data)) return
    const length = Number(this.#header('content-length') || Number.NaN)
    if ('resume' in data && typeof data.resume === 'function' && length <= MAX_DRAINED_BYTES) data.resume()
    else if ('destroy' in data && typeof data.destroy === 'function') data.destroy()
    else if (data instanceof ReadableStream) data.cancel().catch(() => {})
  }

  /** A header of the response: adapters may return a record or a `Headers`, of which axios makes its own afterwards. */
  #header(key: string): unknown {
    const { headers } = this.#outcome.response
    return isHeaders(headers) ? headers.get(key) : getHeader(headers, key)
  }
}
