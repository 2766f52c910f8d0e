/** The limits of the contract, with their numbers: when a token may be requested, by purpose and by what happened before. */
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { TokenRequestError, TokenResponseError } from '../../src/base/errors.ts'
import type { Quota } from '../../src/base/quota.ts'
import { type Purpose, RequestLimits, type SharedLimits } from '../../src/token/limits/request-limits.ts'
import { mostWithin } from '../support/periods.ts'

const MERCHANT = 'https://api.test.example/merchant'
const IN_STORE = 'https://api.test.example/in-store'

const MINUTE = 60
const HOUR = 60 * MINUTE

let now = 0
let limits = new RequestLimits({ monotonicMs: () => now })

beforeEach(() => {
  vi.spyOn(Math, 'random').mockReturnValue(0.5) // no jitter
  now = 7 * HOUR * 1_000
  limits = new RequestLimits({ monotonicMs: () => now })
})

function pass(seconds: number): void {
  now += seconds * 1_000
}

/** The error of a response with this status; 0: there was none. */
function failure(
  status: number,
  {
    retryAfterS,
    quotas,
    isTemporary = false,
  }: { retryAfterS?: number; quotas?: Quota[]; isTemporary?: boolean } = {},
): unknown {
  const retryAfterMs = retryAfterS === undefined ? undefined : retryAfterS * 1_000
  const code = status === 0 ? 'ERR_TOKEN_NETWORK' : 'ERR_TOKEN_STATUS'
  const retryable = status === 408 || status === 429 || status >= 500 || isTemporary
  const known = { retryable, attempts: 1, retryAfterMs, answer: { retryAfterMs, quotas } }
  return new TokenRequestError('', { code, ...known, ...(status > 0 && { status }) })
}

function hourly(remaining: number, resetsInS?: number): Quota[] {
  const resetsInMs = resetsInS === undefined ? undefined : resetsInS * 1_000
  return [{ scope: 'client', name: 'per_hour', limit: 10, remaining, ...(resetsInMs && { resetsInMs }) }]
}

/** How long the current token may still be served. */
const SERVABLE_MS = 400_000

function fails(purpose: Purpose, ...errors: unknown[]): void {
  for (const error of errors) limits.failed(error, { purpose, api: MERCHANT }, SERVABLE_MS)
}

/** In how many seconds a token may be requested. */
function waitS(purpose: Purpose, api: string | undefined = MERCHANT): number {
  const { until = now } = limits.holdOn({ purpose, api }) ?? {}
  return (until - now) / 1_000
}

