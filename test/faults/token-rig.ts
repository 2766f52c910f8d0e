/** Tests a fault of the token endpoint in three situations, and how callers recover from it. */
import type { AccessToken, TokenProviderOptions, TokenRequestError } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { type ManualClock, settled } from '../support/clock.ts'
import { granted, type Rig, rejection, rig, SECRET } from '../token/harness.ts'
import { record } from './cells.ts'
import {
  bringTo,
  COLD,
  EXPIRED,
  inWords,
  isOver,
  lifetimeOf,
  outcomeOf,
  RECOVERY,
  requestsOf,
  TABLE,
  useLongestJitter,
  WINDOW,
} from './token-words.ts'

/** What goes wrong: an answer of the token endpoint, or the clientSecret function. */
export interface TokenFault {
  readonly answer?: (init: RequestInit, clock: ManualClock) => Response | Promise<Response>
  readonly clientSecret?: () => unknown
}

/** The specified outcome of a fault; times in ms. */
export interface Expected {
  /** What a caller without a token gets. */
  readonly outcome: string
  readonly requests: number
  readonly ms: number
  /** The same for a background refresh, which makes one attempt. Absent if it does not differ. */
  readonly background?: { readonly requests: number; readonly ms: number }
  /** From the failure to the first success after the fault has ended; absent if the fault causes no failure. */
  readonly firstSuccessMs?: number
  /** The Retry-After, which also delays the next background refresh and the first call after expiry. */
  readonly retryAfterMs?: number | undefined
}

const STEP_MS = 100
const MOST_STEPS = 200

const EXPIRED_MS = 990_000
/** The remaining lifetime of the current token inside the refresh window. */
const LEFT_MS = 90_000

/** A provider whose token endpoint, or secret, fails between `begin` and `end`. */
class FaultRig {
  readonly made: Rig
  readonly #fault: TokenFault
  #begun = false

  constructor(fault: TokenFault, options: Partial<TokenProviderOptions> = {}) {
    this.#fault = fault
    const { clientSecret } = fault
    const secret = clientSecret && (() => (this.#begun ? (clientSecret() as string) : SECRET))
    this.made = rig([], { clientSecret: secret ?? SECRET, ...options } as TokenProviderOptions)
  }

  begin(): void {
    const { answer } = this.#fault
    const { clock, endpoint } = this.made
    this.#begun = true
    if (answer !== undefined) endpoint.otherwise = (init) => answer(init, clock)
  }

  end(): void {
    this.#begun = false
    this.made.endpoint.otherwise = granted()
  }

  /** One call without a token: its outcome, its token requests and how long it takes. */
  async call(): Promise<Required<Pick<Expected, 'outcome' | 'requests' | 'ms'>>> {
    const { provider, endpoint, clock } = this.made
    const before = { requests: endpoint.count, at: clock.monotonicMs() }
    let outcome: string | undefined
    provider.getToken().then(
      (token) => {
        outcome = `token for ${lifetimeOf(token.expiresAt - clock.epochMs() + clock.monotonicMs() - before.at)}`
      },
      (error: unknown) => {
        outcome = outcomeOf(error)
      },
    )
    await this.#pass(() => outcome !== undefined)
    const ms = clock.monotonicMs() - before.at
    return { outcome: outcome ?? 'nothing', requests: endpoint.count - before.requests, ms }
  }

  /** One call that starts a renewal, and further calls until it is over: all get the current token at once. */
  async callWhileRenewing(current: AccessToken | undefined): Promise<{ requests: number; ms: number }> {
    const { provider, endpoint, clock, events } = this.made
    const before = { requests: endpoint.count, events: events.length, at: clock.monotonicMs() }
    expect((await provider.getToken()).value, 'the current token').toBe(current?.value)
    const over = (): boolean => events.slice(before.events).some(isOver)
    await this.#pass(over, async () => {
      expect((await provider.getToken()).value, 'the token in the meantime').toBe(current?.value)
    })
    return { requests: endpoint.count - before.requests, ms: clock.monotonicMs() - before.at }
  }

  /** How long after a failure calls get a token again, if the fault has ended. */
  async recovery(firstSuccessMs: number, elapsedMs = 0): Promise<number> {
    const { provider, endpoint, clock } = this.made
    const failedAt = clock.monotonicMs() - elapsedMs
    const requestsBefore = endpoint.count
    for (const ms of [elapsedMs, firstSuccessMs - 1]) {
      await clock.advance(failedAt + ms - clock.monotonicMs())
      const error = await rejection<TokenRequestError>(provider.getToken())
      expect(error.retryAfterMs, 'what remains').toBe(firstSuccessMs - ms)
    }
    expect(endpoint.count, 'requests in the cooldown').toBe(requestsBefore)
    await clock.advance(1)
    await provider.getToken()
    expect(endpoint.count, 'requests for the first success').toBe(requestsBefore + 1)
    return clock.monotonicMs() - failedAt
  }

  async #pass(over: () => boolean, meanwhile = async (): Promise<void> => {}): Promise<void> {
    await settled()
    for (let step = 0; !over() && step < MOST_STEPS; step += 1) {
      await meanwhile()
      await this.made.clock.advance(STEP_MS)
    }
  }
}

