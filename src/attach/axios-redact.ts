/** Keeps the token out of axios' responses and errors, however they are inspected or copied. */
import { errorMonitor } from 'node:events'
import { OutgoingMessage } from 'node:http'
import { HIDDEN } from '../redact.ts'
import { copyOf } from './axios-config.ts'
import type { AxiosConfig, AxiosErrorLike, AxiosResponse } from './axios-types.ts'
import { isNodeStream, type NodeStream } from './body.ts'
import { clearHeader, deleteHeader, getHeader, isHeaders } from './headers.ts'
import { realOf, standInFor } from './stand-in.ts'

/** Properties of Node.js response streams that lead back to the request: by name (IncomingMessage) or symbol (HTTP/2). */
const WAYS_BACK = new Set<unknown>(['req', 'socket', 'client', 'sent-headers', 'session'])

const AGENTS = ['httpAgent', 'httpsAgent'] as const

/** One send of a config. */
export interface SentConfig {
  /** The caller's config, which responses and errors refer to. */
  readonly config: AxiosConfig
  /** The copy that the adapter gets, and callers do not. */
  readonly sent: AxiosConfig
  /** The properties that the copy had at first. */
  readonly keys: readonly string[]
  /** The header with the token, by its lower-case name; undefined on a call without the token. */
  readonly header?: { readonly key: string; readonly value: string } | undefined
}

/** Streams whose errors are already watched: a mock may return the same one each time. */
const watched = new WeakSet<object>()

/**
 * Replaces the caller's agents and undici's dispatcher by stand-ins: they refer to the requests of all calls, with their
 * tokens. The properties stay enumerable, because axios copies only those when a config is sent again.
 */
export function hideAgents(config: AxiosConfig): void {
  changeAgents(config, standInFor)
}

/** A copy of a config for one send, with the real agents and its own headers. */
export function copyForSend(config: AxiosConfig): AxiosConfig {
  const copy = copyOf(config)
  const headers: object = config.headers ?? {} // an adapter that calls ours may pass none
  copy.headers = Object.assign(Object.create(Object.getPrototypeOf(headers)), headers)
  changeAgents(copy, realOf)
  return copy
}

function changeAgents(config: AxiosConfig, change: (agent: unknown) => unknown): void {
  for (const key of AGENTS) if (Object.hasOwn(config, key)) Reflect.set(config, key, change(config[key]))
  const { fetchOptions } = config
  if (!fetchOptions || !('dispatcher' in fetchOptions)) return
  const dispatcher = change(fetchOptions.dispatcher)
  // A copy, because `fetchOptions` may be that of the defaults.
  Reflect.set(config, 'fetchOptions', { ...fetchOptions, dispatcher })
}

/** The properties that every send changes on its copy; a send with the token changes more. The adapter made any other change. */
const CHANGED = new Set<string>([...AGENTS, 'headers', 'fetchOptions'])
const CHANGED_WITH_TOKEN = new Set<string>([...CHANGED, 'env', 'beforeRedirect', 'transport', 'data'])

/** Removes the token and the agents from the copy when its send has ended. */
export function cleanSent({ config, sent, header }: SentConfig): void {
  hideAgents(sent)
  // A stream refers to the request that it was piped into, and so to the agent.
  for (const one of [config, sent]) if (isNodeStream(one.data)) Reflect.set(one, 'data', standInFor(one.data))
  if (header !== undefined && !(isRecord(sent.headers) && clearHeader(sent.headers, header.key)))
    Reflect.set(sent, 'headers', config.headers)
}

/** Whether the headers are a record or AxiosHeaders, rather than a `Headers`, a `Map` or a list of the adapter's. */
function isRecord(headers: unknown): headers is Record<string, unknown> {
  if (!isObject(headers)) return false
  return !(Symbol.iterator in headers) || Reflect.get(headers, Symbol.toStringTag) === 'AxiosHeaders'
}

/**
 * Moves the adapter's changes to the caller's config, where axios has them. Those of a send that is repeated are dropped.
 * What cannot be changed (on frozen objects) is left as it is: failing a call that was sent would be worse.
 */
export function moveChanges({ config, sent, keys, header }: SentConfig): void {
  const notMoved = header === undefined ? CHANGED : CHANGED_WITH_TOKEN
  for (const key in sent)
    if (sent[key] !== config[key] && !notMoved.has(key)) Reflect.set(config, key, sent[key])
  const now = Object.keys(sent)
  let at = 0
  for (const key of keys) {
    // Their order first, which a deletion changes: looking up each one takes longer.
    if (key !== now[at] && !(key in sent) && !notMoved.has(key)) Reflect.deleteProperty(config, key)
    at += 1
  }
  const { headers } = config
  if (!isObject(headers) || !isRecord(sent.headers)) return
  // Frozen headers still have the token.
  for (const name in sent.headers)
    if (sent.headers[name] !== headers[name] && name.toLowerCase() !== header?.key)
      Reflect.set(headers, name, sent.headers[name])
  for (const name in headers) if (!(name in sent.headers)) Reflect.deleteProperty(headers, name)
}

