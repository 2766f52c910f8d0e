/** The rate limit of renewals after rejections: per API, in one process and across processes that share a token. */
import { describe, expect, it } from 'vitest'
import { elsewhere } from '../store/fleet.ts'
import { FAILURES } from '../store/memory-store.ts'
import { longLived, oneRenewed, renewedAfterRejection } from '../store/scenes.ts'
import { DAY_MS, HOUR_MS, mostWithin } from '../support/periods.ts'
import { thinOut } from '../support/recorded.ts'
import {
  type Answer,
  granted,
  IN_STORE_URL,
  MERCHANT_URL,
  noConnection,
  type Rig,
  rejection,
  rig,
  status,
  withoutJitter,
} from './harness.ts'

withoutJitter()

const MERCHANT = 'https://api.test.example/merchant'

/** A provider whose tokens live for 10 days. */
function long(): Rig {
  const made = rig([], { retries: 0 })
  made.endpoint.otherwise = granted({ expires_in: 10 * 86_400 })
  return made
}

/** Reports the current token as rejected; resolves with whether it was renewed. */
async function renewed({ provider }: Rig, url = MERCHANT_URL): Promise<boolean> {
  const token = await provider.getToken()
  const newer = await provider.renewToken(token, { url })
  expect(newer?.value).not.toBe(token.value)
  return newer !== undefined
}

