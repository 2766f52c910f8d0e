/** Keeps the token out of everything that axios' answers and errors show, however they are inspected or copied. */
import { errorMonitor } from 'node:events'
import { HIDDEN } from '../redact.ts'
import type { AxiosAnswer, AxiosConfig, AxiosFailure } from './axios-types.ts'
import { deleteHeader, getHeader } from './headers.ts'
import { realOf, standInFor } from './stand-in.ts'

/** What node's answers lead back to the request with: IncomingMessage by names, an HTTP/2 stream by symbols. */
const WAYS_BACK = new Set<unknown>(['req', 'socket', 'client', 'sent-headers', 'session'])

const AGENTS = ['httpAgent', 'httpsAgent'] as const

/** A config as it was sent: a copy of the caller's, which callers do not get. */
export interface SentConfig {
  /** The caller's own, which answers and errors have. */
  readonly config: AxiosConfig
  readonly sent: AxiosConfig
  /** The header with the token, its name in lower case; none on a call without the token. */
  readonly header?: { readonly key: string; readonly value: string } | undefined
}

/** The streams whose errors are looked after already: a mock may give the same one each time. */
const watched = new WeakSet<object>()

/**
 * Puts stand-ins in the place of the caller's agents and of undici's dispatcher: they know the requests of all calls, with
 * their tokens. They stay enumerable, because axios copies only such properties when a config is sent again.
 */
export function hideAgents(config: AxiosConfig): void {
  changeAgents(config, standInFor)
}

/** A copy of a config for one send, with the caller's agents and headers of its own. */
export function copyForSend(config: AxiosConfig): AxiosConfig {
  const copy = copyOf(config)
  copy.headers = Object.assign(Object.create(Object.getPrototypeOf(config.headers)), config.headers)
  changeAgents(copy, realOf)
  return copy
}

function changeAgents(config: AxiosConfig, change: (agent: unknown) => unknown): void {
  for (const key of AGENTS) if (Object.hasOwn(config, key)) config[key] = change(config[key])
  const { fetchOptions } = config
  if (!fetchOptions || !('dispatcher' in fetchOptions)) return
  const dispatcher = change(fetchOptions.dispatcher)
  // A copy: it may be that of the defaults.
  if (dispatcher !== fetchOptions.dispatcher)
    config.fetchOptions = { ...fetchOptions, dispatcher } as AxiosConfig['fetchOptions']
}

/** What a send itself changes on its copy; whatever else is changed there is the adapter's doing. */
const SENT = new Set<string>([
  ...AGENTS,
  'headers',
  'env',
  'beforeRedirect',
  'transport',
  'fetchOptions',
  'data',
])

/**
 * Ends a send: its copy shows no token any more, what the adapter changed on it is where axios has it, and what came of a
 * call with the token has the caller's own config.
 */
export function settle({ config, sent, header }: SentConfig, ...outcome: readonly unknown[]): void {
  hideAgents(sent)
  config.headers = sent.headers
  for (const key in sent) if (sent[key] !== config[key] && !SENT.has(key)) config[key] = sent[key]
  if (header === undefined) return
  deleteHeader(sent.headers, header.key)
  const { data } = config
  if (isNodeStream(data)) hide(config, 'data', () => data) // it knows the request that it was piped into
  for (const one of outcome) if (isObject(one) && 'config' in one) Reflect.set(one, 'config', config)
}

/** Objects on whose prototypes nothing is found: several times faster than those without one. */
class Bare {}
Object.setPrototypeOf(Bare.prototype, null)
Reflect.deleteProperty(Bare.prototype, 'constructor')

/** A shallow copy. Newer versions of axios keep what others put on Object.prototype out of their configs, and so does this. */
function copyOf(config: AxiosConfig): AxiosConfig {
  if (Object.getPrototypeOf(config) !== null) return { ...config }
  const copy = new Bare() as AxiosConfig
  for (const key in config) copy[key] = config[key]
  for (const key of Object.getOwnPropertySymbols(config)) Reflect.set(copy, key, Reflect.get(config, key))
  return copy
}

/**
 * Hides the request, which holds the raw text of its headers; `response.request` still works. On a call without the
 * token it leads by its agent to the requests of others. What cannot be hidden (of frozen objects, say) is handed out
 * as it is: the call counts for more.
 */
