/** Renewals after rejections are limited: for each API, in one process and in all that share a token. */
import { describe, expect, it } from 'vitest'
import { elsewhere, failuresOf, type Process } from '../store/fleet.ts'
import { answers, FAILURES } from '../store/memory-store.ts'
import { encryptedByHand, longLived, oneRenewed, rejected } from '../store/scenes.ts'
import { thinOut } from '../support/recorded.ts'
import {
  type Answer,
  granted,
  IN_STORE_URL,
  MERCHANT_URL,
  type Rig,
  rejection,
  rig,
  status,
  withoutJitter,
} from './harness.ts'

withoutJitter()

const MERCHANT = 'https://api.test.example/merchant'

function long(): Rig {
  const made = rig([], { retries: 0 })
  made.endpoint.otherwise = granted({ expires_in: 10 * 86_400 })
  return made
}

/** An API rejects the current token: whether it is renewed. */
async function renewed({ provider }: Rig, url = MERCHANT_URL): Promise<boolean> {
  const token = await provider.getToken()
  const newer = await provider.renewToken(token, { url })
  expect(newer?.value).not.toBe(token.value)
  return newer !== undefined
}

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** Enough, after two renewals in a row, for the gap to begin anew. */
const QUIET_MS = 64_001

/** How many of these times were within one period of this length at the most. */
function mostWithin(ms: number, times: readonly number[]): number {
  return Math.max(...times.map((from) => times.filter((at) => at >= from && at < from + ms).length))
}

