/** Takes the token out of everything that a print of an axios answer or error shows. */
import { errorMonitor } from 'node:events'
import { inspect } from 'node:util'
import { takeOff } from './axios-redirects.ts'
import { headerOf } from './axios-request.ts'
import type { AxiosAnswer, AxiosConfig, AxiosFailure } from './axios-types.ts'

/** What node's answers lead back to the request with: IncomingMessage by names, an HTTP/2 stream by symbols. */
const WAYS_BACK = new Set<unknown>(['req', 'socket', 'client', 'sent-headers', 'session'])

const AGENTS = ['httpAgent', 'httpsAgent'] as const

/** The header that was put on a call. */
export interface PutHeader {
  /** Its name in lower case. */
  readonly key: string
  readonly value: string
}

/** The streams whose errors are looked after already: a mock may give the same one each time. */
const watched = new WeakSet<object>()

/**
 * Hides the request, which holds the raw text of its headers; `response.request` still works. Where nothing was put
 * on, it leads by its agent to the requests of other calls, which may have the token. What cannot be hidden (of
 * frozen objects, say) is handed out as it is: the call counts for more.
 */
export function hideInAnswer(response: unknown, put?: PutHeader): void {
  if (!isObject(response)) return
  try {
    hideRequest(response, put)
    const { data } = response as AxiosAnswer
    if (isNodeStream(data)) hideInStream(data, put)
  } catch {
    // said above
  }
}

function hideInStream(data: NodeStream, put: PutHeader | undefined): void {
  for (const key of Reflect.ownKeys(data)) {
    if (WAYS_BACK.has(typeof key === 'symbol' ? key.description : key)) hide(data, key)
  }
  if (watched.has(data)) return
  watched.add(data)
  // A stream may fail, or be cancelled, long after the answer was handed out: with an AxiosError that has a request.
  data.on(errorMonitor, (error) => hideInFailure(error, put))
}

/** Hides a stream that was sent: it knows the request that it was piped into. It could not be sent again anyway. */
export function hideSentStream(config: AxiosConfig): void {
  if (isNodeStream(config.data)) hide(config, 'data')
}

/** Hides the same in an error, and in those that caused it. `error.request` still tells "no answer" from "bad answer". */
export function hideInFailure(error: unknown, put?: PutHeader): void {
  const seen = new Set<unknown>()
  try {
    for (let failure = error; isObject(failure) && !seen.has(failure); ) {
      seen.add(failure)
      const { config, response, cause } = failure as Partial<AxiosFailure>
      hideRequest(failure, put)
      hideInAnswer(response, put)
      if (put !== undefined && isObject(config?.headers)) takeOffPut(config.headers, put)
      failure = cause
    }
  } catch {
    // as in an answer
  }
}

/** Takes the token off the headers of another config, such as a copy; what somebody else put there stays. */
function takeOffPut(headers: Record<string, unknown>, { key, value }: PutHeader): void {
  if (headerOf(headers, key) === value) takeOff(headers, key)
}

/**
 * Keeps the caller's own agents out of prints of a config: their sockets know the requests of all calls. They stay
 * enumerable, because axios copies only such properties when a config is sent again.
 */
export function hideAgents(config: AxiosConfig): void {
  if (config.httpAgent === undefined && config.httpsAgent === undefined) return
  const shown = (): object => {
    const copy: AxiosConfig = { ...config }
    for (const key of AGENTS) if (copy[key] !== undefined) copy[key] = '[Agent]'
    return copy
  }
  showAs(config, shown)
}

/** What prints and JSON make of an object. */
function showAs(holder: object, shown: () => unknown): void {
  for (const key of ['toJSON', inspect.custom]) {
    Reflect.defineProperty(holder, key, {
      value: shown,
      configurable: true,
      writable: true,
      enumerable: false,
    })
  }
}

function hideRequest(holder: { readonly request?: unknown }, put: PutHeader | undefined): void {
  const { request } = holder
  if (request === undefined) return
  hide(holder, 'request')
  if (put === undefined || !isObject(request)) return
  // The fetch adapter's Request has been sent, and can be cleaned; node's ClientRequest cannot.
  if (isFetchRequest(request)) {
    if (request.headers.get(put.key) === put.value) request.headers.delete(put.key)
    return
  }
  // Sockets and copies of errors lead back to it, and to what follow-redirects made of it, by other ways.
  const { _currentRequest, _redirectable } = request as Partial<Record<string, unknown>>
  for (const one of [request, _currentRequest, _redirectable]) {
    if (isObject(one) && ('getHeader' in one || '_currentRequest' in one)) showAs(one, () => '[Request]')
  }
}

/** Whether an error is axios', or made like one. */
export function isFailure(error: unknown): error is AxiosFailure {
  return isObject(error) && 'config' in error
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/** Makes a property an accessor that no print shows the value of. */
function hide(holder: object, key: PropertyKey): void {
  let value: unknown = Reflect.get(holder, key)
  if (value === undefined) return
  Reflect.defineProperty(holder, key, {
    configurable: true,
    enumerable: false,
    get: () => value,
    set: (replacement: unknown) => {
      value = replacement
    },
  })
}

interface NodeStream {
  on(event: typeof errorMonitor, listener: (error: unknown) => void): void
}

function isNodeStream(data: unknown): data is NodeStream {
  return isObject(data) && 'pipe' in data && 'on' in data && typeof data.on === 'function'
}

function isFetchRequest(request: unknown): request is Request {
  return isObject(request) && 'headers' in request && request.headers instanceof Headers
}
