/** The token endpoint of an explored world: its requests wait until the explorer chooses an answer. */

import { type Answer, headersOf, type Sent } from '../races/endpoint.ts'
import { currentRequest } from '../races/incoming.ts'
import type { Referee } from '../races/referee.ts'
import type { ScheduledClock } from '../support/clock.ts'

/** A request that waits for its answer. */
export interface PendingRequest {
  answer(answer: Answer): void
}

export class ExploredEndpoint {
  readonly pending = new Set<PendingRequest>()
  readonly #clock: ScheduledClock
  readonly #referee: Referee
  readonly #isDeaf: boolean

  /** `isDeaf`: requests ignore that they are aborted, so that a token may arrive afterwards. */
  constructor(clock: ScheduledClock, referee: Referee, { isDeaf }: { readonly isDeaf: boolean }) {
    this.#clock = clock
    this.#referee = referee
    this.#isDeaf = isDeaf
  }

  readonly fetch: typeof fetch = (_, init = {}) => {
    const signal = init.signal as AbortSignal
    const request = currentRequest()
    if (request?.ended) return new Promise(() => {}) // never sent
    const sent = { at: this.#clock.monotonicMs(), wallAt: this.#clock.epochMs(), aheadMs: 0 }
    const requestEnds = this.#referee.requestBegins()
    return new Promise((resolve, reject) => {
      let isOver = false
      const end = (answer: Answer | undefined): void => {
        if (!isOver) requestEnds(answer)
        isOver = true
        endStarted?.()
        if (answer !== undefined || !this.#isDeaf) this.pending.delete(pending)
      }
      const pending: PendingRequest = {
        answer: (answer) => {
          end(answer)
          if (signal.aborted) resolve(fakeResponse(200, TOO_LATE, {}))
          else if (answer.kind === 'no connection') reject(new TypeError('fetch failed'))
          else resolve(this.#responseTo(answer, sent))
        },
      }
      this.pending.add(pending)
      const endStarted = request?.starts(() => end(undefined))
      signal.addEventListener('abort', () => {
        if (request?.ended) return
        end(undefined)
        if (!this.#isDeaf) reject(signal.reason)
      })
    })
  }

  #responseTo(answer: Answer, sent: Sent): Response {
    switch (answer.kind) {
      case 'token': {
        const value = this.#referee.issues(sent, answer.lifetimeSeconds * 1_000)
        const fields = { access_token: value, expires_in: answer.lifetimeSeconds, token_type: 'Bearer' }
        return fakeResponse(200, JSON.stringify(fields), headersOf(answer))
      }
      case 'status':
        return fakeResponse(answer.status, '{}', headersOf(answer))
      case 'bad body':
        return fakeResponse(200, '<html>', {})
      default:
        throw new Error(`A world cannot be explored with '${answer.kind}'`)
    }
  }
}

/** A token that nobody may get. */
const TOO_LATE = JSON.stringify({ access_token: 'too-late', expires_in: 100, token_type: 'Bearer' })

/** As much of a Response as a token request reads: a real one, with its streams, takes longer than the rest of a schedule. */
function fakeResponse(status: number, body: string, headers: Readonly<Record<string, string>>): Response {
  return {
    status,
    ok: status === 200,
    type: 'default',
    redirected: false,
    url: '',
    headers: { has: (name: string) => name in headers, get: (name: string) => headers[name] ?? null },
    body: [new TextEncoder().encode(body)],
  } as unknown as Response
}
