/** Keeps the token out of what is logged of axios' responses and errors; their `request` and `config` still work. */
import { OutgoingMessage } from 'node:http'
import { inspect } from 'node:util'
import { HIDDEN } from '../../base/redact.ts'
import { isNodeStream, isObject } from '../body.ts'
import { clearHeader, type Header } from '../headers.ts'
import { hideAgents } from './agents.ts'
import type { AxiosConfig } from './types.ts'

/** A request of Node.js or of follow-redirects, which is sent as one of Node.js, or a Request of fetch. */
interface SentRequest {
  _header?: unknown
  readonly _options?: { readonly headers?: Record<string, unknown> }
  readonly _currentRequest?: SentRequest
  readonly _redirectable?: SentRequest
  readonly headers?: Headers
  readonly [symbol: symbol]: Record<string, [name: string, value: unknown]> | undefined
  readonly method?: unknown
  readonly url?: unknown
  readonly protocol?: unknown
  readonly host?: unknown
  readonly path?: unknown
}

/** The parts of a response, or of an error that an adapter rejects with. */
interface ResponseOrError {
  readonly config?: AxiosConfig
  readonly request?: SentRequest
  readonly data?: unknown
  readonly response?: unknown
  readonly cause?: unknown
}

/** An adapter of the caller's may wrap the error of another one. */
const MAX_CAUSES = 5

/** What was sent. */
export interface Sent {
  readonly config: AxiosConfig
  /** The header with the token, if the call got one. */
  readonly header?: Header | undefined
}

/** Hides the requests of an error, of its response and of its causes. */
export function hideRequests(error: unknown, sent: Sent, depth = 0): void {
  if (!isObject(error) || depth > MAX_CAUSES) return
  const { response, cause } = error as ResponseOrError
  hideRequests(response, sent, depth + 1)
  hideRequests(cause, sent, depth + 1)
  hideRequest(error, sent)
}

/** Hides the request of a response, or of an error. */
export function hideRequest(outcome: object, { config: sentConfig, header }: Sent): void {
  const { config, request, data } = outcome as ResponseOrError
  // Another config than that of the call: its adapter sent a copy by another instance.
  if (isObject(config) && config !== sentConfig) {
    if (header !== undefined) clearHeader(config.headers, header)
    hideAgents(config)
  }
  if (!isObject(request)) return
  hide(outcome, 'request')
  if (request !== data) Object.assign(request, SUMMARY)
  if (header !== undefined) hideHeader(request, header)
  const isStream = isNodeStream(data)
  // A response that is a stream leads to its socket, which may serve other calls, and over HTTP/2 to the headers it sent.
  if (isStream) for (const key of ['socket', 'client', ...Object.getOwnPropertySymbols(data)]) hide(data, key)
  // The errors that streams emit later, and a body that is still sent, lead to the request of follow-redirects.
  const { _redirectable: outer } = request
  if (outer && (isStream || isNodeStream(config?.data))) Object.assign(outer, SUMMARY)
}

/**
 * Log output of a request: what was called. The request itself leads to its headers, its agent, and a socket that may serve
 * other calls now. Enumerable, so that copies of the request have it, too; to define it otherwise costs each call 1 µs more.
 */
const SUMMARY = { [inspect.custom]: summaryOf, toJSON: summaryOf }

function summaryOf(this: SentRequest): object {
  const { method, url, protocol, host, path } = this._currentRequest ?? this
  return url === undefined ? { method, protocol, host, path } : { method, url }
}

/** The symbol by which requests of Node.js have their headers: for each name in lower case, the name and the value. */
const OUT_HEADERS = Object.getOwnPropertySymbols(new OutgoingMessage()).find(
  ({ description }) => description === 'kOutHeaders',
) as symbol

/** Hides the token in the parts of a request that users log by name, or that its response and its socket lead to. */
function hideHeader(request: SentRequest, header: Header): void {
  const { key, value } = header
  const sent = request._currentRequest ?? request
  if (typeof sent._header === 'string') sent._header = sent._header.replace(value, HIDDEN)
  const entry = sent[OUT_HEADERS]?.[key]
  if (entry !== undefined) entry[1] = HIDDEN
  clearHeader((request._redirectable ?? request)._options?.headers, header)
  if (typeof request.headers?.delete === 'function') request.headers.delete(key)
}

/** Makes a property non-enumerable, which no log output, JSON or copy includes. */
function hide(holder: object, key: PropertyKey): void {
  if (Object.hasOwn(holder, key)) Reflect.defineProperty(holder, key, { enumerable: false })
}
