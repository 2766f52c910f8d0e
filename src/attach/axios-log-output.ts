/** Keeps the token out of what is logged of axios' responses and errors; their `request` and `config` still work. */
import { OutgoingMessage } from 'node:http'
import { HIDDEN } from '../redact.ts'
import type { AxiosConfig, AxiosResponse } from './axios-types.ts'
import { clearHeader } from './headers.ts'

/** The header that carried the token, by its name in lower case. */
export interface SentHeader {
  readonly key: string
  readonly value: string
}

/** Agents whose sockets are hidden. */
const agents = new WeakSet<object>()

/**
 * Hides the sockets of the caller's agents, and where a body is piped to: they lead to the requests of this and other
 * calls in flight, and a logged error includes its config. Agents of Node.js have them by name, undici's by symbol.
 */
export function hideInConfig({ httpAgent, httpsAgent, fetchOptions, data }: AxiosConfig): void {
  for (const agent of [httpAgent, httpsAgent, fetchOptions?.dispatcher]) {
    if (!isObject(agent) || agents.has(agent)) continue
    agents.add(agent)
    hide(agent, ['sockets', 'freeSockets', 'requests', ...Object.getOwnPropertySymbols(agent)])
  }
  if (isObject(data) && '_readableState' in data) hide(data._readableState, ['pipes'])
}

/** A function adapter may wrap the error of another adapter. */
const MAX_CAUSES = 5

/** Hides the request of a response, or of an error, its response and its causes, and deletes the token from it. */
export function hideInOutcome(outcome: unknown, header: SentHeader | undefined, depth = 0): void {
  if (!isObject(outcome) || depth > MAX_CAUSES) return
  const { request, response, data, cause } = outcome as Partial<AxiosResponse & AxiosFailure>
  if (isObject(request)) {
    hide(outcome, ['request'])
    cleanRequest(request, header)
  }
  // A response that is a stream: of HTTP/1 or, by symbols, of HTTP/2.
  if (isObject(data) && 'pipe' in data)
    hide(data, ['req', 'socket', 'client', ...Object.getOwnPropertySymbols(data)])
  for (const inner of [response, cause]) hideInOutcome(inner, header, depth + 1)
}

interface AxiosFailure {
  readonly response: AxiosResponse
  readonly cause: unknown
}

/** A request of Node.js or of follow-redirects, which refer to each other, or a Request of fetch. */
interface SentRequest {
  _header?: unknown
  readonly _options?: { readonly headers?: object }
  readonly _currentRequest?: SentRequest
  readonly _redirectable?: SentRequest
  readonly headers?: Headers
}

/** The symbol by which Node.js' requests have their headers. */
const OUT_HEADERS = Object.getOwnPropertySymbols(new OutgoingMessage()).find(
  ({ description }) => description === 'kOutHeaders',
)

/** A stream that fails after its response was returned emits an error with the request, so that hiding it is not enough. */
function cleanRequest(request: SentRequest, header: SentHeader | undefined): void {
  for (const one of [request, request._currentRequest, request._redirectable]) {
    if (!isObject(one)) continue
    hide(one, ['agent', 'socket', 'res'])
    if (header === undefined) continue
    if (typeof one._header === 'string') one._header = one._header.replaceAll(header.value, HIDDEN)
    clearHeader(one._options?.headers, header.key)
    const own: unknown = OUT_HEADERS && Reflect.get(one, OUT_HEADERS)
    if (isObject(own)) Reflect.deleteProperty(own, header.key)
    if (typeof one.headers?.delete === 'function') one.headers.delete(header.key)
  }
}

/** Makes properties non-enumerable, which no log output, JSON or copy includes. */
function hide(holder: unknown, keys: readonly PropertyKey[]): void {
  for (const key of keys)
    if (Object.hasOwn(Object(holder), key))
      Reflect.defineProperty(holder as object, key, { enumerable: false })
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}