describe('renewals after rejections', () => {
  it('are immediate at first, and may then follow after 1 s, doubling to 30 min', async () => {
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
    { quietMs: 62_001, again: true, of: 'longer than a minute and the gap resets' },
    { quietMs: 62_000, again: false, of: 'a minute and no more resets nothing' },
    { quietMs: 61_999, again: false, of: 'shorter than that resets nothing' },
  ])('begin anew after quiet: $of', async ({ quietMs, again }) => {
    const made = long()
    await renewed(made)
    await made.clock.advance(1_000)
    expect(await renewed(made)).toBe(true) // the gap is now 2 s
    await made.clock.advance(quietMs)
    expect(await renewed(made)).toBe(true)
    await made.clock.advance(1_000)
    expect(await renewed(made)).toBe(again)
  })

  it('do not begin anew while rejections go on, though none is renewed', async () => {
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

  it('are limited for each apiUrls entry by itself', async () => {
    const made = long()
    expect(await renewed(made)).toBe(true)
    expect(await renewed(made)).toBe(false)
    expect(await renewed(made, IN_STORE_URL)).toBe(true)
    expect(await renewed(made, IN_STORE_URL)).toBe(false)
    expect(await renewed(made, `${MERCHANT}/refunds?a=b`)).toBe(false)
  })

  it('without a url have a rate limit of their own, and for a foreign url there are none', async () => {
    const made = long()
    expect(await renewed(made)).toBe(true)
    const token = await made.provider.getToken()
    const newer = await made.provider.renewToken(token)
    expect(newer).toBeDefined()
    expect(
      await made.provider.renewToken(newer ?? token, { url: new URL('https://x.example') }),
    ).toBeUndefined()
  })

  it('that failed use up nothing', async () => {
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

  it('are tried with pauses that double to five minutes, while the token endpoint fails', async () => {
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
  ])('that failed leave nothing behind after a quiet time: of %i ms, %s', async (quietMs, isOver) => {
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
  })

  it.each<[string, Answer]>([
    ['a status', status(401)],
    ['a 429', status(429)],
    ['no token', granted({ expires_in: 0 })],
  ])(
    'are tried at most 12 times in any hour where the token endpoint refuses them by %s',
    async (_, answer) => {
      const { provider, endpoint, clock } = long()
      const token = await provider.getToken()
      endpoint.otherwise = answer
      for (let minute = 0; minute < 180; minute += 1) {
        await provider.renewToken(token, { url: MERCHANT_URL }).catch(() => {})
        await clock.advance(60_000)
        if (minute === 59) expect(endpoint.count).toBeLessThanOrEqual(13)
      }
      expect(endpoint.count).toBeLessThanOrEqual(37)
      expect(provider.currentToken()).toBe(token)
    },
  )

  it.each([61.5, 250])(
    'are at most 12 in any hour and 60 in any day, however an API that rejects all is called (every %f s)',
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

  it('are used up for an hour by the twelfth, and come back an hour after the first', async () => {
    const made = long()
    for (let pair = 0; pair < 6; pair += 1) {
      expect(await renewed(made)).toBe(true)
      await made.clock.advance(1_000)
      expect(await renewed(made)).toBe(true)
      await made.clock.advance(62_001) // long enough for the gap to begin anew
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

  it('are used up for a day by the sixtieth, and come back a day after the first', async () => {
    const made = long()
    for (let time = 0; time < 60; time += 1) {
      expect(await renewed(made)).toBe(true)
      await made.clock.advance(301_000) // long enough for the gap to begin anew, and 12 in an hour
    }
    made.events.length = 0
    const leftMs = DAY_MS - 60 * 301_000
    expect(await renewed(made)).toBe(false)
    expect(made.events.at(-1)).toMatchObject({ type: 'renewal-suppressed', nextRenewalMs: leftMs })
    await made.clock.advance(leftMs - 1)
    expect(await renewed(made)).toBe(false)
    await made.clock.advance(1)
    expect(await renewed(made)).toBe(true)
    expect(made.endpoint.count).toBe(62)
  })
})

describe('a rejected token', () => {
  it('that two APIs reject while no other can be had costs one request, and an error for each', async () => {
    const { provider, endpoint } = rig([granted(), status(503)], { retries: 0 })
    const token = await provider.getToken()
    const errors = await Promise.all(
      [MERCHANT_URL, IN_STORE_URL].map((url) => rejection(provider.renewToken(token, { url }))),
    )
    for (const error of errors) expect(error).toMatchObject({ code: 'ERR_TOKEN_STATUS', status: 503 })
    expect(errors[0]).not.toBe(errors[1])
    expect(endpoint.count).toBe(2)
  })

  it('that the token endpoint gives out again yields nothing, and another one later', async () => {
    const { provider, endpoint, clock } = rig([], { retries: 0 })
    endpoint.otherwise = granted({ access_token: 'the.same.token' })
    const token = await provider.getToken()
    expect(await provider.renewToken(token)).toBeUndefined()
    expect(endpoint.count).toBe(2)
    await clock.advance(1_000)
    endpoint.otherwise = granted()
    expect((await provider.renewToken(token))?.value).not.toBe(token.value)
    expect(endpoint.count).toBe(3)
  })
})

type Other = { url?: string | null; clientId?: string }

describe('the gap after a renewal', () => {
  it.each([
    ['with a lease', true],
    ['without', false],
  ])('holds for the next process, too: on a store %s', async (_, leases) => {
    const { fleet, other } = await oneRenewed(leases)
    await fleet.skip(400)
    other.events.length = 0
    expect(await rejected(fleet, other)).toBe(false)
    expect(other.events.at(-1)).toEqual({
      type: 'renewal-suppressed',
      api: MERCHANT,
      nextRenewalMs: 600,
      environment: 'test',
    })
    await fleet.skip(599)
    expect(await rejected(fleet, other)).toBe(false)
    await fleet.skip(1)
    expect(await rejected(fleet, other)).toBe(true)
  })

  it('doubles from process to process', async () => {
    const { fleet, one, other } = await oneRenewed()
    const processes = [other, one, fleet.start(), fleet.start(), other]
    for (const [n, gapMs] of [1_000, 2_000, 4_000, 8_000, 16_000].entries()) {
      const process = processes[n] ?? one
      await fleet.skip(gapMs - 1)
      expect(await rejected(fleet, process)).toBe(false)
      await fleet.skip(1)
      expect(await rejected(fleet, process)).toBe(true)
    }
  })

  it.each([
    { agoMs: 62_000, isOver: false, when: 'a minute and twice the gap ago' },
    { agoMs: 62_001, isOver: true, when: 'longer ago than that' },
  ])('is forgotten or not by a process that starts $when', async ({ agoMs, isOver }) => {
    const { fleet } = await oneRenewed()
    await fleet.skip(agoMs)
    const late = fleet.start()
    expect(await rejected(fleet, late)).toBe(true)
    await fleet.skip(1_000)
    expect(await rejected(fleet, late)).toBe(isOver)
  })

  it('is measured by the store, whatever the clocks of the machines say', async () => {
    const { fleet } = await oneRenewed()
    await fleet.skip(999)
    const clock = elsewhere(fleet.clock, { monotonicMs: 12_345_678, epochMs: -5 * HOUR_MS })
    const late = fleet.start({ clock })
    expect(await rejected(fleet, late)).toBe(false)
    await fleet.skip(1)
    expect(await rejected(fleet, late)).toBe(true)
  })

  it.each([
    ['another API', { url: IN_STORE_URL }],
    ['an unknown API', { url: null }],
    ['another client', { clientId: 'client-2' }],
  ])(
    'is not for %s, which has one of its own that others share, too',
    async (_, { url, ...options }: Other) => {
      const { fleet, other } = await oneRenewed()
      expect(await rejected(fleet, other)).toBe(false)
      const stranger = 'clientId' in options ? fleet.start(options) : other
      const place = url === undefined ? {} : { url }
      expect(await rejected(fleet, { ...stranger, ...place })).toBe(true)
      expect(await rejected(fleet, { ...fleet.start(options), ...place })).toBe(false)
      expect(fleet.store.keys.filter((key) => key.includes('.renewals-'))).toHaveLength(2)
    },
  )

  it('is not begun by a renewal that failed', async () => {
    const { fleet, other } = await oneRenewed()
    await fleet.skip(1_000)
    fleet.endpoint.answers.push(() => new Response('', { status: 400 }))
    await expect(rejected(fleet, other)).rejects.toMatchObject({ status: 400 })
    expect(await rejected(fleet, fleet.start())).toBe(true)
  })

  it('is not begun by a renewal in the background, nor by a first token', async () => {
    const fleet = longLived()
    await fleet.begin()
    expect(fleet.store.keys.filter((key) => key.includes('.renewals-'))).toEqual([])
  })

  it('is kept with no more renewals than a day may have', async () => {
    const { fleet, other } = await oneRenewed()
    const { limitKey: key } = fleet.store
    const renewedAgoMs = Array.from({ length: 1_000 }, (_, n) => 2 * DAY_MS - n * 1_000)
    fleet.store.put(key, await encryptedByHand(key, { gapMs: 1_000, renewedAgoMs }), DAY_MS)
    expect(await rejected(fleet, other)).toBe(true)
    expect(fleet.store.entry(key)?.value.length).toBeLessThan(2_000)
  })

  it('of a process itself is not made shorter by what the store says', async () => {
    const { fleet, one } = await oneRenewed()
    const { limitKey: key } = fleet.store
    const { value = '', ttlMs = 0 } = fleet.store.entry(key) ?? {}
    expect(ttlMs).toBe(DAY_MS)
    await fleet.skip(1_000)
    expect(await rejected(fleet, one)).toBe(true) // and now the gap is 2 s
    for (const gapMs of [2_000, 4_000]) {
      fleet.store.put(key, value, ttlMs)
      await fleet.skip(gapMs - 1)
      expect(await rejected(fleet, one)).toBe(false)
      await fleet.skip(1)
      expect(await rejected(fleet, one)).toBe(true)
    }
  })
})

describe('an API that rejects every token', () => {
  it.each([
    { seconds: 10, processes: 3 },
    { seconds: 65, processes: 2 },
    { seconds: 130, processes: 4 },
  ])(
    'costs all processes together at most 12 an hour, called in turn by $processes of them every $seconds s',
    async ({ seconds, processes: count }) => {
      const fleet = longLived()
      const processes = Array.from({ length: count }, () => fleet.start())
      await processes[0]?.provider.getToken()
      const askedAt: number[] = []
      for (let step = 0; step < 100; step += 1) {
        const process = processes[step % count]
        if (process && (await rejected(fleet, process))) askedAt.push(step * seconds * 1_000)
        await fleet.clock.advance(seconds * 1_000)
      }
      expect(mostWithin(HOUR_MS, askedAt)).toBeLessThanOrEqual(12)
      expect(askedAt.length).toBeGreaterThan(5)
    },
  )

  it('costs no more where a process renewed twelve times, long ago', async () => {
    const fleet = longLived()
    const askedAt: number[] = []
    const renewInPairs = async (process: Process, pairs: number): Promise<void> => {
      for (let step = 0; step < 2 * pairs; step += 1) {
        if (await rejected(fleet, process)) askedAt.push(fleet.clock.monotonicMs())
        await fleet.skip(step % 2 === 0 ? 1_000 : QUIET_MS)
      }
    }
    const veteran = await fleet.begin()
    await renewInPairs(veteran, 6)
    await fleet.skip(3 * HOUR_MS)
    const other = fleet.start()
    await renewInPairs(other, 5)
    await renewInPairs(veteran, 1)
    await renewInPairs(other, 5)
    expect(mostWithin(HOUR_MS, askedAt)).toBeLessThanOrEqual(12)
  })

  it('costs all processes together at most 60 a day', async () => {
    const fleet = longLived()
    const processes = [fleet.start(), fleet.start()]
    const askedAt: number[] = []
    for (let step = 0; step < 300; step += 1) {
      const process = processes[step % 2]
      if (process && (await rejected(fleet, process))) askedAt.push(fleet.clock.monotonicMs())
      await fleet.skip(301_000)
    }
    expect(askedAt.length).toBeGreaterThan(60)
    expect(mostWithin(DAY_MS, askedAt)).toBeLessThanOrEqual(60)
  })
})

describe('a rate limit that cannot be read', () => {
  it.each([
    ['throws', FAILURES.throws],
    ['rejects', FAILURES.rejects],
    ['hangs', FAILURES.hangs],
    ['cannot be parsed', answers(5)],
    ['was not encrypted', answers({ value: 'text', ttlMs: HOUR_MS })],
    ['is none', answers(undefined)],
  ])("leaves each process its own, because the store's answer %s", async (_, fault) => {
    const { fleet, one, other } = await oneRenewed()
    fleet.store.faults.get = fault
    const renewal = rejected(fleet, other)
    await fleet.tookMs(renewal)
    expect(await renewal).toBe(true)
    const again = rejected(fleet, one)
    await fleet.tookMs(again)
    expect(await again).toBe(false)
  })

  it.each<[string, (token: string, key: string) => string | Promise<string>]>([
    ['a text', () => 'text'],
    ['the token of another entry', (token) => token],
    ...Object.entries({
      'no gap': { renewedAgoMs: [0] },
      'no renewals': { gapMs: 1_000 },
      'renewals that are no times': { gapMs: 1_000, renewedAgoMs: ['now'] },
      null: null,
    }).map(([name, content]): [string, (token: string, key: string) => Promise<string>] => [
      name,
      (_, key) => encryptedByHand(key, content),
    ]),
  ])('is replaced, and emits an event: %s in its place', async (_, contentOf) => {
    const { fleet, other } = await oneRenewed()
    const { limitKey: key, tokenKey } = fleet.store
    fleet.store.put(key, await contentOf(String(fleet.store.entry(tokenKey)?.value), key), HOUR_MS)
    other.events.length = 0
    fleet.store.asked.length = 0
    expect(await rejected(fleet, other)).toBe(true)
    expect(failuresOf(other.events)).toContainEqual({ operation: 'get', code: 'UNREADABLE' })
    expect(fleet.store.operations.filter((operation) => operation === 'set')).toHaveLength(2)
  })

  it('counts as absent where it is an empty list of renewals', async () => {
    const { fleet, other } = await oneRenewed()
    const { limitKey: key } = fleet.store
    fleet.store.put(key, await encryptedByHand(key, { gapMs: 1_000, renewedAgoMs: [] }), HOUR_MS)
    expect(await rejected(fleet, other)).toBe(true)
  })
})