describe('a token may be requested in so many seconds', () => {
  const PURPOSES = ['caller', 'forced', 'rejected', 'by-hand', 'background'] as const
  type Waits = Record<(typeof PURPOSES)[number], number>

  const waits = (secondsFor: (purpose: Purpose) => number): Waits =>
    Object.fromEntries(PURPOSES.map((purpose) => [purpose, secondsFor(purpose)])) as Waits
  const all = (seconds: number, others: Partial<Waits> = {}): Waits => ({
    ...waits(() => seconds),
    ...others,
  })

  /** Seconds by purpose: 0 is now. The API that rejects tokens is the merchant API. */
  type Row = [situation: string, before: () => void, seconds: Waits]

  const TABLE: Row[] = [
    ['nothing has happened', () => {}, all(0)],
    ['no connection', () => fails('caller', failure(0)), all(1)],
    ['an invalid token response', () => fails('caller', new TokenResponseError('', [])), all(1)],
    ['a 503 with Retry-After: 20', () => fails('caller', failure(503, { retryAfterS: 20 })), all(20)],
    ['a 503 with Retry-After: 300', () => fails('caller', failure(503, { retryAfterS: 300 })), all(60)],
    ['a 503 with Retry-After: 0', () => fails('caller', failure(503, { retryAfterS: 0 })), all(1)],
    ['a 429 with Retry-After: 7', () => fails('caller', failure(429, { retryAfterS: 7 })), all(7)],
    ['a 429 with Retry-After: 0', () => fails('caller', failure(429, { retryAfterS: 0 })), all(1)],
    [
      'a 429 with Retry-After: 86400',
      () => fails('caller', failure(429, { retryAfterS: 86_400 })),
      all(HOUR),
    ],
    [
      'a 429 with a spent quota',
      () => fails('caller', failure(429, { quotas: hourly(0, 1_800) })),
      all(1_800),
    ],
    [
      'a 429 with a quota that is spent for more than an hour',
      () => fails('caller', failure(429, { quotas: hourly(0, 80_000) })),
      all(HOUR),
    ],
    [
      'a 429 with a spent quota and a longer Retry-After',
      () => fails('caller', failure(429, { retryAfterS: 120, quotas: hourly(0, 60) })),
      all(120),
    ],
    [
      'a 429 with a spent quota and a shorter Retry-After',
      () => fails('caller', failure(429, { retryAfterS: 60, quotas: hourly(0, 120) })),
      all(120),
    ],
    [
      'a 429 with a spent quota that does not say when it is full again',
      () => fails('caller', failure(429, { quotas: hourly(0) })),
      all(10),
    ],
    [
      'two failures at once, the second with a shorter pause',
      () => fails('caller', failure(503, { retryAfterS: 20 }), failure(503)),
      all(20),
    ],
    ['a quota with 3 of 10 left', () => limits.quotasReported(hourly(3, 600)), all(0)],
    [
      'a quota with 1 of 10 left',
      () => limits.quotasReported(hourly(1, 600)),
      all(600, { caller: 0, forced: 0 }),
    ],
    ['a renewal after a rejection failed', () => fails('rejected', failure(503)), all(1, { rejected: 4 })],
    ['a renewal by hand failed', () => fails('by-hand', failure(503)), all(1)],
    ['a renewal after a rejection failed with a 429', () => fails('rejected', failure(429)), all(10)],
    [
      'a background renewal failed with a 503',
      () => fails('background', failure(503)),
      all(0, { background: 100 }),
    ],
    [
      'with a 503 and Retry-After: 300',
      () => fails('background', failure(503, { retryAfterS: 300 })),
      all(60, { background: 300 }),
    ],
    ['with a 400', () => fails('background', failure(400)), all(0, { background: 100 })],
    ['with a 429', () => fails('background', failure(429)), all(10, { background: 100 })],
    [
      'with a 429 and a spent quota',
      () => fails('background', failure(429, { quotas: hourly(0, 600) })),
      all(600),
    ],
    [
      'a success ends every pause',
      () => {
        fails('background', failure(503, { retryAfterS: 300 }))
        fails('caller', failure(429))
        limits.succeeded()
      },
      all(0),
    ],
  ]

  it.each(TABLE)('after: %s', (_, before, expected) => {
    before()
    expect(waits((purpose) => waitS(purpose))).toEqual(expected)
  })

  it('up to the last moment of the wait', () => {
    fails('caller', failure(0))
    pass(0.999)
    expect(limits.mayRequest({ purpose: 'caller' })).toBe(false)
    pass(0.001)
    expect(limits.mayRequest({ purpose: 'caller' })).toBe(true)
  })

  it('and the first reason is given: a cooldown, a quota, how often the API caused a renewal', () => {
    const reason = () => limits.holdOn({ purpose: 'rejected', api: MERCHANT })?.reason
    fails('rejected', failure(503), failure(503))
    limits.quotasReported(hourly(1, 600))
    expect(reason()).toBe('cooldown')
    limits.succeeded()
    expect(reason()).toBe('quota')
    limits.quotasReported(hourly(10, 600))
    expect(reason()).toBe('limited')
    fails('background', failure(503))
    expect(limits.holdOn({ purpose: 'background' })?.reason).toBe('limited')
  })
})

