/** A request as axios sends it: where it really goes, and how long its caller waits. */
import { startTimer } from '../clock.ts'
import { onAbort } from '../waiting.ts'
import type { AxiosCopy } from './axios-copy.ts'
import type { AxiosConfig } from './axios-types.ts'
import { type AttachContext, type WithheldReason, whyWithheld } from './context.ts'

const ABSOLUTE = /^([a-z][a-z\d+\-.]*:)?\/\//i

/** The URL that axios' adapters call, but for the params: `baseURL` and `url` as axios puts them together. */
export function urlOf({ baseURL, url, allowAbsoluteUrls }: AxiosConfig): string {
  // Versions of axios differ in what they make of these.
  if (typeof (allowAbsoluteUrls ?? true) !== 'boolean' || typeof (baseURL ?? '') !== 'string') return ''
  if (baseURL && typeof (url ?? '') !== 'string') return ''
  const given = url === undefined || url === null ? '' : String(url)
  if (!baseURL || (allowAbsoluteUrls !== false && ABSOLUTE.test(given))) return given
  return given === '' ? baseURL : joined(baseURL, given)
}

/** Axios takes all slashes between the two for one. */
function joined(baseURL: string, url: string): string {
  let end = baseURL.length
  while (baseURL[end - 1] === '/') end -= 1
  let start = 0
  while (url[start] === '/') start += 1
  return `${baseURL.slice(0, end)}/${url.slice(start)}`
}

/** Reads the URL of one call after the other. A call often has the same as the one before. */
export class UrlReader {
  #baseURL: string | undefined
  #given = ''
  #url = ''

  urlOf(config: AxiosConfig): string {
    const { baseURL, url } = config
    if (typeof url !== 'string' || typeof baseURL !== 'string' || config.allowAbsoluteUrls !== true)
      return urlOf(config)
    if (url !== this.#given || baseURL !== this.#baseURL) {
      this.#url = urlOf(config)
      this.#given = url
      this.#baseURL = baseURL
    }
    return this.#url
  }
}

/** Whether a header is set, as axios sees it, under any spelling of its name. */
export function hasOwnHeader(headers: Record<string, unknown>, key: string): boolean {
  for (const name in headers) {
    if (name.length !== key.length || name.toLowerCase() !== key) continue
    if (headers[name] !== undefined && Object.hasOwn(headers, name)) return true
  }
  return false
}

/** Why a request with this final URL goes without the token; undefined where it gets it. */
export function whyConfigWithheld(
  context: AttachContext,
  url: string,
  { headers, auth, socketPath }: AxiosConfig,
): WithheldReason | undefined {
  if (socketPath) return 'destination' // a socket of this machine, whatever the URL says
  const ownHeader = hasOwnHeader(headers, context.headerKey)
  return whyWithheld(context, url, ownHeader, Boolean(auth))
}

/** A header of an answer, '' where there is none. Adapters give AxiosHeaders, mocks plain objects. */
export function headerOf(headers: unknown, key: string): string {
  if (typeof headers !== 'object' || headers === null) return ''
  for (const name in headers) {
    if (name.length === key.length && name.toLowerCase() === key && Object.hasOwn(headers, name))
      return String(Reflect.get(headers, name))
  }
  return ''
}

/** The limits that a caller set on a request: `signal`, `cancelToken` and `timeout`. */
export class CallerLimits {
  readonly #config: AxiosConfig
  readonly #copy: AxiosCopy
  #timedOut = false

  constructor(config: AxiosConfig, copy: AxiosCopy) {
    this.#config = config
    this.#copy = copy
  }

  /** Whether the caller has cancelled the call. */
  canceled(): boolean {
    const { signal, cancelToken } = this.#config
    return signal?.aborted === true || cancelToken?.reason !== undefined
  }

  /** Whether one of the limits has ended the call. */
  ended(): boolean {
    return this.#timedOut || this.canceled()
  }

  /**
   * Waits until the limits end it. A time-out rejects with axios' own error; after a cancellation axios itself
   * puts its CanceledError in the place of whatever its adapter rejects with.
   */
  wait<T>(start: (signal: AbortSignal | undefined) => Promise<T>): Promise<T> {
    const { cancelToken, signal, timeout } = this.#config
    const timeoutMs = Number.parseInt(String(timeout), 10)
    if (cancelToken === undefined && !(timeoutMs > 0)) return start(signal)
    return new Promise<T>((resolve, reject) => {
      const left = new AbortController()
      const stopFollowing = onAbort(signal, (reason) => left.abort(reason))
      const pending = start(left.signal)
      const done = (): void => {
        stopTimer?.()
        stopFollowing()
        cancelToken?.unsubscribe(leave)
        left.abort()
      }
      const leave = (reason: unknown): void => {
        done()
        reject(reason)
      }
      const onTime = (): void => {
        this.#timedOut = true
        this.#copy.rejectTimeout(this.#config).catch(leave)
      }
      const stopTimer = timeoutMs > 0 ? startTimer(onTime, timeoutMs, { keepsAlive: true }) : undefined
      pending.finally(done).then(resolve, reject)
      cancelToken?.subscribe(leave)
    })
  }
}
