/** A token endpoint under the control of a schedule: it gives the answers of a list in order. */
import type { ScheduledClock } from '../support/clock.ts'

/** How it answers one request. */
export type Answer =
  | { readonly kind: 'token'; readonly lifetimeSeconds: number }
  | { readonly kind: 'status'; readonly status: number; readonly retryAfter?: number }
  | { readonly kind: 'no connection' | 'bad body' | 'hang' | 'hang at body' }
  /** `lost`: a token is issued, but its response is lost. `deaf`: a token arrives after the request was aborted. */
  | { readonly kind: 'lost' | 'deaf' }

/** Resolves when the schedule says so; in simulated time, after `takesMs` (from, to). */
export type Later = (label: string, takesMs?: readonly [from: number, to: number]) => Promise<void>

/** When a request was sent, and how far the wall clock has been set ahead since. */
export interface Sent {
  readonly at: number
  readonly wallAt: number
  aheadMs: number
}

/** The connection of one process to the endpoint. */
export interface EndpointClient {
  readonly name: string
  requestBegins(): void
  /** With the answer that arrived; undefined if the process aborted the request. */
  requestEnds(answer: Answer | undefined): void
  /** Issues a token, and returns its value. `aborted`: the process has aborted the request. */
  issue(request: { readonly sent: Sent; readonly lifetimeMs: number; readonly aborted: boolean }): string
  /** The answer reaches the process. */
  arrives?: Later
}

const HEALTHY_SECONDS = 1_000
const HALF_MS = [40, 200] as const

export class ModelEndpoint {
  /** The number of requests so far. */
  requests = 0
  /** The answer while it is down. */
  outage: Answer | undefined
  readonly #answers: Answer[]
  readonly #clock: ScheduledClock
  readonly #later: Later
  readonly #lifetimeSeconds: number
  readonly #sent = new Set<Sent>()

  /** After the given answers it issues tokens that live for `lifetimeSeconds`. */
  constructor(
    answers: readonly Answer[],
    {
      clock,
      later,
      lifetimeSeconds = HEALTHY_SECONDS,
    }: { clock: ScheduledClock; later: Later; lifetimeSeconds?: number | undefined },
  ) {
    this.#answers = [...answers]
    this.#clock = clock
    this.#later = later
    this.#lifetimeSeconds = lifetimeSeconds
  }

  /** From now on every request gets a token. */
  heal(): void {
    this.#answers.length = 0
  }

  wallClockStepped(ms: number): void {
    for (const sent of this.#sent) sent.aheadMs += Math.max(0, ms)
  }

  /** The `fetch` of one process. */
  fetchOf(client: EndpointClient): typeof fetch {
    return (_, init = {}) => {
      const signal = init.signal as AbortSignal
      const answer = this.#answers.shift() ??
        this.outage ?? { kind: 'token', lifetimeSeconds: this.#lifetimeSeconds }
      const sent = { at: this.#clock.monotonicMs(), wallAt: this.#clock.epochMs(), aheadMs: 0 }
      this.requests += 1
      this.#sent.add(sent)
      client.requestBegins()
      return new Promise((resolve, reject) => {
        let ended = false
        const end = (how: Answer | undefined): void => {
          if (!ended) client.requestEnds(how)
          ended = true
          this.#sent.delete(sent)
        }
        signal.addEventListener('abort', () => {
          end(undefined)
          if (answer.kind !== 'deaf') reject(signal.reason)
        })
        this.#answer(client, answer, { sent, signal }).then((response) => {
          if (signal.aborted !== (answer.kind === 'deaf')) return
          if (response === undefined) reject(new TypeError('fetch failed'))
          else resolve(response)
          if (answer.kind !== 'hang at body') end(answer)
        })
      })
    }
  }

  /** The answer as it arrives; undefined if the connection broke. */
  async #answer(
    client: EndpointClient,
    answer: Answer,
    { sent, signal }: { sent: Sent; signal: AbortSignal },
  ): Promise<Response | undefined> {
    if (answer.kind === 'hang') return await never()
    await this.#later(`the token endpoint answers ${client.name}: ${JSON.stringify(answer)}`, HALF_MS)
    const response = this.#responseTo(client, answer, { sent, signal })
    if (answer.kind === 'lost') return await never()
    await client.arrives?.(`the token endpoint's answer reaches ${client.name}`, HALF_MS)
    return response
  }

  #responseTo(
    client: EndpointClient,
    answer: Answer,
    { sent, signal }: { sent: Sent; signal: AbortSignal },
  ): Response | undefined {
    switch (answer.kind) {
      case 'no connection':
      case 'hang':
        return undefined
      case 'bad body':
        return new Response('<html>')
      case 'hang at body':
        return new Response(halfABody(signal))
      case 'status': {
        const headers = answer.retryAfter === undefined ? {} : { 'retry-after': `${answer.retryAfter}` }
        return new Response('{}', { status: answer.status, headers })
      }
      case 'token':
      case 'lost':
      case 'deaf': {
        const seconds = answer.kind === 'token' ? answer.lifetimeSeconds : this.#lifetimeSeconds
        const value = client.issue({ sent, lifetimeMs: seconds * 1_000, aborted: signal.aborted })
        return Response.json({ access_token: value, expires_in: seconds, token_type: 'Bearer' })
      }
    }
  }
}

function never(): Promise<never> {
  return new Promise(() => {})
}

function halfABody(signal: AbortSignal): ReadableStream {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('{"access'))
      signal.addEventListener('abort', () => controller.error(signal.reason))
    },
  })
}
