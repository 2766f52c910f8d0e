/** The requests that an environment of the sandbox received, with credentials hidden, and how many there were. */
import type { IncomingMessage } from 'node:http'
import { HIDDEN, redact } from '../base/redact.ts'
import type { Answer } from './exchange.ts'
import type { SandboxCounts, SandboxRequest, SandboxTarget } from './types.ts'

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** A request that is being handled. */
export type RecordedRequest = Mutable<SandboxRequest>

const MAX_REQUESTS = 10_000

/** The last requests of one environment, and its counts. */
export class RequestLog {
  readonly counts: Mutable<SandboxCounts> = {
    token: 0,
    merchant: 0,
    'in-store': 0,
    issued: 0,
    unauthorized: 0,
  }
  readonly #requests: RecordedRequest[] = []
  #lastId = 0

  /** Records a request that has just arrived. More of it is added as it becomes known. */
  arrived(request: Omit<RecordedRequest, 'id'>): RecordedRequest {
    this.#lastId += 1
    const recorded = { id: this.#lastId, ...request }
    if (request.target !== undefined) this.counts[request.target] += 1
    this.#requests.push(recorded)
    if (this.#requests.length > MAX_REQUESTS) this.#requests.shift()
    return recorded
  }

  /** Records the status and the error of a response. */
  answered(request: RecordedRequest, status: number, error: Answer['error']): void {
    request.status = status
    if (error !== undefined) request.error = error.code
    if (error?.description !== undefined) request.errorDescription = error.description
    if (status === 401 && request.target && request.target !== 'token') this.counts.unauthorized += 1
  }

  requests(target: SandboxTarget | undefined): readonly SandboxRequest[] {
    return this.#requests.filter((request) => target === undefined || request.target === target)
  }

  clear(): void {
    this.#requests.length = 0
  }
}

/** The headers as sent, names in lower case: values of a repeated header are joined, not dropped. */
export function headersOf({ rawHeaders }: IncomingMessage): Record<string, string> {
  const headers = new Map<string, string>()
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = String(rawHeaders[index]).toLowerCase()
    const before = headers.get(name)
    const value = String(rawHeaders[index + 1])
    headers.set(name, before === undefined ? value : `${before}, ${value}`)
  }
  return Object.fromEntries(headers)
}

/** What distinguishes credentials from other text. */
export interface KnownCredentials {
  /** Every client secret that is or was accepted; with several clients, those of the first one. */
  readonly secrets: ReadonlySet<string>
  /** The secrets of further clients, which are searched for verbatim only: there may be thousands. */
  readonly furtherSecrets: readonly string[]
  /** The `jti` of a token that this environment issued. */
  jtiOf(token: string): string | undefined
}

/** The text with the known tokens replaced by their names, and with the known client secrets hidden. */
export function hide(text: string, { secrets, furtherSecrets, jtiOf }: KnownCredentials): string {
  const named = text.replace(/[\w.-]+/g, (run) => {
    const jti = jtiOf(run)
    return jti === undefined ? run : `[token ${jti}]`
  })
  return redact(named, [...secrets, ...furtherSecrets.filter((secret) => named.includes(secret))])
}

/** Headers, or the fields of a token request, with credentials hidden. */
export function hideIn<T>(values: Readonly<Record<string, T>>, known: KnownCredentials): Record<string, T> {
  const shown = Object.entries(values).map(([name, value]) => {
    const text = typeof value === 'string' ? hide(value, known) : value
    const isCredential = /^(?:authorization|client_secret|client_assertion)$/.test(name)
    return [name, isCredential && !String(text).includes('[token ') ? HIDDEN : text]
  })
  return Object.fromEntries(shown)
}