/**
 * Hides the request, which holds the raw text of its headers and refers to its agent; `response.request` still works.
 * What cannot be hidden (on frozen objects, say) is left as it is: failing the call would be worse.
 *
 * @param isOutcome whether it is the response of this call, rather than one that led to it
 */
export function hideInResponse(response: unknown, call: SentConfig, isOutcome = true): void {
  if (!isObject(response)) return
  try {
    const { data, config } = response as AxiosResponse
    hideConfig(response, config, call, isOutcome)
    hideRequest(response, call)
    if (isNodeStream(data)) hideInStream(data, call)
  } catch {
    // see above
  }
}

function hideInStream(data: NodeStream, call: SentConfig): void {
  for (const key of Reflect.ownKeys(data)) {
    const name = typeof key === 'symbol' ? key.description : key
    if (!WAYS_BACK.has(name)) continue
    const way: unknown = Reflect.get(data, key)
    if (name === 'sent-headers' && call.header) deleteHeader(way, call.header.key)
    hide(data, key, () => way)
  }
  if (watched.has(data)) return
  watched.add(data)
  // A stream may fail or be canceled long after the response was returned, with an AxiosError that has a request.
  data.on(errorMonitor, (error) => hideInError(error, call))
}

/**
 * Hides the request in an error, its causes, and the errors in its `errors` and its enumerable properties.
 * `error.request` still distinguishes "no response" from "bad response".
 */
export function hideInError(error: unknown, call: SentConfig): void {
  const failures = new Set([error])
  for (const failure of failures) {
    if (!isObject(failure)) continue
    try {
      const { config, response } = failure as Partial<AxiosErrorLike>
      hideConfig(failure, config, call, failure === error)
      hideRequest(failure, call)
      hideInResponse(response, call, failure === error)
      const { cause, errors } = failure as Partial<AggregateError>
      failures.add(cause)
      for (const one of [...(Array.isArray(errors) ? errors : []), ...Object.values(failure)])
        if (one instanceof Error) failures.add(one)
    } catch {
      // see above
    }
  }
}

/**
 * Restores the caller's config, in the outcome of a call with the token also instead of the adapter's copies. From any other
 * config the token is deleted, but no other header of that name.
 */
function hideConfig(holder: object, config: unknown, call: SentConfig, isOutcome: boolean): void {
  const { sent, config: own, header } = call
  if (!isObject(config) || config === own) return
  const { headers } = config as AxiosConfig
  const isCopy = config === sent || (isOutcome && header && headers)
  if (isCopy && Reflect.set(holder, 'config', own)) return
  hideAgents(config as AxiosConfig)
  if (header === undefined || getHeader(headers, header.key) !== header.value) return
  if (Object.isSealed(headers)) Reflect.set(config, 'headers', own.headers)
  else deleteHeader(headers, header.key)
}

function hideRequest(holder: AxiosResponse | AxiosErrorLike, { header }: SentConfig): void {
  const { request } = holder
  if (!isObject(request)) return
  if (isFetchRequest(request)) {
    hide(holder, 'request', () => request)
    if (header !== undefined && request.headers.get(header.key) === header.value)
      request.headers.delete(header.key)
  } else {
    // Made when it is read, which is rare.
    hide(holder, 'request', () => (isPlain(request) ? request : standInFor(request)))
    if (header !== undefined) cleanRequest(realOf(request), header)
  }
}

/** A request of Node.js or of follow-redirects, which refer to each other. */
interface SentRequest {
  _header?: unknown
  readonly _options?: { readonly headers?: unknown }
  readonly _currentRequest?: unknown
  readonly _redirectable?: unknown
}

/** The symbol under which Node.js' requests have their headers. */
const OUT_HEADERS = Object.getOwnPropertySymbols(new OutgoingMessage()).find(
  ({ description }) => description === 'kOutHeaders',
)

/** Deletes the token from a sent request: sockets and agents lead to it, and the streams of other calls to those. */
function cleanRequest(request: object, { key, value }: NonNullable<SentConfig['header']>): void {
  const { _currentRequest, _redirectable } = request as SentRequest
  for (const one of [request, _currentRequest, _redirectable]) {
    if (!isObject(one)) continue
    const { _header, _options } = one as SentRequest
    if (typeof _header === 'string') Reflect.set(one, '_header', _header.replaceAll(value, HIDDEN))
    for (const headers of [_options?.headers, OUT_HEADERS && Reflect.get(one, OUT_HEADERS)])
      deleteHeader(headers, key)
  }
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/** Whether a mock made it, whose users may compare it with what they expect. */
function isPlain(request: object): boolean {
  return [Object.prototype, null].includes(Object.getPrototypeOf(request))
}

/** Makes a property an accessor, whose value is not printed. */
function hide(holder: object, key: PropertyKey, get: () => unknown): void {
  Reflect.defineProperty(holder, key, {
    configurable: true,
    enumerable: false,
    get,
    set(this: object, value: unknown) {
      // On the object that it is assigned to, which may be a copy. Throws if that is sealed or frozen.
      Object.defineProperty(this, key, { value, writable: true, configurable: true })
    },
  })
}

function isFetchRequest(request: object): request is Request {
  return 'headers' in request && isHeaders(request.headers)
}
