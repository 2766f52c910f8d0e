/** A token endpoint under the control of a schedule: it gives the answers of a list in order, then tokens. */
import type { ScheduledClock } from '../support/clock.ts'
import { currentRequest } from './incoming.ts'
import type { AnsweredQuota } from './limits.ts'
import type { Referee } from './referee.ts'

/** How it answers one request. */
export type Answer =
  | { readonly kind: 'token'; readonly lifetimeSeconds: number; readonly quota?: AnsweredQuota }
  | {
      readonly kind: 'status'
      readonly status: number
      /** In seconds. */
      readonly retryAfter?: number
      readonly quota?: AnsweredQuota
    }
  /** `deaf`: a token arrives after the request was aborted. */
  | { readonly kind: 'no connection' | 'bad body' | 'hang' | 'hang at body' | 'deaf' }

/** Resolves when the schedule says so. */
export type Later = (label: string) => Promise<void>

/** When a request was sent, and how far the wall clock has been set ahead since. */
export interface Sent {
  readonly at: number
  readonly wallAt: number
  aheadMs: number
}

const HEALTHY: Answer = { kind: 'token', lifetimeSeconds: 1_000 }

export class ModelEndpoint {
  readonly #answers: Answer[]
  readonly #clock: ScheduledClock
  readonly #later: Later
  readonly #referee: Referee
  readonly #sent = new Set<Sent>()

  constructor(
    answers: readonly Answer[],
    { clock, later, referee }: { clock: ScheduledClock; later: Later; referee: Referee },
  ) {
    this.#answers = [...answers]
    this.#clock = clock
    this.#later = later
    this.#referee = referee
  }

  /** From now on every request gets a token. */
  heal(): void {
    this.#answers.length = 0
  }

  wallClockStepped(ms: number): void {
    for (const sent of this.#sent) sent.aheadMs += Math.max(0, ms)
  }

  readonly fetch: typeof fetch = (_, init = {}) => {
    const signal = init.signal as AbortSignal
    const request = currentRequest()
    if (request?.ended) return new Promise(() => {}) // never sent
    const answer = this.#answers.shift() ?? HEALTHY
    const sent = { at: this.#clock.monotonicMs(), wallAt: this.#clock.epochMs(), aheadMs: 0 }
    this.#sent.add(sent)
    const requestEnds = this.#referee.requestBegins()
    return new Promise((resolve, reject) => {
      let ended = false
      const end = (how: Answer | undefined): void => {
        if (!ended) requestEnds(how)
        ended = true
        this.#sent.delete(sent)
      }
      request?.starts(() => end(undefined))
      signal.addEventListener('abort', () => {
        if (request?.ended) return
        end(undefined)
        if (answer.kind !== 'deaf') reject(signal.reason)
      })
      if (answer.kind === 'hang') return
      this.#later(`the token endpoint answers: ${JSON.stringify(answer)}`).then(() => {
        if (request?.ended || signal.aborted !== (answer.kind === 'deaf')) return
        const response = this.#responseTo(answer, sent, signal)
        if (response === undefined) reject(new TypeError('fetch failed'))
        else resolve(response)
        if (answer.kind !== 'hang at body') end(answer)
      })
    })
  }

  #responseTo(answer: Answer, sent: Sent, signal: AbortSignal): Response | undefined {
    switch (answer.kind) {
      case 'no connection':
      case 'hang':
        return undefined
      case 'bad body':
        return new Response('<html>')
      case 'hang at body':
        return new Response(halfABody(signal))
      case 'status': {
        return new Response('{}', { status: answer.status, headers: headersOf(answer) })
      }
      case 'deaf':
        return tokenResponse('too-late', 1_000)
      case 'token': {
        const { lifetimeSeconds } = answer
        const value = this.#referee.issues(sent, lifetimeSeconds * 1_000)
        return tokenResponse(value, lifetimeSeconds, headersOf(answer))
      }
    }
  }
}

function tokenResponse(value: string, seconds: number, headers: Record<string, string> = {}): Response {
  return Response.json({ access_token: value, expires_in: seconds, token_type: 'Bearer' }, { headers })
}

/** The headers of an answer that say when to ask again, and what is left of the quota. */
export function headersOf({
  quota,
  ...answer
}: Answer & { readonly kind: 'token' | 'status' }): Record<string, string> {
  const retryAfter = 'retryAfter' in answer ? answer.retryAfter : undefined
  const inText = quota && `b=per_hour;q=${quota.limit};r=${quota.remaining};t=${quota.resetsInSeconds}`
  return {
    ...(retryAfter !== undefined && { 'retry-after': `${retryAfter}` }),
    ...(inText !== undefined && { 'auth0-client-quota-limit': inText }),
  }
}

function halfABody(signal: AbortSignal): ReadableStream {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('{"access'))
      signal.addEventListener('abort', () => controller.error(signal.reason))
    },
  })
}