/** Tests faults with the same specified outcome, in every situation. */
export function tryFaults(
  group: string,
  expected: Expected,
  faults: readonly (readonly [row: string, fault: TokenFault])[],
): void {
  const { firstSuccessMs, retryAfterMs = 0, background, ...seenByCaller } = expected
  const { requests, ms } = background ?? expected
  describe(group, () => {
    useLongestJitter()

    const { outcome } = expected
    const title = `a call gets "${outcome}" after ${requestsOf(expected.requests)} and ${inWords(expected.ms)}`
    const withoutToken = (column: typeof COLD | typeof EXPIRED): void => {
      it.for(faults)(`${title}: %s, token cache ${column}`, async ([row, fault], { task }) => {
        const faultRig = new FaultRig(fault)
        await bringTo(column, faultRig.made)
        faultRig.begin()
        const seen = await faultRig.call()
        faultRig.end()
        expect(seen).toEqual(seenByCaller)
        if (firstSuccessMs !== undefined) await faultRig.recovery(firstSuccessMs)
        const cell = `${seen.outcome}; ${requestsOf(seen.requests)}, ${inWords(seen.ms)}`
        record(task, { table: TABLE, group, row, column, cell })
      })
    }
    withoutToken(COLD)

    it.for(faults)(
      'calls inside the refresh window get the current token at once: %s',
      async ([row, fault], { task }) => {
        const unhandled = vi.fn()
        process.on('unhandledRejection', unhandled)
        const faultRig = new FaultRig(fault)
        const { provider, endpoint, clock } = faultRig.made
        const first = await bringTo(WINDOW, faultRig.made)
        faultRig.begin()
        const seen = await faultRig.callWhileRenewing(first)
        faultRig.end()
        expect(seen).toEqual({ requests, ms })
        // A quarter of the remaining lifetime plus 25% of jitter, or a longer Retry-After.
        const pauseMs = Math.max(((LEFT_MS - ms) / 4) * 1.25, retryAfterMs)
        const isOverFirst = pauseMs < LEFT_MS - ms
        const waits = isOverFirst ? [pauseMs - 1, 1] : [LEFT_MS - ms - 1, 0]
        for (const wait of firstSuccessMs === undefined ? [] : waits) {
          expect((await provider.getToken()).value, 'the current token').toBe(first?.value)
          await settled()
          expect(endpoint.count, 'requests in the pause').toBe(1 + requests)
          await clock.advance(wait)
        }
        if (isOverFirst) {
          await provider.getToken()
          await settled()
          expect((await provider.getToken()).value, 'a new token').not.toBe(first?.value)
        }
        process.off('unhandledRejection', unhandled)
        expect(unhandled).not.toHaveBeenCalled()
        const cell = `current token at once; ${requestsOf(seen.requests)} behind it`
        record(task, { table: TABLE, group, row, column: WINDOW, cell })
      },
    )

    withoutToken(EXPIRED)

    if (firstSuccessMs === undefined) return
    it.for(faults)(
      `calls get a token again ${inWords(firstSuccessMs)} after the failure: %s`,
      async ([row, fault], { task }) => {
        const repeated = new FaultRig(fault)
        const after: number[] = []
        for (const wait of [0, EXPIRED_MS]) {
          await repeated.made.clock.advance(wait)
          repeated.begin()
          await repeated.call()
          repeated.end()
          after.push(await repeated.recovery(firstSuccessMs)) // the same each time, because a success resets the cooldown
        }
        const past = await firstCallPastExpiry(fault, expected)
        expect([...after, past]).toEqual([
          firstSuccessMs,
          firstSuccessMs,
          retryAfterMs > 0 ? firstSuccessMs : 0,
        ])
        const pastExpiry = past === 0 ? 'past expiry at once' : 'past expiry too'
        record(task, {
          table: TABLE,
          group,
          row,
          column: RECOVERY,
          cell: `after ${inWords(Number(after[0]))}; ${pastExpiry}`,
        })
      },
    )
  })
}

const BEFORE_EXPIRY_MS = 500

/** How long a background failure half a second before expiry blocks calls after expiry; 0 if it does not. */
async function firstCallPastExpiry(fault: TokenFault, expected: Expected): Promise<number> {
  const faultRig = new FaultRig(fault, { expiryMarginMs: 9_500 }) // makes dates in whole seconds exact
  const { provider, endpoint, clock } = faultRig.made
  const first = await provider.getToken()
  const { requests, ms } = expected.background ?? expected
  await clock.advance(990_500 - BEFORE_EXPIRY_MS - ms)
  faultRig.begin()
  expect(await faultRig.callWhileRenewing(first)).toEqual({ requests, ms })
  faultRig.end()
  await clock.advance(BEFORE_EXPIRY_MS)
  expect(provider.currentToken(), 'a token past its margin').toBeUndefined()
  if (expected.retryAfterMs !== undefined)
    return await faultRig.recovery(Number(expected.firstSuccessMs), BEFORE_EXPIRY_MS)
  await provider.getToken()
  expect(endpoint.count).toBe(1 + requests + 1)
  return 0
}