describe('renewals after rejections', () => {
  it('are immediate the first time, then wait for a gap of 1 s that doubles up to 30 min', async () => {
    const made = long()
    expect(await renewed(made)).toBe(true)
    for (const seconds of [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 1_800, 1_800]) {
      await made.clock.advance(seconds * 1_000 - 1)
      made.events.length = 0
      expect(await renewed(made)).toBe(false)
      expect(made.events.at(-1)).toMatchObject({ type: 'renewal-suppressed', nextRenewalMs: 1 })
      await made.clock.advance(1)
      expect(await renewed(made)).toBe(true)
    }
  })

  it.each([
    { quietMs: 62_001, again: true, of: 'reset after more than the gap and a minute' },
    { quietMs: 62_000, again: false, of: 'kept after exactly the gap and a minute' },
    { quietMs: 61_999, again: false, of: 'kept after less than the gap and a minute' },
  ])('have their gap reset by a time without rejections: $of', async ({ quietMs, again }) => {
    const made = long()
    await renewed(made)
    await made.clock.advance(1_000)
    expect(await renewed(made)).toBe(true) // the gap is now 2 s
    await made.clock.advance(quietMs)
    expect(await renewed(made)).toBe(true)
    await made.clock.advance(1_000)
    expect(await renewed(made)).toBe(again)
  })

  it('keep their gap while rejections continue, even if none causes a renewal', async () => {
    const made = long()
    for (const seconds of [0, 1, 2, 4, 8, 16, 32, 64]) {
      await made.clock.advance(seconds * 1_000)
      expect(await renewed(made)).toBe(true)
    }
    for (let waited = 0; waited < 120; waited += 30) {
      await made.clock.advance(30_000)
      expect(await renewed(made)).toBe(false)
    }
  })

  it('are limited separately for each apiUrls entry', async () => {
    const made = long()
    expect(await renewed(made)).toBe(true)
    expect(await renewed(made)).toBe(false)
    expect(await renewed(made, IN_STORE_URL)).toBe(true)
    expect(await renewed(made, IN_STORE_URL)).toBe(false)
    expect(await renewed(made, `${MERCHANT}/refunds?a=b`)).toBe(false)
  })

  it('have a separate rate limit without a url, and do not happen for a url outside apiUrls', async () => {
    const made = long()
    expect(await renewed(made)).toBe(true)
    const token = await made.provider.getToken()
    const newer = await made.provider.renewToken(token)
    expect(newer).toBeDefined()
    expect(
      await made.provider.renewToken(newer ?? token, { url: new URL('https://x.example') }),
    ).toBeUndefined()
  })

  it('do not count against the rate limit when they fail', async () => {
    const made = long()
    const token = await made.provider.getToken()
    for (const cooldownMs of [1_000, 2_000, 4_000]) {
      made.endpoint.answers.push(status(503))
      const error = await rejection(made.provider.renewToken(token, { url: MERCHANT_URL }))
      expect(error).toMatchObject({ status: 503 })
      await made.clock.advance(cooldownMs)
    }
    expect(await renewed(made)).toBe(true)
    await made.clock.advance(1_000)
    expect(await renewed(made)).toBe(true)
  })

  it('are retried after pauses that double up to 5 min while the token endpoint fails', async () => {
    const made = long()
    const { provider, endpoint, clock, events } = made
    const token = await provider.getToken()
    endpoint.otherwise = status(503)
    const triedAt: number[] = []
    for (let second = 0; second < 1_200; second += 1) {
      const before = endpoint.count
      const renewal = provider.renewToken(token, { url: MERCHANT_URL }).catch(() => {})
      await clock.advance(1_000)
      await renewal
      for (let n = before; n < endpoint.count; n += 1) triedAt.push(second)
    }
    expect(triedAt).toEqual([0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111])
    expect(events.at(-1)).toMatchObject({ type: 'renewal-suppressed', nextRenewalMs: 212_000 })

    endpoint.otherwise = granted({ expires_in: 10 * 86_400 })
    expect(await renewed(made, IN_STORE_URL)).toBe(true)
    await clock.advance(212_000)
    expect(await renewed(made)).toBe(true)

    await clock.advance(2_000) // a success ends the pauses
    endpoint.answers.push(status(503))
    await provider.renewToken(await provider.getToken(), { url: MERCHANT_URL }).catch(() => {})
    await clock.advance(1_000)
    expect(await renewed(made)).toBe(true)
  })

  it.each([
    [60_001, true],
    [60_000, false],
  ])(
    'have their failure pauses reset by more than a minute without rejections: after %i ms, %s',
    async (quietMs, isOver) => {
      const made = long()
      const { provider, endpoint, clock } = made
      const token = await provider.getToken()
      endpoint.otherwise = status(503)
      for (let second = 0; second < 64; second += 1) {
        const renewal = provider.renewToken(token, { url: MERCHANT_URL }).catch(() => {})
        await clock.advance(1_000)
        await renewal
      }
      await clock.advance(63_000 + quietMs) // the last gap, which began a second ago
      endpoint.answers.push(status(503), granted({ expires_in: 10 * 86_400 }))
      await provider.renewToken(token, { url: MERCHANT_URL }).catch(() => {})
      await clock.advance(5_000) // the cooldown
      expect(await renewed(made)).toBe(isOver)
    },
  )

  it.each<[string, minutes: number, Answer]>([
    ['no connection', 5, noConnection],
    ['a 408', 5, status(408)],
    ['a 500', 5, status(500)],
    ['a redirect (300)', 30, status(300)],
    ['a 499', 30, status(499)],
  ])('that fail are tried at growing intervals: %s, up to %i min', async (_, minutes, answer) => {
    let now = 0
    const clock = { monotonicMs: () => now, epochMs: () => now, sleep: () => new Promise<void>(() => {}) }
    const lived = granted({ expires_in: 10 * 86_400 })
    const { provider, endpoint } = rig([lived], { clock, retries: 0 })
    const token = await provider.getToken()
    endpoint.otherwise = answer
    const triedAt: number[] = []
    for (; now < 6 * HOUR_MS; now += 30_000) {
      const { count } = endpoint
      await provider.renewToken(token, { url: MERCHANT_URL }).catch(() => {})
      if (endpoint.count > count) triedAt.push(now)
    }
    const gapsMs = triedAt.slice(1).map((at, n) => at - (triedAt[n] ?? 0))
    expect(gapsMs).toEqual(gapsMs.toSorted((one, other) => one - other))
    expect(gapsMs.at(-1)).toBe(minutes * 60_000)
  })

  it.each([61.5, 250])(
    'are at most 12 in any hour and 60 in any day for an API that rejects every token (called every %f s)',
    async (seconds) => {
      let now = 0
      const clock = { monotonicMs: () => now, epochMs: () => now, sleep: () => new Promise<void>(() => {}) }
      const made = rig([], { clock, retries: 0 })
      made.endpoint.otherwise = granted({ expires_in: 10 * 86_400 })
      const renewedAt: number[] = []
      for (; now < 30 * HOUR_MS; now += seconds * 1_000) if (await renewed(made)) renewedAt.push(now)
      thinOut()
      expect(mostWithin(HOUR_MS, renewedAt)).toBeLessThanOrEqual(12)
      expect(mostWithin(DAY_MS, renewedAt)).toBeLessThanOrEqual(60)
      expect(renewedAt.length).toBeGreaterThan(60)
      expect(made.endpoint.count).toBe(renewedAt.length + 1)
    },
  )

  it('stop after 12 in an hour, and resume an hour after the first', async () => {
    const made = long()
    for (let pair = 0; pair < 6; pair += 1) {
      expect(await renewed(made)).toBe(true)
      await made.clock.advance(1_000)
      expect(await renewed(made)).toBe(true)
      await made.clock.advance(62_001) // long enough for the gap to be reset
    }
    made.events.length = 0
    expect(await renewed(made)).toBe(false)
    expect(made.events.at(-1)).toMatchObject({ type: 'renewal-suppressed', nextRenewalMs: 3_221_994 })
    await made.clock.advance(3_221_993)
    expect(await renewed(made)).toBe(false)
    await made.clock.advance(1)
    expect(await renewed(made)).toBe(true)
    expect(await renewed(made)).toBe(false)
    expect(made.endpoint.count).toBe(14)
  })
})

