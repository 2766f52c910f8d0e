/** A request as axios sends it: its config, where it goes, and how long its caller waits. */
import { startTimer } from '../clock.ts'
import { onAbort, untilAborted } from '../waiting.ts'
import { type AttachContext, getsToken } from './authorize.ts'
import type { AxiosCopy } from './axios-copy.ts'
import type { AxiosAdapter, AxiosAdapterOption, AxiosConfig } from './axios-types.ts'
import { getHeader } from './headers.ts'

/** Objects as axios makes its configs. Copying to them is several times faster than to objects without a prototype. */
class Bare {}
Object.setPrototypeOf(Bare.prototype, null)
Reflect.deleteProperty(Bare.prototype, 'constructor')
Reflect.defineProperty(Bare.prototype, 'hasOwnProperty', {
  value: Object.prototype.hasOwnProperty,
  writable: true, // some versions of axios copy it as a property of its own
})

/** The config, or a copy if it is frozen, sealed or not extensible. */
export function writable(config: AxiosConfig): AxiosConfig {
  return Object.isExtensible(config) ? config : copyOf(config)
}

/**
 * A shallow copy. What a config inherits becomes its own (except from Object.prototype), because the URL that decides about
 * the token must be the one that is sent.
 */
export function copyOf(config: AxiosConfig): AxiosConfig {
  const proto: unknown = Object.getPrototypeOf(config)
  if (proto !== null && proto !== Bare.prototype) return flatCopyOf(config)
  const copy = new Bare() as AxiosConfig
  for (const key of Object.keys(config)) copy[key] = config[key]
  for (const key of Object.getOwnPropertySymbols(config)) Reflect.set(copy, key, Reflect.get(config, key))
  return copy
}

function flatCopyOf(config: AxiosConfig): AxiosConfig {
  const copy = { ...config }
  for (let proto = Object.getPrototypeOf(config); proto !== null; proto = Object.getPrototypeOf(proto))
    for (const key of Object.getOwnPropertyNames(proto)) if (!(key in copy)) copy[key] = config[key]
  return copy
}

const ABSOLUTE = /^([a-z][a-z\d+\-.]*:)?\/\//i

/** The URL that axios' adapters call, without the params: `baseURL` and `url` as axios combines them. */
export function urlOf({ baseURL, url, allowAbsoluteUrls }: AxiosConfig): string {
  const isUsual =
    isNothingOr('boolean', allowAbsoluteUrls) &&
    isNothingOr('string', baseURL) &&
    (!baseURL || isNothingOr('string', url))
  if (!isUsual) return '' // versions of axios treat these differently
  const given = String(url ?? '')
  if (!baseURL || (allowAbsoluteUrls !== false && ABSOLUTE.test(given))) return given
  return given === '' ? baseURL : joined(baseURL, given)
}

function isNothingOr(type: string, value: unknown): boolean {
  return value === undefined || value === null || typeof value === type
}

/** axios joins the two with exactly one slash. */
function joined(baseURL: string, url: string): string {
  let end = baseURL.length
  while (baseURL[end - 1] === '/') end -= 1
  let start = 0
  while (url[start] === '/') start += 1
  return `${baseURL.slice(0, end)}/${url.slice(start)}`
}

/** Whether a request with this final URL gets the token. Emits `token-withheld` where it does not. */
export function configGetsToken(
  context: AttachContext,
  url: string,
  { headers, auth, socketPath }: AxiosConfig,
): boolean {
  if (socketPath) {
    context.emitWithheld('destination', url) // a local socket, whatever the URL says
    return false
  }
  const header = getHeader(headers, context.headerKey) !== undefined
  return getsToken(context, url, { header, credentials: Boolean(auth) })
}

/**
 * Waits until the caller's `signal`, `cancelToken` or `timeout` ends the wait. A timeout rejects with axios' own error;
 * after a cancellation axios itself replaces any rejection of its adapter by its CanceledError.
 */
export function waitWithin<T>(
  config: AxiosConfig,
  copy: AxiosCopy,
  start: (signal: AbortSignal | undefined) => Promise<T>,
): Promise<T> {
  const { cancelToken, signal, timeout } = config
  const timeoutMs = Number.parseInt(String(timeout), 10)
  if (cancelToken === undefined && !(timeoutMs > 0)) return untilAborted(start(signal), signal)
  return new Promise<T>((resolve, reject) => {
    const left = new AbortController()
    const stops: (() => void)[] = []
    const stop = (): void => stops.forEach((one) => void one())
    const leave = (reason: unknown): void => {
      stop()
      left.abort(reason)
      reject(left.signal.reason)
    }
    const onTime = (): void => void copy.rejectTimeout(config).catch(leave)
    if (timeoutMs > 0) stops.push(startTimer(onTime, timeoutMs))
    cancelToken?.subscribe(leave)
    stops.push(() => cancelToken?.unsubscribe(leave))
    stops.push(onAbort(signal, leave))
    start(left.signal).finally(stop).then(resolve, reject)
  })
}

/** The adapter option that `attachAuth` wrapped, and the attachment. */
interface Wrapped {
  readonly original: AxiosAdapterOption | undefined
  readonly context: AttachContext
}

const wrappers = new WeakMap<object, Wrapped>()

/** Remembers an adapter made by `attachAuth`. */
export function rememberWrapper(wrapper: AxiosAdapter, wrapped: Wrapped): void {
  wrappers.set(wrapper, wrapped)
}

/** The adapter option behind one of ours; any other option is returned as it is. */
export function originalOf(given: AxiosAdapterOption | undefined): AxiosAdapterOption | undefined {
  const wrapped = wrappers.get(given as object)
  return wrapped === undefined ? given : wrapped.original
}

/** Whether an adapter is one of ours and attaches a token to calls of this URL. */
export function attachesTo(given: AxiosAdapterOption | undefined, url: string): boolean {
  return wrappers.get(given as object)?.context.destinations(url).api !== undefined
}
