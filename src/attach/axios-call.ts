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
} from './axios-prints.ts'
import { cameByRedirect, guardRedirects, takeOff, watchedFetch } from './axios-redirects.ts'
import { CallerLimits, headerOf } from './axios-request.ts'
import type { AxiosAdapterOption, AxiosAnswer, AxiosConfig } from './axios-types.ts'
import { type AttachContext, headerValue } from './context.ts'
import { boundaryOf, isFormData, multipartBlob } from './multipart.ts'
import { canSendAgain, snapshotOf } from './replay.ts'

/** A request that goes to one of the APIs. Its config is changed for the time of each send, and then put back. */
export class AxiosCall implements AuthorizedCall<AxiosAnswer> {
  readonly url: string
  readonly repeatable: boolean
  readonly #config: AxiosConfig
  readonly #adapter: AxiosAdapterOption
  readonly #context: AttachContext
  readonly #copy: AxiosCopy
  readonly #limits: CallerLimits
  /** The body as it was at the time of the call; where it can be sent again, what the caller does with his changes nothing. */
  readonly #body: unknown
  #redirected = false

  constructor(
    url: string,
    config: AxiosConfig,
    adapter: AxiosAdapterOption,
    { context, copy }: { context: AttachContext; copy: AxiosCopy },
  ) {
    this.url = url
    this.repeatable = context.renewOnStatus.length > 0 && canSendAgain(config.data)
    this.#config = config
    this.#adapter = adapter
    this.#context = context
    this.#copy = copy
    this.#limits = new CallerLimits(config, copy)
    this.#body = this.repeatable ? this.#kept(config) : config.data
    hideAgents(config)
  }

  send(token: AccessToken): Promise<AxiosAnswer> {
    const config = this.#config
    const { beforeRedirect, transport, fetchOptions, env, data } = config
    const putBack = (): void => {
      takeOff(config.headers, this.#context.headerKey)
      restore(config, 'beforeRedirect', beforeRedirect)
      restore(config, 'transport', transport)
      restore(config, 'fetchOptions', fetchOptions)
      restore(config, 'env', env)
      restore(config, 'data', data)
      hideSentStream(config)
    }
    const put = { key: this.#context.headerKey, value: headerValue(this.#context, token) }
    let sent: Promise<AxiosAnswer>
    try {
      config.headers[this.#context.header] = put.value
      guardRedirects(config, this.url, this.#context, () => {
        this.#redirected = true
      })
      config.env = { ...config.env, fetch: watchedFetch(config.env?.fetch) }
      this.#putBody(config)
      sent = this.#copy.resolveAdapter(this.#adapter, config)(config)
    } catch (error) {
      putBack()
      throw error
    }
    return sent.then(
      (response) => {
        putBack()
        Reflect.set(response, 'config', config)
        hideInAnswer(response, put)
        return response
      },
      (error: unknown) => {
        putBack()
        if (isFailure(error)) {
          Reflect.set(error, 'config', config)
          if (isObject(error.response)) Reflect.set(error.response, 'config', config)
        }
        hideInFailure(error, put)
        throw error
      },
    )
  }

  answerIn(error: unknown): AxiosAnswer | undefined {
    return isFailure(error) && isObject(error.response) ? error.response : undefined
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
    return this.#limits.wait(start)
  }

  ended(): boolean {
    return this.#limits.ended()
  }

  #kept({ data, headers }: AxiosConfig): unknown {
    if (!isFormData(data)) return snapshotOf(data as Parameters<typeof snapshotOf>[0])
    if (typeof this.#adapter === 'function') return data // it may want the form itself
    return multipartBlob(data, boundaryOf(headerOf(headers, 'content-type')))
  }

  #putBody(config: AxiosConfig): void {
    if (this.#body === config.data) return
    if (isFormData(config.data)) {
      takeOff(config.headers, 'content-type') // without the boundary it would be of no use
      config.headers['Content-Type'] = (this.#body as Blob).type
    }
    config.data = this.#body
  }
}

/** Puts a field back as it was, and takes it off again where there was none. */
function restore<Key extends keyof AxiosConfig>(
  config: AxiosConfig,
  key: Key,
  value: AxiosConfig[Key],
): void {
  if (value === undefined) delete config[key]
  else config[key] = value
}