type Elsewhere = { url?: string | null; clientId?: string }

describe('the gap after a renewal', () => {
  it.each([
    ['with leases', true],
    ['without leases', false],
  ])('applies to other processes, too: store %s', async (_, leases) => {
    const { fleet, other } = await oneRenewed(leases)
    await fleet.skip(400)
    other.events.length = 0
    expect(await renewedAfterRejection(fleet, other)).toBe(false)
    expect(other.events.at(-1)).toEqual({
      type: 'renewal-suppressed',
      api: MERCHANT,
      nextRenewalMs: 600,
      environment: 'test',
    })
    await fleet.skip(599)
    expect(await renewedAfterRejection(fleet, other)).toBe(false)
    await fleet.skip(1)
    expect(await renewedAfterRejection(fleet, other)).toBe(true)
  })

  it('suppresses a renewal right after that of another process, without waiting for the lease', async () => {
    const { fleet, other } = await oneRenewed()
    const old = await other.provider.getToken()
    const newer = await other.provider.renewToken(old, { url: MERCHANT_URL })
    fleet.store.hold(fleet.store.tokenKey, 5_000)
    const renewal = other.provider.renewToken(String(newer?.value), { url: MERCHANT_URL })
    expect(await fleet.tookMs(renewal)).toBe(0)
    expect(await renewal).toBeUndefined()
    expect(fleet.endpoint.count).toBe(2)
  })

  it('does not hold back another API that rejects the token at the same time', async () => {
    const { fleet, one } = await oneRenewed()
    await fleet.skip(1_000)
    expect(await renewedAfterRejection(fleet, one)).toBe(true) // the gap is now 2 s
    await fleet.skip(1_000)
    const token = await one.provider.getToken()
    const renewals = [MERCHANT_URL, IN_STORE_URL].map((url) => one.provider.renewToken(token, { url }))
    expect([token, undefined]).not.toContain((await Promise.all(renewals))[1])
    expect(fleet.endpoint.count).toBe(4)
  })

  it.each([0, 1])('is not announced for a token that expired %i ms ago', async (agoMs) => {
    const { fleet, other } = await oneRenewed()
    const old = await other.provider.getToken()
    const token = await other.provider.renewToken(old, { url: MERCHANT_URL })
    other.events.length = 0
    fleet.store.faults.get = (run) => {
      fleet.store.faults.get = undefined
      fleet.clock.stepWallClock(10 * DAY_MS - 10_000 + agoMs)
      return run()
    }
    expect(await other.provider.renewToken(String(token?.value), { url: MERCHANT_URL })).toBeUndefined()
    expect(other.events.map(({ type }) => type)).toEqual(['token-rejected'])
  })

  it('doubles with each renewal, whichever process makes it', async () => {
    const { fleet, one, other } = await oneRenewed()
    const processes = [other, one, fleet.start(), fleet.start(), other]
    for (const [n, gapMs] of [1_000, 2_000, 4_000, 8_000, 16_000].entries()) {
      const process = processes[n] ?? one
      await fleet.skip(gapMs - 1)
      expect(await renewedAfterRejection(fleet, process)).toBe(false)
      await fleet.skip(1)
      expect(await renewedAfterRejection(fleet, process)).toBe(true)
    }
  })

  it.each([
    { agoMs: 62_000, isOver: false, when: 'kept a minute and twice the gap after it' },
    { agoMs: 62_001, isOver: true, when: 'reset when that time has passed' },
  ])('is read from the store by a new process: $when', async ({ agoMs, isOver }) => {
    const { fleet } = await oneRenewed()
    await fleet.skip(agoMs)
    const late = fleet.start()
    expect(await renewedAfterRejection(fleet, late)).toBe(true)
    await fleet.skip(1_000)
    expect(await renewedAfterRejection(fleet, late)).toBe(isOver)
  })

  it("is measured by the store's clock, whatever the clocks of the machines say", async () => {
    const { fleet } = await oneRenewed()
    await fleet.skip(999)
    const clock = elsewhere(fleet.clock, { monotonicMs: 12_345_678, epochMs: -5 * HOUR_MS })
    const late = fleet.start({ clock })
    expect(await renewedAfterRejection(fleet, late)).toBe(false)
    await fleet.skip(1)
    expect(await renewedAfterRejection(fleet, late)).toBe(true)
  })

  it.each([
    ['another API', { url: IN_STORE_URL }],
    ['an unknown API', { url: null }],
    ['another client', { clientId: 'client-2' }],
  ])(
    'does not apply to %s, which has a separate gap that is also shared',
    async (_, { url, ...options }: Elsewhere) => {
      const { fleet, other } = await oneRenewed()
      expect(await renewedAfterRejection(fleet, other)).toBe(false)
      const process = 'clientId' in options ? fleet.start(options) : other
      const place = url === undefined ? {} : { url }
      expect(await renewedAfterRejection(fleet, { ...process, ...place })).toBe(true)
      expect(await renewedAfterRejection(fleet, { ...fleet.start(options), ...place })).toBe(false)
      expect(fleet.store.keys.filter((key) => key.includes('.renewals-'))).toHaveLength(2)
    },
  )
})

