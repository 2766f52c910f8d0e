/** Keeps the token out of what is logged of axios' responses and errors; their `request` and `config` still work. */
import { OutgoingMessage } from 'node:http'
import { HIDDEN } from '../redact.ts'
import type { AxiosConfig, AxiosResponse } from './axios-types.ts'
import { isObject } from './body.ts'

/** The header that carried the token. */
export interface SentHeader {
  readonly name: string
  /** Its name in lower case. */
  readonly key: string
  readonly value: string
}

/** Agents and sockets whose properties are hidden. */
const hidden = new WeakSet<object>()

/**
 * Hides the sockets of the caller's agents, and where a body is piped to: they lead to the requests of this and other
 * calls in flight, and a logged error includes its config.
 */
export function hideInConfig({ httpAgent, httpsAgent, fetchOptions, data }: AxiosConfig): void {
  hideSockets(httpAgent)
  hideSockets(httpsAgent)
  hideSockets(fetchOptions?.dispatcher)
  if (isObject(data) && '_readableState' in data) hide(data._readableState, ['pipes', 'awaitDrainWriters'])
}

/** Agents have them by name, by symbol, or in agents of their own. */
function hideSockets(agent: unknown): void {
  if (!isObject(agent) || hidden.has(agent)) return
  hidden.add(agent)
  hide(agent, Reflect.ownKeys(agent))
}

/** Hides the request of a response, or of an error, its response and its causes. It is cleaned when it is read, which is rare. */
export function hideRequest(outcome: unknown, header: SentHeader | undefined, depth = 0): void {
  if (!isObject(outcome) || depth > 5) return // an adapter of the caller's may wrap the error of another one
  const { request, data, response, cause } = outcome as Partial<AxiosResponse & Error & { response: unknown }>
  for (const inner of [response, cause]) hideRequest(inner, header, depth + 1)
  if (!isObject(request)) return
  // A response that is a stream leads to its request, as does an error that it emits later.
  if (isObject(data) && ('pipe' in data || 'pipeTo' in data)) {
    hide(data, Object.getOwnPropertySymbols(data)) // the headers sent over HTTP/2
    cleanRequest(request, header)
  }
  Reflect.defineProperty(outcome, 'request', {
    configurable: true,
    enumerable: false,
    get: () => cleanRequest(request, header),
    set: (value: unknown) => void Object.defineProperty(outcome, 'request', { value, writable: true }),
  })
}

/** A request of Node.js or of follow-redirects, which refer to each other, or a Request of fetch. */
interface SentRequest {
  _header?: unknown
  readonly _options?: { readonly headers?: object }
  readonly _currentRequest?: SentRequest
  readonly _redirectable?: SentRequest
  readonly agent?: unknown
  readonly socket?: unknown
  readonly headers?: Headers
}

/** The symbol by which Node.js' requests have their headers. */
const OUT_HEADERS = Object.getOwnPropertySymbols(new OutgoingMessage()).find(
  ({ description }) => description === 'kOutHeaders',
)

/** Deletes the token from a sent request, and hides that its agent and its socket serve other calls now. */
function cleanRequest(request: SentRequest, header: SentHeader | undefined): SentRequest {
  for (const one of [request, request._currentRequest, request._redirectable]) {
    if (!isObject(one)) continue
    hideSockets(one.agent)
    if (isObject(one.socket))
      hide(one.socket, ['_httpMessage', 'parser', ...Object.getOwnPropertySymbols(one.socket)])
    if (header === undefined) continue
    if (typeof one._header === 'string') one._header = one._header.replaceAll(header.value, HIDDEN)
    for (const headers of [one._options?.headers, OUT_HEADERS && Reflect.get(one, OUT_HEADERS)])
      for (const name of [header.name, header.key])
        if (isObject(headers)) Reflect.deleteProperty(headers, name)
    if (typeof one.headers?.delete === 'function') one.headers.delete(header.key)
  }
  return request
}

/** Makes properties non-enumerable, which no log output, JSON or copy includes. */
function hide(holder: unknown, keys: readonly PropertyKey[]): void {
  for (const key of keys)
    if (Object.hasOwn(Object(holder), key))
      Reflect.defineProperty(holder as object, key, { enumerable: false })
}
