/** What an environment of the sandbox has seen: every request with its secrets hidden, and how many there were. */

/** What a request was for: the token endpoint, or one of the APIs. */
export type SandboxTarget = 'token' | 'merchant' | 'in-store'

/** Bytes as a body has them: a `Buffer` for those who have the types of Node.js, else a `Uint8Array`, which it is. */
export type SandboxBody = typeof globalThis extends { Buffer: { isBuffer(it: unknown): it is infer Bytes } }
  ? Bytes
  : Uint8Array

/** One request that the sandbox received. */
export interface SandboxRequest {
  /** Counts up from 1 in each environment; the answer's `x-request-id`. */
  readonly id: number
  /** When it arrived, in ms since the epoch. */
  readonly at: number
  /** What it was for; absent where there is nothing at this path (404). */
  readonly target?: SandboxTarget
  /** As it was sent, such as `GET`. */
  readonly method: string
  /** The path with its query, as it was sent, with secrets hidden. */
  readonly path: string
  /**
   * Names in lower case; a header that came twice is joined with a comma. A token that this environment issued reads
   * `[token <jti>]`, any other credentials `[hidden]`.
   */
  readonly headers: Readonly<Record<string, string>>
  /** The bytes of an API request as far as they came; absent for all others, as their bodies hold the secret. */
  readonly body?: SandboxBody
  /** What a token request asked, with `client_secret` hidden; absent where it could not be read. */
  readonly fields?: Readonly<Record<string, unknown>>
  /** The `jti` of the token that it carried, valid or not, where this environment issued it, or was answered with. */
  readonly jti?: string
  /** The status of the answer; absent where none was begun (yet), as with a hang or a reset. */
  readonly status?: number
  /** The error code of the answer, such as `invalid_client` (RFC 6749 §5.2); absent in the answers of faults. */
  readonly error?: string
  /** What the answer said about the error; absent where it said no more. */
  readonly errorDescription?: string
  /** The id of the fault that was applied. */
  readonly fault?: string
  /**
   * How long it took, in ms, from its arrival until it was answered or its connection was closed. Absent until then.
   */
  readonly durationMs?: number
}

/** How much an environment has received and given since it started. */
export interface SandboxCounts {
  /** Requests to the token endpoint, good or bad. */
  readonly token: number
  /** Requests to the merchant API. */
  readonly merchant: number
  /** Requests to the in-store API. */
  readonly 'in-store': number
  /** Tokens issued. */
  readonly issued: number
  /** Answers of the two APIs with status 401, those of faults too. */
  readonly unauthorized: number
}

/** A request while it is being answered. */
export type RecordedRequest = { -readonly [K in keyof SandboxRequest]: SandboxRequest[K] }

const MOST_REQUESTS = 10_000
const MOST_BODY_BYTES = 256 * 1024 * 1024

/** The last requests of one environment, and its counts. */
export class Recorded {
  readonly counts: { -readonly [K in keyof SandboxCounts]: SandboxCounts[K] } = {
    token: 0,
    merchant: 0,
    'in-store': 0,
    issued: 0,
    unauthorized: 0,
  }
  readonly #requests: RecordedRequest[] = []
  #bodyBytes = 0
  #lastId = 0

  /** Notes a request that has just arrived; the rest of it is filled in as it becomes known. */
  arrived(request: Omit<RecordedRequest, 'id'>): RecordedRequest {
    this.#lastId += 1
    const recorded = { id: this.#lastId, ...request }
    if (request.target !== undefined) this.counts[request.target] += 1
    this.#requests.push(recorded)
    if (this.#requests.length > MOST_REQUESTS) this.#dropFirst()
    return recorded
  }

  /** Notes the body of a request. */
  received(request: RecordedRequest, body: SandboxBody): void {
    request.body = body
    const first = this.#requests[0]
    if (first === undefined || request.id < first.id) return // dropped or cleared in the meantime
    this.#bodyBytes += body.length
    while (this.#bodyBytes > MOST_BODY_BYTES) this.#dropFirst()
  }

  requests(target: SandboxTarget | undefined): readonly SandboxRequest[] {
    return this.#requests.filter((request) => target === undefined || request.target === target)
  }

  clear(): void {
    this.#requests.length = 0
    this.#bodyBytes = 0
  }

  #dropFirst(): void {
    this.#bodyBytes -= this.#requests.shift()?.body?.length ?? 0
  }
}
