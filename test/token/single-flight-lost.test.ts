/** An acquisition that was lost with the request that began it, as on Cloudflare Workers, and a process that stood still. */
import { ProviderClosedError, type TokenProviderOptions } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { Fleet } from '../store/fleet.ts'
import { MemoryStore } from '../store/memory-store.ts'
import { ManualClock, settled } from '../support/clock.ts'
import { type Answer, deaf, granted, hang, rejection, rig, status, withoutJitter } from './harness.ts'

withoutJitter()

const TIMEOUT_MS = 5_000
/** An acquisition is lost a second after its longest time. */
const LOST_MS = TIMEOUT_MS + 1_000
/** With a store, its looks, the lease and the write take a minute at most. */
const LOST_WITH_STORE_MS = LOST_MS + 60_000
/** After the process stood still, what arrived meanwhile is waited for so long. */
const AFTER_FREEZE_MS = 100
/** The time of one operation of a store. */
const OPERATION_MS = 1_000

/** Loses what an acquisition waits for, as Cloudflare Workers do when the request that began it ends. */
class LosingClock extends ManualClock {
  /** The sleep of this length never ends, so often. */
  loses = { ms: TIMEOUT_MS, times: 0 }
  readonly #breaks: ((error: Error) => void)[] = []

  override sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (ms === this.loses.ms && this.loses.times > 0) {
      this.loses.times -= 1
      return new Promise(() => {})
    }
    const broken = Promise.withResolvers<never>()
    this.#breaks.push(broken.reject)
    return Promise.race([super.sleep(ms, signal), broken.promise])
  }

  /** Ends every sleep with an error, as newer runtimes do with promises of a request that has ended. */
  breakSleeps(error: Error): void {
    for (const end of this.#breaks) end(error)
  }

  /** Time passes while the process stands still: then timers fire late, in the order of their times. */
  standStill(ms: number): void {
    this.pass(ms)
  }
}

/** A provider whose first token requests, so many, are lost. */
function losing(times: number, { answers = [], ...options }: LosingOptions = {}) {
  const clock = new LosingClock()
  const made = rig(answers, { timeoutMs: TIMEOUT_MS, clock, ...options })
  for (let lost = 0; lost < times; lost += 1) made.endpoint.answers.push(deaf)
  clock.loses.times = times
  return { ...made, clock }
}

type LosingOptions = Partial<TokenProviderOptions> & {
  /** The answers to the requests before those. */
  readonly answers?: Answer[]
}

describe('a token request that was lost with the request that sent it, as on Cloudflare Workers,', () => {
  it('is aborted and sent again, once for all calls that wait for it', async () => {
    const { provider, endpoint, clock } = losing(1)
    const first = provider.getToken()
    await settled()
    const second = provider.getToken()
    await clock.advance(LOST_MS - 1)
    expect(endpoint.count).toBe(1)
    await clock.advance(1)
    expect(await second).toBe(await first)
    expect(endpoint.count).toBe(2)
    expect(endpoint.requests[0]?.init.signal?.aborted).toBe(true)
    expect(clock.sleeping).toBe(0)
  })

  it('changes nothing if it is answered afterwards', async () => {
    const gate = Promise.withResolvers<void>()
    const { provider, endpoint, clock, events } = losing(0, {
      answers: [(init) => gate.promise.then(() => granted()(init))],
    })
    clock.loses.times = 1
    const waiting = provider.getToken()
    await clock.advance(LOST_MS)
    const token = await waiting
    events.length = 0
    gate.resolve()
    await settled()
    expect(provider.currentToken()).toBe(token)
    expect([events, endpoint.count]).toEqual([[], 2])
  })

  it('fails the calls if it is lost a second time, but no later call', async () => {
    const { provider, endpoint, clock } = losing(2)
    const waiting = rejection(provider.getToken())
    await clock.advance(2 * LOST_MS)
    expect(await waiting).toMatchObject({
      message: 'POST https://auth.test.example/oauth/token was lost: use waitUntil().',
      code: 'ERR_TOKEN_TIMEOUT',
      retryable: true,
    })
    await provider.getToken()
    expect(endpoint.count).toBe(3)
  })

  it('is sent again at once where the runtime ends the wait for it with an error of its own', async () => {
    const { provider, endpoint, clock } = losing(1)
    const waiting = provider.getToken()
    await settled()
    clock.breakSleeps(new Error('The request that this promise belongs to has ended'))
    await waiting
    expect(endpoint.count).toBe(2)
  })

  it('holds up a call that comes afterwards only as long as it may still end', async () => {
    const { provider, endpoint, clock } = losing(0, { answers: [granted({ expires_in: 100 }), deaf] })
    await provider.getToken()
    await clock.advance(90_000 - LOST_MS)
    clock.loses.times = 1
    expect(provider.currentToken()).toBeDefined()
    await clock.advance(LOST_MS)
    const waiting = provider.getToken()
    await clock.advance(AFTER_FREEZE_MS - 1)
    expect(endpoint.count).toBe(2)
    await clock.advance(1)
    await waiting
    expect(endpoint.count).toBe(3)
  })

  it('is replaced by the next background renewal if it was one', async () => {
    const { provider, endpoint, clock } = losing(0, { answers: [granted({ expires_in: 100 }), deaf] })
    await provider.getToken()
    await clock.advance(80_000)
    clock.loses.times = 1
    for (const [passedMs, requests] of [
      [0, 2],
      [LOST_MS, 2], // after a freeze it may only be late
      [AFTER_FREEZE_MS - 1, 2],
      [1, 3],
    ] as const) {
      await clock.advance(passedMs)
      expect(provider.currentToken()).toBeDefined()
      await settled()
      expect(endpoint.count).toBe(requests)
    }
  })

  it('ends the waits of its calls, and holds up no later one, when the provider is closed', async () => {
    const { provider, clock } = losing(1)
    const waiting = [rejection(provider.getToken())]
    await clock.advance(LOST_MS - 1)
    clock.standStill(1)
    waiting.push(rejection(provider.getToken()))
    await provider.close()
    for (const error of await Promise.all(waiting)) expect(error).toBeInstanceOf(ProviderClosedError)
    await settled()
    expect(clock.sleeping).toBe(0)
  })

  it('is not one that failed', async () => {
    const { provider, endpoint } = losing(0, { answers: [status(400, { error: 'invalid_request' })] })
    expect(await rejection(provider.getToken())).toMatchObject({ status: 400, error: 'invalid_request' })
    expect(endpoint.count).toBe(1)
  })
})