describe('the cooldown after failures in a row', () => {
  const six = (error: () => unknown): unknown[] => Array.from({ length: 6 }, error)
  const after = {
    200: () => new TokenResponseError('', []),
    302: () => failure(302),
    400: () => failure(400),
    429: () => failure(429),
    499: () => failure(499),
    500: () => failure(500),
    '429 in 30 s': () => failure(429, { retryAfterS: 30 }),
  }

  it.each<[failures: string, errors: unknown[], seconds: number[]]>([
    ['500 and more', six(after[500]), [1, 2, 4, 5, 5, 5]],
    ['redirects', six(after[302]), [1, 2, 4, 5, 5, 5]],
    ['invalid responses', six(after[200]), [1, 2, 4, 5, 5, 5]],
    ['400', six(after[400]), [1, 2, 4, 8, 16, 30]],
    [
      '400 of an endpoint that is in trouble',
      six(() => failure(400, { isTemporary: true })),
      [1, 2, 4, 5, 5, 5],
    ],
    ['408', six(() => failure(408)), [1, 2, 4, 8, 16, 30]],
    ['499', [...six(after[499]), after[499]()], [1, 2, 4, 8, 16, 30, 30]],
    [
      '400, then 503',
      [after[400](), after[400](), after[400](), after[400](), after[500]()],
      [1, 2, 4, 8, 5],
    ],
    [
      '429',
      [...six(after[429]), ...six(after[429])],
      [10, 20, 40, 80, 160, 320, 640, 1_280, 1_800, 1_800, 1_800, 1_800],
    ],
    ['429 with others in between', [after[429](), after[500](), after[429]()], [10, 1, 20]],
    ['429 that name a time', six(after['429 in 30 s']), [30, 30, 30, 40, 80, 160]],
    ['429, and one that names a time', [after[429](), after['429 in 30 s']()], [10, 30]],
  ])('grows: %s', (_, errors, seconds) => {
    const waits = errors.map((error) => {
      fails('caller', error)
      const wait = waitS('caller')
      pass(wait)
      return wait
    })
    expect(waits).toEqual(seconds)
  })

  it.each<[failures: string, errors: unknown[], next: unknown, seconds: number]>([
    ['500', [after[500](), after[500]()], after[500](), 1],
    ['429', [after[429](), after[429]()], after[429](), 10],
    ['429, then one that names a time', [after[429]()], failure(429, { retryAfterS: 7 }), 7],
  ])('starts over after a success: %s', (_, errors, next, seconds) => {
    fails('caller', ...errors)
    limits.succeeded()
    expect(limits.lastFailure).toBeUndefined()
    fails('caller', next)
    expect(waitS('caller')).toBe(seconds)
  })
})

describe('a background renewal that failed may be repeated in so many seconds', () => {
  it.each([
    { leftS: 200, seconds: 50, when: 'a quarter of the time that the token may still be served' },
    { leftS: 200, chance: 0, seconds: 37.5, when: 'less 25 % at random' },
    { leftS: 200, chance: 0.9999, seconds: 62.4975, when: 'or plus 25 %' },
    { leftS: 16, seconds: 5, when: 'at least five' },
    { leftS: 16, chance: 0, seconds: 3.75, when: 'less 25 % at random' },
    { leftS: 3_600, seconds: 300, when: 'at most five minutes' },
    { leftS: 200, retryAfterS: 120, seconds: 120, when: 'a longer Retry-After' },
    { leftS: 3_600, retryAfterS: 3_500, seconds: 3_500, when: 'a Retry-After of almost an hour' },
    { leftS: 200, retryAfterS: 49, seconds: 50, when: 'no shorter Retry-After' },
  ])('$when: $seconds, with $leftS s left', ({ leftS, chance = 0.5, retryAfterS, seconds }) => {
    vi.mocked(Math.random).mockReturnValue(chance)
    const error = failure(503, retryAfterS === undefined ? {} : { retryAfterS })
    limits.failed(error, { purpose: 'background' }, leftS * 1_000)
    expect(waitS('background')).toBeCloseTo(seconds, 9)
    expect(limits.isBackgroundDue).toBe(false)
    pass(waitS('background'))
    expect(limits.isBackgroundDue).toBe(true)
  })
})

describe('background renewals that fail until the token expires, or for most of that time', () => {
  it.each([
    { windowS: 3_600, outageS: 2_400, most: 15 },
    { windowS: 2_701, outageS: 2_400, most: 15 },
    { windowS: 720, outageS: 420, most: 15 },
    { windowS: 3_600, outageS: 3_600, most: 30 },
    { windowS: 2_701, outageS: 2_701, most: 30 },
    { windowS: 720, outageS: 720, most: 30 },
    { windowS: 541, outageS: 541, most: 30 },
  ])('are at most $most in an hour: for $outageS of $windowS s', ({ windowS, outageS, most }) => {
    vi.mocked(Math.random).mockReset() // real jitter
    const beganAt = now
    const askedAt: number[] = []
    for (let passedS = 0; passedS < outageS; passedS += 1) {
      if (limits.mayRequest({ purpose: 'background' })) {
        askedAt.push(now)
        limits.failed(failure(0), { purpose: 'background' }, beganAt + windowS * 1_000 - now)
      }
      pass(1)
    }
    expect(mostWithin(HOUR * 1_000, askedAt)).toBeLessThanOrEqual(most)
    expect(askedAt.length).toBeGreaterThan(2)
  })
})

