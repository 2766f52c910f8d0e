/** One axios request in the terms of an authorized call, made by the adapter that it was meant for. */
import type { AccessToken } from '../token/access-token.ts'
import { type AuthorizedCall, MAX_DRAINED_BYTES } from './authorized-call.ts'
import type { AxiosCopy } from './axios-copy.ts'
import {
  copyForSend,
  hideAgents,
  hideInAnswer,
  hideInFailure,
  hideSentStream,
  isFailure,
  isObject,
  type SentConfig,
} from './axios-redact.ts'
import {
  cameByRedirect,
  type Guarded,
  guardFurther,
  guardOf,
  mayLeadElsewhere,
  takeOff,
  watchedFetch,
} from './axios-redirects.ts'
import { CallerLimits, hasOwnHeader, headerOf } from './axios-request.ts'
import type { AxiosAdapterOption, AxiosAnswer, AxiosConfig } from './axios-types.ts'
import { type AttachContext, headerValue } from './context.ts'
import { boundaryOf, isFormData, multipartBlob } from './multipart.ts'
import { canSendAgain, keepForLater, snapshotOf } from './replay.ts'

/** A request that goes to one of the APIs. Each send gets a copy of its config; answers and errors have the config itself. */
export class AxiosCall implements AuthorizedCall<AxiosAnswer>, Guarded {
  readonly url: string
  readonly context: AttachContext
  readonly repeatable: boolean
  readonly #config: AxiosConfig
  readonly #adapter: AxiosAdapterOption
  readonly #copy: AxiosCopy
  #limits: CallerLimits | undefined
  /** The body as it was at the time of the call; where it can be sent again, what the caller does with his changes nothing. */
  #body: unknown
  #call: SentConfig | undefined
  #redirected = false

  constructor(
    url: string,
    config: AxiosConfig,
    adapter: AxiosAdapterOption,
    { context, copy }: { context: AttachContext; copy: AxiosCopy },
  ) {
    this.url = url
    this.context = context
    const { data } = config
    this.repeatable = context.renewOnStatus.length > 0 && canSendAgain(data)
    this.#config = config
    this.#adapter = adapter
    this.#copy = copy
    this.#body = this.repeatable ? this.#kept(data, config) : data
  }

  send(token: AccessToken): Promise<AxiosAnswer> {
    const config = this.#config
    const { context } = this
    const sent = copyForSend(config)
    const value = headerValue(context, token)
    this.#call = { config, sent, header: { key: context.headerKey, value } }
    sent.headers[context.header] = value
    sent.beforeRedirect = guardOf(config.beforeRedirect, this)
    const { env } = config
    sent.env = { ...env, fetch: watchedFetch(env && Object.hasOwn(env, 'fetch') ? env.fetch : undefined) }
    if (mayLeadElsewhere(sent, this)) guardFurther(sent, this)
    if (config.data !== this.#body) this.#keepBody(sent)
    const adapter = this.#adapter
    return (typeof adapter === 'function' ? adapter : this.#copy.resolveAdapter(adapter, sent))(sent)
  }

  answered(answer: AxiosAnswer): void {
    const call = this.#settle()
    if (isObject(answer) && answer.config === undefined) Reflect.set(answer, 'config', this.#config)
    hideInAnswer(answer, call)
  }

  failed(error: unknown): AxiosAnswer | undefined {
    const call = this.#settle()
    const answer = isFailure(error) && isObject(error.response) ? error.response : undefined
    if (isFailure(error)) Reflect.set(error, 'config', this.#config)
    if (answer !== undefined) Reflect.set(answer, 'config', this.#config)
    hideInFailure(error, call)
    return answer
  }

  onRedirect(): void {
    this.#redirected = true
  }

  statusOf({ status }: AxiosAnswer): number | undefined {
    return status
  }

  challengeOf({ headers }: AxiosAnswer): string {
    return headerOf(headers, 'www-authenticate')
  }

  wasRedirected({ request }: AxiosAnswer): boolean {
    return this.#redirected || cameByRedirect(request)
  }

  discard({ data, headers }: AxiosAnswer): void {
    if (typeof data !== 'object' || data === null) return
    const length = Number(headerOf(headers, 'content-length') || Number.NaN)
    if ('resume' in data && typeof data.resume === 'function' && length <= MAX_DRAINED_BYTES) data.resume()
    else if ('destroy' in data && typeof data.destroy === 'function') data.destroy()
    else if (data instanceof ReadableStream) data.cancel().catch(() => {})
  }

  wait<T>(start: (signal: AbortSignal | undefined) => Promise<T>): Promise<T> {
    this.#limits ??= new CallerLimits(this.#config, this.#copy)
    const wait = this.#limits.wait(start)
    if (this.repeatable) return wait
    const bodyToSend = keepForLater(this.#body)
    return wait.finally(() => {
      this.#body = bodyToSend()
    })
  }

  ended(): boolean {
    return this.#limits?.ended() === true
  }

  #kept(data: unknown, config: AxiosConfig): unknown {
    if (data === undefined || typeof data === 'string') return data
    if (!isFormData(data)) return snapshotOf(data as Parameters<typeof snapshotOf>[0])
    if (typeof this.#adapter === 'function') return data // it may want the form itself
    return multipartBlob(data, boundaryOf(headerOf(config.headers, 'content-type')))
  }

  #keepBody(sent: AxiosConfig): void {
    if (isFormData(sent.data)) {
      takeOff(sent.headers, 'content-type') // without the boundary it would be of no use
      sent.headers['Content-Type'] = (this.#body as Blob).type
    }
    sent.data = this.#body
  }

  /** Leaves nothing on the copy. What an adapter wrote on its headers (`User-Agent`, say) goes where axios has it. */
  #settle(): SentConfig {
    const call = this.#call as SentConfig
    const { headers } = this.#config
    takeOff(call.sent.headers, this.context.headerKey)
    hideAgents(call.sent)
    for (const name of Object.keys(call.sent.headers)) {
      if (!(name in headers) && !hasOwnHeader(headers, name.toLowerCase()))
        headers[name] = call.sent.headers[name]
    }
    if (!this.repeatable) hideSentStream(this.#config)
    return call
  }
}