describe('with a store, an acquisition', () => {
  it('is not lost while it waits for another process, and then for its own request', async () => {
    const fleet = new Fleet()
    await fleet.begin()
    const [key = ''] = fleet.store.keys
    fleet.store.remove(key)
    fleet.store.hold(key, 60_000)
    fleet.answerAfter(TIMEOUT_MS - 100)
    const { provider } = fleet.start({ timeoutMs: TIMEOUT_MS })
    const waiting = provider.getToken()
    for (let passedMs = 0; passedMs < 14_000; passedMs += 50) await fleet.skip(50)
    expect(await waiting).toBe(provider.currentToken())
    expect(fleet.endpoint.count).toBe(2)
  })

  it.each(['get', 'lease'] as const)('is lost a minute later, and begun anew: its %s', async (operation) => {
    const clock = new LosingClock()
    const store = new MemoryStore(clock)
    const { provider, endpoint } = rig([], { store, clock, timeoutMs: TIMEOUT_MS })
    store.faults[operation] = () => new Promise(() => {})
    clock.loses = { ms: operation === 'get' ? 2 * OPERATION_MS : OPERATION_MS, times: 1 } // the first one has twice the time
    const waiting = provider.getToken()
    await settled()
    store.failAlways(undefined)
    await clock.advance(LOST_WITH_STORE_MS - 1)
    expect(endpoint.count).toBe(0)
    await clock.advance(1)
    expect(await waiting).toBe(provider.currentToken())
    expect(endpoint.count).toBe(1)
  })

  it('whose write was lost holds up its caller no longer, and never close()', async () => {
    const clock = new LosingClock()
    const store = new MemoryStore(clock)
    store.faults.set = () => {
      clock.loses = { ms: OPERATION_MS, times: 1 }
      return new Promise(() => {})
    }
    const { provider, endpoint } = rig([], { store, clock, timeoutMs: TIMEOUT_MS })
    const waiting = provider.getToken()
    await clock.advance(LOST_WITH_STORE_MS)
    expect(await waiting).toBe(provider.currentToken())
    expect(endpoint.count).toBe(1)
    await expect(provider.close()).resolves.toBeUndefined()
  })
})

describe('a process that stood still for longer than an acquisition may take', () => {
  it('uses the token that arrived meanwhile', async () => {
    const { provider, endpoint, clock } = losing(0)
    const gate = Promise.withResolvers<void>()
    endpoint.answers.push((init) => gate.promise.then(() => granted()(init)))
    clock.loses.times = 1 // the platform reads input before it fires a timer that is late
    const waiting = provider.getToken()
    await settled()
    clock.standStill(10 * LOST_MS)
    const later = provider.getToken()
    await clock.advance(AFTER_FREEZE_MS - 1)
    gate.resolve()
    expect(await later).toBe(await waiting)
    expect(endpoint.count).toBe(1)
  })

  it('ends a token request by its own limit, and does not count it as lost', async () => {
    const { provider, endpoint, clock } = losing(0, { answers: [hang] })
    const waiting = rejection(provider.getToken())
    await settled()
    clock.standStill(10 * LOST_MS)
    await clock.advance(0)
    expect(await waiting).toMatchObject({
      code: 'ERR_TOKEN_TIMEOUT',
      message: expect.stringContaining('returned no response within'),
    })
    expect(endpoint.count).toBe(1)
  })
})