describe('a reserved quota', () => {
  const perDay: Quota = { scope: 'client', name: 'per_day', limit: 50, remaining: 40, resetsInMs: 1_000 }

  it('is reserved until the next response if it never said when it is full again', () => {
    limits.quotasReported(hourly(1))
    expect(limits.mayRequest({ purpose: 'rejected' })).toBe(false)
    limits.quotasReported([perDay])
    expect(limits.mayRequest({ purpose: 'rejected' })).toBe(true)
  })

  it('remains reserved while responses report other quotas', () => {
    limits.quotasReported(hourly(1, 600))
    limits.quotasReported([perDay])
    expect(waitS('rejected')).toBe(600)
  })

  it('holds back until the last one is full again', () => {
    limits.quotasReported([...hourly(1, 600), { ...perDay, remaining: 1, resetsInMs: 900_000 }])
    expect(waitS('rejected')).toBe(900)
  })
})

/** The merchant API returns 401 for a call; returns whether that may renew the token, but for the seconds and the bucket. */
function rejects(): boolean {
  limits.recordFor(MERCHANT).countRejection(now)
  return limits.isSuspect(MERCHANT)
}

/** A token is requested in place of one that the merchant API rejected. */
const renews = (): void => limits.recordFor(MERCHANT).renewed(now)
const fails401 = (): void => limits.recordFor(MERCHANT).failed(now)
const helps = (): void => limits.recordFor(MERCHANT).helped(now)
const accepts = (): void => limits.recordFor(MERCHANT).accepted('current', 'current')

/** How many 401s, all in this moment, it takes until one may renew. */
function count(): number {
  for (let nth = 1; nth <= 100; nth += 1) if (rejects()) return nth
  throw new Error('more than 100')
}

function times(n: number, act: () => void): void {
  for (let nth = 0; nth < n; nth += 1) act()
}

/** This many renewals, for the n-th 401 each, none of which helped. */
const renewsInVain = (n: number): void =>
  times(n, () => {
    count()
    renews()
  })

describe('a 401 may renew', () => {
  it('always, until a renewal, and after one that helped', () => {
    expect([count(), count(), waitS('rejected')]).toEqual([1, 1, 0])
    renewsInVain(2)
    helps()
    expect([count(), count(), waitS('rejected')]).toEqual([1, 1, 0])
  })

  it('in doubt as the n-th in a row, n seconds after the last renewal: n is 4, and doubles to 64', () => {
    const each = Array.from({ length: 6 }, () => {
      renews()
      return [waitS('rejected'), count()]
    })
    expect(each).toEqual([4, 8, 16, 32, 64, 64].map((n) => [n, n]))
    helps()
    renews()
    expect([waitS('rejected'), count()]).toEqual([4, 4])
  })

  it('in the same way after renewals that failed, which leave the 401s before them in the row', () => {
    const each = Array.from({ length: 7 }, () => {
      const further = count()
      fails401()
      return [further, waitS('rejected')]
    })
    expect(each).toEqual([
      [1, 4],
      [3, 8],
      [4, 16],
      [8, 32],
      [16, 64],
      [32, 64],
      [1, 64],
    ])
  })

  it('with the n-th since the API accepted a call', () => {
    renews()
    times(5, () => {
      times(3, () => expect(rejects()).toBe(false))
      accepts()
    })
    expect(count()).toBe(4)
  })

  it.each([
    { others: 1, ms: 120_000, mayRenew: false },
    { others: 2, ms: 59_999, mayRenew: false },
    { others: 2, ms: 60_000, mayRenew: true },
  ])('a minute after the first of three in a row: $others others, $ms ms, $mayRenew', (row) => {
    renewsInVain(2) // n is 8
    pass(HOUR)
    rejects()
    accepts()
    pass(HOUR)
    times(row.others, () => expect(rejects()).toBe(false))
    now += row.ms
    expect(rejects()).toBe(row.mayRenew)
  })

  it.each([
    { ms: 4 * HOUR * 1_000 - 1, mayRenew: false },
    { ms: 4 * HOUR * 1_000, mayRenew: true },
  ])('four hours after the last renewal, although others are accepted: $ms ms, $mayRenew', (row) => {
    renews()
    now += row.ms
    accepts()
    expect(rejects()).toBe(row.mayRenew)
  })

  it('with the same n after a renewal that only the four hours brought about', () => {
    renews()
    times(3, () => {
      pass(4 * HOUR)
      accepts()
      rejects()
      renews()
    })
    expect([waitS('rejected'), count()]).toEqual([4, 4])
  })

  it('n seconds after the last renewal was requested', () => {
    limits.recordFor(MERCHANT).renewed(now - 400)
    expect(waitS('rejected')).toBe(3.6)
  })

  it('whatever other APIs reject', () => {
    renews()
    const apis = [MERCHANT, IN_STORE, undefined]
    expect(apis.map((api) => limits.isSuspect(api))).toEqual([false, true, true])
    expect(apis.map((api) => limits.mayRequest({ purpose: 'rejected', api }))).toEqual([false, true, true])
  })
})