export function hideInAnswer(response: unknown, call: SentConfig): void {
  if (!isObject(response)) return
  try {
    const { data, config } = response as AxiosAnswer
    hideConfig(response, config, call)
    hideRequest(response, call)
    if (isNodeStream(data)) hideInStream(data, call)
  } catch {
    // said above
  }
}

function hideInStream(data: NodeStream, call: SentConfig): void {
  for (const key of Reflect.ownKeys(data)) {
    const name = typeof key === 'symbol' ? key.description : key
    if (!WAYS_BACK.has(name)) continue
    const way: unknown = Reflect.get(data, key)
    if (name === 'sent-headers' && call.header && isObject(way))
      deleteHeader(way as Record<string, unknown>, call.header.key)
    if (way !== undefined) hide(data, key, () => way)
  }
  if (watched.has(data)) return
  watched.add(data)
  // A stream may fail, or be cancelled, long after the answer was handed out: with an AxiosError that has a request.
  data.on(errorMonitor, (error) => hideInFailure(error, call))
}

/** Hides the same in an error, and in those that caused it. `error.request` still tells "no answer" from "bad answer". */
export function hideInFailure(error: unknown, call: SentConfig): void {
  const seen = new Set<unknown>()
  try {
    for (let failure = error; isObject(failure) && !seen.has(failure); ) {
      seen.add(failure)
      const { config, response, cause } = failure as Partial<AxiosFailure>
      hideConfig(failure, config, call)
      hideRequest(failure, call)
      hideInAnswer(response, call)
      failure = cause
    }
  } catch {
    // as in an answer
  }
}

/** Restores the caller's own config. In a copy that somebody made, the token is deleted, but nobody else's header. */
function hideConfig(holder: object, config: unknown, { sent, config: own, header }: SentConfig): void {
  if (config === sent) Reflect.set(holder, 'config', own)
  else if (isObject(config) && config !== own) {
    const { headers } = config as AxiosConfig
    hideAgents(config as AxiosConfig)
    if (header !== undefined && getHeader(headers, header.key) === header.value)
      deleteHeader(headers, header.key)
  }
}

function hideRequest(holder: AxiosAnswer | AxiosFailure, { header, sent }: SentConfig): void {
  const { request } = holder
  if (request === undefined) return
  if (!isFetchRequest(request)) {
    hide(holder, 'request', isPlain(request) ? () => request : () => standInFor(request))
    const leadsToRequest = isNodeStream(sent.data) || ('data' in holder && isNodeStream(holder.data))
    if (header !== undefined && leadsToRequest) cleanRequest(request, header)
    return
  }
  hide(holder, 'request', () => request)
  if (header !== undefined && request.headers.get(header.key) === header.value)
    request.headers.delete(header.key)
}

/** A request of node's, and one of follow-redirects, which know each other. */
interface SentRequest {
  _header?: unknown
  readonly _options?: { readonly headers?: unknown }
  readonly _currentRequest?: unknown
  readonly _redirectable?: unknown
}

/** Deletes the token from a request that has been sent: the streams that were sent and received lead to it. */
function cleanRequest(request: unknown, header: NonNullable<SentConfig['header']>): void {
  if (!isObject(request)) return
  const { _currentRequest, _redirectable } = request as SentRequest
  for (const one of [request, _currentRequest, _redirectable]) {
    if (!isObject(one)) continue
    const { _header, _options } = one as SentRequest
    if (typeof _header === 'string') Reflect.set(one, '_header', _header.replaceAll(header.value, HIDDEN))
    const sent = Object.getOwnPropertySymbols(one).find(({ description }) => description === 'kOutHeaders')
    for (const headers of [_options?.headers, sent && Reflect.get(one, sent)])
      if (isObject(headers)) deleteHeader(headers as Record<string, unknown>, header.key)
  }
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/** Whether it is a mock's, which callers compare with what they expect. */
function isPlain(request: unknown): boolean {
  return isObject(request) && [Object.prototype, null].includes(Object.getPrototypeOf(request))
}

/** Makes a property an accessor, whose value is not shown. */
function hide(holder: object, key: PropertyKey, read: () => unknown): void {
  let get = read
  Reflect.defineProperty(holder, key, {
    configurable: true,
    enumerable: false,
    get: () => get(),
    set: (replacement: unknown) => {
      get = () => replacement
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
