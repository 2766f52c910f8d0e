/** One axios request in the terms of an authorized call, made by the adapter that it was meant for. */
import type { AccessToken } from '../token/access-token.ts'
import type { AuthorizedCall } from './authorized-call.ts'
import type { AxiosCopy } from './axios-copy.ts'
import { hideInAnswer, hideInFailure } from './axios-prints.ts'
import { cameByRedirect, guardRedirects, takeOff, watchedFetch } from './axios-redirects.ts'
import { CallerLimits, headerOf, usesFetch } from './axios-request.ts'
import type { AxiosAdapterOption, AxiosAnswer, AxiosConfig, AxiosFailure } from './axios-types.ts'
import { type AttachContext, headerValue } from './context.ts'
import { isFormData, multipartBlob } from './multipart.ts'
import { canSendAgain } from './replay.ts'

const MAX_DRAINED_BYTES = 64 * 1024

/** A request that goes to one of the APIs. Its config is changed for the time of each send, and then put back. */
export class AxiosCall implements AuthorizedCall<AxiosAnswer> {
  readonly url: string
  readonly repeatable: boolean
  readonly #config: AxiosConfig
  readonly #adapter: AxiosAdapterOption
  readonly #context: AttachContext
  readonly #copy: AxiosCopy
  readonly #limits: CallerLimits
  #multipart: Blob | undefined
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
  }

  send(token: AccessToken): Promise<AxiosAnswer> {
    const config = this.#config
    const { beforeRedirect, fetchOptions, env, data } = config
    const putBack = (): void => {
      takeOff(config.headers, this.#context.headerKey)
      Object.assign(config, { beforeRedirect, fetchOptions, env, data })
    }
    let sent: Promise<AxiosAnswer>
    try {
      config.headers[this.#context.header] = headerValue(this.#context, token)
      guardRedirects(config, this.url, this.#context, () => {
        this.#redirected = true
      })
      if (typeof this.#adapter !== 'function') this.#prepareBuiltIn()
      sent = this.#copy.resolveAdapter(this.#adapter, config)(config)
    } catch (error) {
      putBack()
      throw error
    }
    return sent.then(
      (response) => {
        putBack()
        response.config = config
        hideInAnswer(response, this.#context.headerKey)
        return response
      },
      (error: unknown) => {
        putBack()
        if (isFailure(error)) {
          error.config = config
          if (error.response !== undefined) error.response.config = config
          hideInFailure(error, this.#context.headerKey)
        }
        throw error
      },
    )
  }

  statusOf(outcome: unknown): number | undefined {
    return answerIn(outcome)?.status
  }

  challengeOf(outcome: unknown): string {
    return headerOf(answerIn(outcome)?.headers, 'www-authenticate')
  }

  wasRedirected(outcome: unknown): boolean {
    return this.#redirected || cameByRedirect(answerIn(outcome)?.request)
  }

  discard(outcome: unknown): void {
    const answer = answerIn(outcome)
    const { data } = answer ?? {}
    if (typeof data !== 'object' || data === null) return
    const length = Number(headerOf(answer?.headers, 'content-length') || Number.NaN)
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

  /** A fetch that tells of redirects, and a form that has the same bytes each time. */
  #prepareBuiltIn(): void {
    const config = this.#config
    if (usesFetch(this.#adapter)) config.env = { ...config.env, fetch: watchedFetch(config.env?.fetch) }
    if (!this.repeatable || !isFormData(config.data)) return
    this.#multipart ??= multipartBlob(config.data)
    config.data = this.#multipart
    takeOff(config.headers, 'content-type') // without the boundary it would be of no use
    config.headers['Content-Type'] = this.#multipart.type
  }
}

function isFailure(error: unknown): error is AxiosFailure {
  return typeof error === 'object' && error !== null && 'config' in error
}

function answerIn(outcome: unknown): AxiosAnswer | undefined {
  if (typeof outcome !== 'object' || outcome === null) return undefined
  return outcome instanceof Error ? (outcome as AxiosFailure).response : outcome
}