describe('the bucket of renewals for an API', () => {
  const renewsAndHelps = (): void => {
    expect(waitS('rejected')).toBe(0)
    renews()
    helps()
  }

  it('has eight, and gets one back every 40 min from the first one on', () => {
    times(8, () => {
      renewsAndHelps()
      pass(2 * MINUTE)
    })
    const waits = [1, 2, 3].map(() => {
      const wait = waitS('rejected')
      pass(wait)
      renewsAndHelps()
      return wait / MINUTE
    })
    expect(waits).toEqual([40 - 16, 40, 40])
  })

  it('has no more than eight after a long time', () => {
    renewsAndHelps()
    pass(100 * HOUR)
    times(8, renewsAndHelps)
    expect(waitS('rejected')).toBe(40 * MINUTE)
  })

  it('loses none to a renewal that failed', () => {
    times(20, fails401)
    helps() // ends the doubt
    times(8, renewsAndHelps)
    expect(waitS('rejected')).toBe(40 * MINUTE)
  })

  it('is that of renewals by hand, too, which no doubt holds back, and which begin none', () => {
    times(4, () => limits.recordFor(MERCHANT).drew(now))
    expect([count(), waitS('rejected')]).toEqual([1, 0])
    renewsInVain(4)
    expect(waitS('by-hand')).toBe(40 * MINUTE)
    pass(40 * MINUTE)
    expect(waitS('by-hand')).toBe(0)
  })
})

/** What another process has written to the store, after this has happened to it. */
function writtenAfter(before: () => void): SharedLimits {
  const own = limits
  limits = new RequestLimits({ monotonicMs: () => now })
  before()
  const { shared } = limits
  limits = own
  return JSON.parse(JSON.stringify(shared))
}

function adopt(shared: SharedLimits, ageS: number): void {
  limits.adopt(shared, { writtenAt: now - ageS * 1_000, error: () => refusedElsewhere })
}

/** This process reads, so many seconds later, what another one has written. */
function adoptFrom(ageS: number, before: () => void): void {
  const shared = writtenAfter(before)
  pass(ageS)
  adopt(shared, ageS)
}

const refusedElsewhere = failure(429)

