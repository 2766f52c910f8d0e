/** The token endpoint of a race: it answers in turn as it is told, when the schedule says so. */
import type { Answer } from './actions.ts'
import type { RaceClock } from './clock.ts'
import type { Referee } from './referee.ts'

const HEALTHY: Answer = { kind: 'token', lifetimeSeconds: 1_000 }

/** When a request was sent, and how far the wall clock was set ahead since. */
interface Sent {
  readonly at: number
  readonly wallAt: number
  aheadMs: number
}

export class RaceEndpoint {
  /** The tokens that were given, oldest first. */
  readonly given: string[] = []
  readonly #answers: Answer[]
  readonly #clock: RaceClock
  readonly #referee: Referee
  readonly #later: (label: string) => Promise<void>
  readonly #sent = new Set<Sent>()

  constructor(
    answers: readonly Answer[],
    clock: RaceClock,
    referee: Referee,
    later: (label: string) => Promise<void>,
  ) {
    this.#answers = [...answers]
    this.#clock = clock
    this.#referee = referee
    this.#later = later
  }

  /** From now on every request gets a token. */
  heal(): void {
    this.#answers.length = 0
  }

  wallClockStepped(ms: number): void {
    for (const sent of this.#sent) sent.aheadMs += Math.max(0, ms)
  }

  readonly fetch: typeof fetch = (_, init = {}) => {
    const answer = this.#answers.shift() ?? HEALTHY
    const signal = init.signal as AbortSignal
    const sent = { at: this.#clock.monotonicMs(), wallAt: this.#clock.epochMs(), aheadMs: 0 }
    this.#sent.add(sent)
    this.#referee.requestBegins()
    return new Promise((resolve, reject) => {
      let ended = false
      const end = (how: Answer | undefined): void => {
        if (!ended) this.#referee.requestEnds(how)
        ended = true
        this.#sent.delete(sent)
      }
      signal.addEventListener('abort', () => {
        end(undefined)
        if (answer.kind !== 'deaf') reject(signal.reason)
      })
      if (answer.kind === 'hang') return
      this.#later(`the token endpoint: ${JSON.stringify(answer)}`).then(() => {
        // The deaf one answers, with a token, when nobody listens any more.
        if (signal.aborted !== (answer.kind === 'deaf')) return
        if (answer.kind === 'no connection') reject(new TypeError('fetch failed'))
        else resolve(this.#answerOf(answer, sent, signal))
        if (answer.kind !== 'hang at body') end(answer)
      })
    })
  }

  #answerOf(answer: Answer, sent: Sent, signal: AbortSignal): Response {
    if (answer.kind === 'hang at body') return new Response(halfABody(signal))
    if (answer.kind === 'bad body') return new Response('<html>')
    if (answer.kind === 'status') {
      const { status, retryAfter } = answer
      return new Response('{}', {
        status,
        headers: retryAfter === undefined ? {} : { 'retry-after': `${retryAfter}` },
      })
    }
    const lifetimeSeconds = answer.kind === 'token' ? answer.lifetimeSeconds : 1_000
    const value = signal.aborted ? 'too-late' : `token-${this.given.length + 1}`
    if (!signal.aborted) {
      this.given.push(value)
      this.#referee.granted(value, sent, lifetimeSeconds)
    }
    return Response.json({ access_token: value, expires_in: lifetimeSeconds, token_type: 'Bearer' })
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
