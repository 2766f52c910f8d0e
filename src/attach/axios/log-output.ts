/** Keeps the token out of what is logged of axios' responses and errors; their `request` and `config` still work. */
import { OutgoingMessage } from 'node:http'
import { inspect } from 'node:util'
import { HIDDEN } from '../../base/redact.ts'
import { isNodeStream, isObject } from '../body.ts'
import { clearHeader, type Header, nameOf } from '../headers.ts'
import { hideAgents } from './agents.ts'
import type { AxiosConfig } from './types.ts'

/** A request of Node.js or of follow-redirects, which is sent as one of Node.js, or a Request of fetch. */
interface SentRequest {
  _header?: unknown
  readonly _options?: { readonly headers?: Record<string, unknown> }
  readonly _currentRequest?: SentRequest
  readonly _redirectable?: SentRequest
  readonly headers?: Headers
  readonly method?: unknown
  readonly url?: unknown
  readonly protocol?: unknown
  readonly host?: unknown
  readonly path?: unknown
}

/** The parts of a response, or of an error that an adapter rejects with. */
interface ResponseOrError {
  readonly config?: AxiosConfig
  readonly request?: unknown
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

/** Hides the request of a response, or of an error, its response and its causes. */
export function hideRequest(outcome: unknown, sent: Sent, depth = 0): void {
  if (!isObject(outcome) || depth > MAX_CAUSES) return
  const { config, request, data, response, cause } = outcome as ResponseOrError
  hideRequest(response, sent, depth + 1)
  hideRequest(cause, sent, depth + 1)
  const { header } = sent
  // Another config than that of the call: its adapter sent a copy by another instance.
  if (isObject(config) && config !== sent.config) {
    if (header !== undefined) clearHeader(config.headers, header)
    hideAgents(config)
  }
  if (!isObject(request)) return
  hide(outcome, ['request'])
  if (request !== data) Object.assign(request, SUMMARY)
  if (header !== undefined) hideHeader(request, header)
  if (isNodeStream(data)) hideConnection(data)
  if (isNodeStream(data) || isNodeStream(config?.data)) summarizeRedirectable(request)
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
)

/** Hides the token in the parts of a request that users log by name, or that its response and its socket lead to. */
function hideHeader(request: SentRequest, header: Header): void {
  const { name, key, value } = header
  const sent = request._currentRequest ?? request
  if (typeof sent._header === 'string') sent._header = sent._header.replace(value, HIDDEN)
  if (OUT_HEADERS !== undefined) replaceValue(Reflect.get(sent, OUT_HEADERS), key, [name, HIDDEN])
  const { headers } = (request._redirectable ?? request)._options ?? {}
  replaceValue(headers, nameOf(headers, header) ?? name, HIDDEN)
  if (typeof request.headers?.delete === 'function') request.headers.delete(key)
}

function replaceValue(headers: unknown, name: string, value: unknown): void {
  if (isObject(headers) && name in headers) Reflect.set(headers, name, value)
}

/** A response that is a stream leads to its socket, which may serve other calls, and over HTTP/2 to the headers it sent. */
function hideConnection(data: object): void {
  hide(data, ['socket', 'client', ...Object.getOwnPropertySymbols(data)])
}

/** The errors that streams emit later, and a body that is still sent, lead to the request of follow-redirects. */
function summarizeRedirectable({ _redirectable }: SentRequest): void {
  if (isObject(_redirectable)) Object.assign(_redirectable, SUMMARY)
}

/** Makes properties non-enumerable, which no log output, JSON or copy includes. */
function hide(holder: object, keys: readonly PropertyKey[]): void {
  for (const key of keys)
    if (Object.hasOwn(holder, key)) Reflect.defineProperty(holder, key, { enumerable: false })
}
