/** A token endpoint whose requests wait until somebody answers them: a random schedule, or an explorer. */

import { type Sent, sentNow } from './grant.ts'
import { currentRequest, type IncomingClock } from './incoming.ts'
import type { Referee } from './referee.ts'

/** How the endpoint answers one request. */
export type TokenAnswer =
  | { readonly kind: 'token'; readonly lifetimeSeconds: number }
  /** `retryAfter`: in seconds. */
  | { readonly kind: 'status'; readonly status: number; readonly retryAfter?: number }
  | { readonly kind: 'no connection' | 'bad body' | 'hang' | 'hang at body' }

/** A request that waits for its answer. */
export interface PendingRequest {
  answer(answer: TokenAnswer): void
}

interface EndpointOptions {
  readonly clock: IncomingClock
  readonly referee: Referee
  /** Returns a function that ends the request. */
  readonly requestBegins: () => () => void
  /** Whether requests ignore that they are aborted, so that a token may arrive afterwards. */
  readonly isDeaf: boolean
  readonly onRequest?: (request: PendingRequest) => void
}

export class TokenEndpoint {
  /** Those that are under way. */
  readonly pending = new Set<PendingRequest>()
  readonly #options: EndpointOptions

  constructor(options: EndpointOptions) {
    this.#options = options
  }

  readonly fetch: typeof fetch = (_, init = {}) => {
    const { clock, isDeaf, onRequest } = this.#options
    const signal = init.signal as AbortSignal
    const request = currentRequest()
    if (request?.ended) return new Promise(() => {}) // never sent
    const requestEnds = this.#options.requestBegins()
    const sent = sentNow(clock)
    return new Promise((resolve, reject) => {
      const end = ({ mayBeAnswered = false } = {}): void => {
        requestEnds()
        endStarted?.()
        if (!mayBeAnswered) this.pending.delete(pending)
      }
      const pending: PendingRequest = {
        answer: (answer) => {
          if (answer.kind === 'hang' || !this.pending.has(pending)) return
          if (answer.kind === 'hang at body' && !signal.aborted) {
            resolve(responseWith({ body: halfABody(signal) }))
            return
          }
          end()
          this.#options.referee.answers(answer)
          if (answer.kind === 'no connection') reject(new TypeError('fetch failed'))
          else resolve(signal.aborted ? tokenResponse('too-late', 1_000) : this.#responseTo(answer, sent))
        },
      }
      this.pending.add(pending)
      const endStarted = request?.starts(end)
      signal.addEventListener('abort', () => {
        if (request?.ended) return
        end({ mayBeAnswered: isDeaf })
        if (!isDeaf) reject(signal.reason)
      })
      onRequest?.(pending)
    })
  }

  #responseTo(answer: TokenAnswer, sent: Sent): Response {
    if (answer.kind === 'token') {
      const { lifetimeSeconds } = answer
      return tokenResponse(this.#options.referee.issues(sent, lifetimeSeconds * 1_000), lifetimeSeconds)
    }
    if (answer.kind !== 'status') return responseWith({ body: [bytesOf('<html>')] })
    const { status, retryAfter } = answer
    const headers = retryAfter === undefined ? {} : { 'retry-after': `${retryAfter}` }
    return responseWith({ status, headers, body: [bytesOf('{}')] })
  }
}

function tokenResponse(value: string, seconds: number): Response {
  const body = JSON.stringify({ access_token: value, expires_in: seconds, token_type: 'Bearer' })
  return responseWith({ body: [bytesOf(body)] })
}

interface ResponseParts {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: Iterable<Uint8Array> | AsyncIterable<Uint8Array>
}

/** As much of a Response as a token request reads: a real one, with its streams, takes longer than the rest of a schedule. */
function responseWith({ status = 200, headers = {}, body }: ResponseParts): Response {
  return {
    status,
    ok: status === 200,
    type: 'default',
    redirected: false,
    url: '',
    headers: { has: (name: string) => name in headers, get: (name: string) => headers[name] ?? null },
    body,
  } as unknown as Response
}

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)

async function* halfABody(signal: AbortSignal): AsyncGenerator<Uint8Array> {
  yield bytesOf('{"access')
  await new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason))
  })
}
