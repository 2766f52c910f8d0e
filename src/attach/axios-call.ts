/** One axios request in the terms of an authorized call, made by the adapter that it was meant for. */
import type { AccessToken } from '../token/access-token.ts'
import { type AuthorizedCall, MAX_DRAINED_BYTES } from './authorized-call.ts'
import type { AxiosCopy } from './axios-copy.ts'
import {
  hideAgents,
  hideInAnswer,
  hideInFailure,
  hideSentStream,
  isFailure,
  isObject,
  type PutHeader,
} from './axios-prints.ts'
import {
  cameByRedirect,
  type Guarded,
  guardFurther,
  guardOf,
  mayLeadElsewhere,
  takeOff,
  watchedFetch,
} from './axios-redirects.ts'
import { CallerLimits, headerOf } from './axios-request.ts'
import type { AxiosAdapterOption, AxiosAnswer, AxiosConfig } from './axios-types.ts'
import { type AttachContext, headerValue } from './context.ts'
import { boundaryOf, isFormData, multipartBlob } from './multipart.ts'
import { canSendAgain, snapshotOf } from './replay.ts'

/** What only some sends change; all put the header, the guard of redirects and the watched fetch on the config. */
const UNUSUAL = ['transport', 'fetchOptions', 'data'] as const

type Put = 'env' | 'beforeRedirect' | (typeof UNUSUAL)[number]

/** A request that goes to one of the APIs. Its config is changed for the time of each send, and then put back. */
export class AxiosCall implements AuthorizedCall<AxiosAnswer>, Guarded {
  readonly url: string
  readonly context: AttachContext
  readonly repeatable: boolean
  readonly #config: AxiosConfig
  readonly #adapter: AxiosAdapterOption
  readonly #copy: AxiosCopy
  #limits: CallerLimits | undefined
  /** The body as it was at the time of the call; where it can be sent again, what the caller does with his changes nothing. */
  readonly #body: unknown
  /** The config's own values of what a send changes; undefined between sends. */
  #own: Pick<AxiosConfig, Put> | undefined
  #put: PutHeader | undefined
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
    hideAgents(config)
  }

  send(token: AccessToken): Promise<AxiosAnswer> {
    const config = this.#config
    const { context } = this
    const value = headerValue(context, token)
    this.#put = { key: context.headerKey, value }
    const { env, beforeRedirect } = config
    this.#own = { env, beforeRedirect }
    try {
      config.headers[context.header] = value
      config.beforeRedirect = guardOf(beforeRedirect, this)
      if (config.data !== this.#body || mayLeadElsewhere(config, this)) this.#putUnusual(this.#own)
      config.env = { ...env, fetch: watchedFetch(env?.fetch) }
      const adapter = this.#adapter
      return (typeof adapter === 'function' ? adapter : this.#copy.resolveAdapter(adapter, config))(config)
    } catch (error) {
      this.#putBack()
      throw error
    }
  }

  answered(answer: AxiosAnswer): void {
    this.#putBack()
    if (isObject(answer) && answer.config !== this.#config) Reflect.set(answer, 'config', this.#config)
    hideInAnswer(answer, this.#put)
  }

  failed(error: unknown): AxiosAnswer | undefined {
    this.#putBack()
    const answer = isFailure(error) && isObject(error.response) ? error.response : undefined
    if (isFailure(error)) Reflect.set(error, 'config', this.#config)
    if (answer !== undefined) Reflect.set(answer, 'config', this.#config)
    hideInFailure(error, this.#put)
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
    return this.#limits.wait(start)
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

  #putUnusual(own: Pick<AxiosConfig, Put>): void {
    const config = this.#config
    for (const key of UNUSUAL) Reflect.set(own, key, config[key])
    guardFurther(config, this)
    if (config.data === this.#body) return
    if (isFormData(config.data)) {
      takeOff(config.headers, 'content-type') // without the boundary it would be of no use
      config.headers['Content-Type'] = (this.#body as Blob).type
    }
    config.data = this.#body
  }

  #putBack(): void {
    const config = this.#config
    const own = this.#own
    if (own === undefined) return
    this.#own = undefined
    takeOff(config.headers, this.context.headerKey)
    restore(config, own, 'env')
    restore(config, own, 'beforeRedirect')
    if ('data' in own) for (const key of UNUSUAL) restore(config, own, key)
    if (!this.repeatable) hideSentStream(config)
  }
}

/** Puts a field back as it was, and takes it off again where there was none. */
function restore<Key extends Put>(config: AxiosConfig, own: Pick<AxiosConfig, Key>, key: Key): void {
  const value = own[key]
  if (value === undefined) delete config[key]
  else config[key] = value
}