describe('an API that rejects every token', () => {
  it.each([
    { seconds: 10, processes: 3 },
    { seconds: 65, processes: 2 },
    { seconds: 130, processes: 4 },
  ])(
    'causes at most 12 renewals an hour across all processes: $processes processes, a call every $seconds s',
    async ({ seconds, processes: count }) => {
      const fleet = longLived()
      const processes = Array.from({ length: count }, () => fleet.start())
      await processes[0]?.provider.getToken()
      const askedAt: number[] = []
      for (let step = 0; step < 100; step += 1) {
        const process = processes[step % count]
        if (process && (await renewedAfterRejection(fleet, process))) askedAt.push(step * seconds * 1_000)
        await fleet.clock.advance(seconds * 1_000)
      }
      expect(mostWithin(HOUR_MS, askedAt)).toBeLessThanOrEqual(12)
      expect(askedAt.length).toBeGreaterThan(5)
    },
  )

  it('causes at most 60 renewals a day across all processes', async () => {
    const fleet = longLived()
    const processes = [fleet.start(), fleet.start()]
    const askedAt: number[] = []
    for (let step = 0; step < 300; step += 1) {
      const process = processes[step % 2]
      if (process && (await renewedAfterRejection(fleet, process))) askedAt.push(fleet.clock.monotonicMs())
      await fleet.skip(301_000)
    }
    expect(askedAt.length).toBeGreaterThan(60)
    expect(mostWithin(DAY_MS, askedAt)).toBeLessThanOrEqual(60)
  })
})

it('a store that fails leaves each process with its own rate limit', async () => {
  const { fleet, one, other } = await oneRenewed()
  fleet.store.faults.get = FAILURES.rejects
  expect(await renewedAfterRejection(fleet, other)).toBe(true)
  expect(await renewedAfterRejection(fleet, one)).toBe(false)
})