describe('the cooldown of another process', () => {
  const own = failure(503, { retryAfterS: 20 })
  const refusedHere = failure(429, { retryAfterS: 20 })
  const pausesFor = (retryAfterS: number) => () => fails('caller', failure(429, { retryAfterS }))

  it.each<[cooldown: string, before: () => void, endsInS: number, error: unknown]>([
    ['holds back this one, too', () => adoptFrom(2, pausesFor(7)), 5, refusedElsewhere],
    ['does not, once it is over', () => adoptFrom(7, pausesFor(7)), 0, undefined],
    [
      'extends a shorter one',
      () => {
        fails('caller', own)
        adoptFrom(5, pausesFor(30))
      },
      25,
      refusedElsewhere,
    ],
    [
      'keeps the error of its own 429',
      () => {
        fails('caller', refusedHere)
        adoptFrom(5, pausesFor(30))
      },
      25,
      refusedHere,
    ],
    [
      'does not shorten a longer one',
      () => {
        fails('caller', own)
        adoptFrom(5, pausesFor(7))
      },
      15,
      own,
    ],
    [
      'replaces the error of one that is over',
      () => {
        fails('caller', own)
        adoptFrom(20, pausesFor(25))
      },
      5,
      refusedElsewhere,
    ],
    [
      'replaces the error of its own 429 that is over',
      () => {
        fails('caller', refusedHere)
        pass(20)
        adoptFrom(5, pausesFor(30))
      },
      25,
      refusedElsewhere,
    ],
    ['does not, if no 429 began it', () => adoptFrom(0, () => fails('caller', failure(503))), 0, undefined],
  ])('%s', (_, before, endsInS, error) => {
    before()
    expect(waitS('caller')).toBe(endsInS)
    expect(limits.lastFailure?.error).toBe(error)
  })

  it.each([
    { others: 1, nextS: 10, which: 'that named a time' },
    { others: 2, nextS: 20, which: 'that named none' },
  ])('makes the next 429 one more in a row, after one $which', ({ others, nextS }) => {
    adoptFrom(10, () => fails('caller', ...[failure(429, { retryAfterS: 1 }), failure(429)].slice(0, others)))
    fails('caller', failure(429, { retryAfterS: 1 }))
    expect(waitS('caller')).toBe(nextS)
  })

  it('is shared with others although this process had a failure of its own', () => {
    fails('rejected', own)
    adoptFrom(5, pausesFor(30))
    expect(limits.shared.cooldown).toEqual({ gapMs: 0, endsInMs: 25_000 })
  })

  it('does not make this one forget a longer row of its own', () => {
    fails('caller', failure(429), failure(429))
    adoptFrom(20, () => fails('caller', failure(429)))
    fails('caller', failure(429))
    expect(waitS('caller')).toBe(40)
  })
})

describe('the renewals of another process', () => {
  it('limit this one, too: n, its seconds and the bucket', () => {
    adoptFrom(1, () => renewsInVain(2))
    accepts()
    expect([waitS('rejected'), count()]).toEqual([7, 8])
    helps()
    adoptFrom(0, () => renewsInVain(8))
    helps()
    expect(waitS('rejected')).toBe(40 * MINUTE)
  })

  it('limit this one where they failed, too', () => {
    adoptFrom(1, fails401)
    accepts()
    expect([waitS('rejected'), count()]).toEqual([3, 4])
  })

  it('are known by their age', () => {
    adoptFrom(4 * HOUR, renews)
    expect(rejects()).toBe(true)
  })

  it.each([
    { ageS: 59, further: 3 },
    { ageS: 60, further: 1 },
  ])(
    'are the first of the row for a process that knows nothing yet: after $ageS s, it takes $further',
    ({ ageS, further }) => {
      adoptFrom(ageS, renews)
      expect(count()).toBe(further)
    },
  )

  it('are not that for a process whose call the API has accepted, or that is in doubt itself', () => {
    accepts()
    adoptFrom(MINUTE, renews)
    expect(count()).toBe(4)
    limits = new RequestLimits({ monotonicMs: () => now })
    renews()
    const { shared } = limits
    pass(MINUTE)
    adopt(shared, MINUTE)
    expect(count()).toBe(4)
  })

  it('limit it for each API by itself', () => {
    adoptFrom(0, renews)
    expect([waitS('rejected'), waitS('rejected', IN_STORE)]).toEqual([4, 0])
  })

  it('do not loosen its own limits', () => {
    renewsInVain(2)
    adoptFrom(0, renews)
    expect([waitS('rejected'), count()]).toEqual([8, 8])
  })

  it('do not bring back what a renewal that helped has ended', () => {
    const shared = writtenAfter(() => renewsInVain(3))
    helps()
    pass(1)
    adopt(shared, 1)
    expect([waitS('rejected'), count(), count()]).toEqual([0, 1, 1])
  })

  it('limit this one again if they came after a renewal that helped', () => {
    renews()
    accepts()
    helps()
    pass(1)
    adoptFrom(0, renews)
    expect([waitS('rejected'), count()]).toEqual([4, 4])
  })

  it('say nothing of an API that is out of doubt', () => {
    renews()
    pass(2)
    adoptFrom(0, () => {
      renewsInVain(2)
      helps()
    })
    expect([waitS('rejected'), count()]).toEqual([2, 4])
  })
})
