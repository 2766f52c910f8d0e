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
  const all = (seconds: number): Record<Purpose, number> => ({
    caller: seconds,
    forced: seconds,
    rejected: seconds,
    background: seconds,
  })

  /** Seconds by purpose: 0 is now. `rejection` is by the merchant API. */
  type Row = [situation: string, before: () => void, seconds: Record<Purpose, number>]

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
      { caller: 0, forced: 0, rejected: 600, background: 600 },
    ],
    [
      'a renewal after a rejection failed four times',
      () => fails('rejected', failure(503), failure(503), failure(503), failure(503)),
      { caller: 5, forced: 5, rejected: 8, background: 5 },
    ],
    ['a renewal after a rejection failed with a 429', () => fails('rejected', failure(429)), all(10)],
    [
      'a background renewal failed with a 503',
      () => fails('background', failure(503)),
      { caller: 0, forced: 0, rejected: 0, background: 100 },
    ],
    [
      'with a 503 and Retry-After: 300',
      () => fails('background', failure(503, { retryAfterS: 300 })),
      { caller: 60, forced: 60, rejected: 60, background: 300 },
    ],
    [
      'with a 400',
      () => fails('background', failure(400)),
      { caller: 0, forced: 0, rejected: 0, background: 100 },
    ],
    [
      'with a 429',
      () => fails('background', failure(429)),
      { caller: 10, forced: 10, rejected: 10, background: 100 },
    ],
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
    expect({
      caller: waitS('caller'),
      forced: waitS('forced'),
      rejected: waitS('rejected'),
      background: waitS('background'),
    }).toEqual(expected)
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

/** The merchant API rejected a token, and this process requested another one. */
function renews(): void {
  const renewals = limits.recordFor(MERCHANT)
  renewals.countRejection(now)
  renewals.renewed(now, { isRequested: true })
}

/** The merchant API returns 401; returns whether that may be about the token. */
const rejects = (): boolean => limits.recordFor(MERCHANT).countRejection(now)
const helps = (): void => limits.recordFor(MERCHANT).helped(now)
const accepts = (): void => limits.recordFor(MERCHANT).accepted('current', 'current')

/** How many 401s one second apart, from now on, it takes until one may be about the token. */
function count(): number {
  for (let nth = 1; nth <= 40; nth += 1) {
    if (rejects()) return nth
    pass(1)
  }
  throw new Error('more than 40')
}

describe('the gap between renewals for an API', () => {
  it('doubles from 1 s with each renewal that did not help', () => {
    const gaps = [1, 2, 3, 4, 5, 6, 7].map(() => {
      renews()
      const gap = waitS('rejected')
      pass(gap)
      return gap
    })
    expect(gaps).toEqual([1, 2, 4, 8, 16, 32, 64])
  })

  it('does not grow with renewals that come four hours after the last one', () => {
    renews()
    const gaps = [1, 2, 3].map(() => {
      for (let seconds = 0; seconds < 4 * HOUR; seconds += 30) {
        pass(30)
        rejects() // the bad calls go on: no minute without a 401
      }
      renews()
      return waitS('rejected')
    })
    expect(gaps).toEqual([1, 1, 1])
  })

  it('doubles from 1 s to 30 min with each renewal that failed', () => {
    const gaps = Array.from({ length: 13 }, () => {
      limits.recordFor(MERCHANT).failed(now)
      const gap = waitS('rejected')
      pass(gap)
      return gap
    })
    expect(gaps).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 1_800, 1_800])
  })

  it('begins with the request of the renewal', () => {
    pass(10)
    limits.recordFor(MERCHANT).renewed(now - 400, { isRequested: true })
    expect(waitS('rejected')).toBe(0.6)
  })

  it('ends with a renewal that helped', () => {
    renews()
    pass(1)
    renews()
    helps()
    expect(waitS('rejected')).toBe(0)
    renews()
    expect(waitS('rejected')).toBe(1)
  })

  it.each([
    { quietMs: 62_001, gap: 1, of: 'ends after more than the gap and a minute' },
    { quietMs: 62_000, gap: 4, of: 'goes on after exactly the gap and a minute' },
  ])('$of without a 401', ({ quietMs, gap }) => {
    renews()
    pass(1)
    renews() // the gap is 2 s
    now += quietMs
    renews()
    expect(waitS('rejected')).toBe(gap)
  })

  it('goes on while 401s continue, even if none of them causes a renewal', () => {
    renews()
    for (let minute = 0; minute < 5; minute += 1) {
      pass(MINUTE)
      rejects()
    }
    renews()
    expect(waitS('rejected')).toBe(2)
  })

  it('is not over before it began: a renewal may have waited for a cooldown, or for another run', () => {
    renews()
    pass(1)
    rejects()
    pass(10 * MINUTE)
    limits.recordFor(MERCHANT).renewed(now, { isRequested: true }) // for the last 401, and the gap is 2 s
    rejects()
    expect(waitS('rejected')).toBe(2)
  })

  it('is that of each API by itself, and of an unknown one', () => {
    renews()
    expect(
      [MERCHANT, IN_STORE, undefined].map((api) => limits.mayRequest({ purpose: 'rejected', api })),
    ).toEqual([false, true, true])
  })
})

describe('the bucket of renewals for an API', () => {
  const renewsAndHelps = (): void => {
    expect(waitS('rejected')).toBe(0)
    renews()
    helps() // ends the gap
  }

  it('has eight, and gets one back every 40 min from the first one on', () => {
    for (let nth = 0; nth < 8; nth += 1) {
      renewsAndHelps()
      pass(2 * MINUTE)
    }
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
    for (let nth = 0; nth < 8; nth += 1) renewsAndHelps()
    expect(waitS('rejected')).toBe(40 * MINUTE)
  })

  it('loses none to a renewal that failed or that found the token of another process', () => {
    for (let nth = 0; nth < 20; nth += 1) {
      limits.recordFor(MERCHANT).failed(now)
      limits.recordFor(MERCHANT).renewed(now, { isRequested: false })
    }
    helps() // ends the gap
    for (let nth = 0; nth < 8; nth += 1) renewsAndHelps()
    expect(waitS('rejected')).toBe(40 * MINUTE)
  })
})

it.each([10, 65, 300])(
  'an API that rejects every token causes at most 10 renewals in any hour and 50 in any day: a call every %i s',
  (seconds) => {
    const renewedAt: number[] = []
    for (let passedS = 0; passedS < 30 * HOUR; passedS += seconds) {
      if (rejects() && limits.mayRequest({ purpose: 'rejected', api: MERCHANT })) {
        renewedAt.push(now)
        limits.recordFor(MERCHANT).renewed(now, { isRequested: true })
      }
      pass(seconds)
    }
    expect(mostWithin(HOUR * 1_000, renewedAt)).toBeLessThanOrEqual(10)
    expect(mostWithin(24 * HOUR * 1_000, renewedAt)).toBeLessThanOrEqual(50)
    expect(renewedAt.length).toBeGreaterThanOrEqual(8)
  },
)

describe('a 401 may be about the token', () => {
  it('always, until a renewal, and after one that helped', () => {
    expect([count(), count()]).toEqual([1, 1])
    renews()
    helps()
    expect([count(), count()]).toEqual([1, 1])
  })

  it('if it is the n-th: n is 2 after a renewal that did not help, and doubles with each further one, to 16', () => {
    pass(10 * HOUR)
    const counts = [1, 2, 3, 4, 5].map(() => {
      renews()
      return count()
    })
    expect(counts).toEqual([2, 4, 8, 16, 16])
  })

  it('if it is the second after one renewal that did not help, whatever was before one that helped', () => {
    renews()
    renews()
    helps()
    renews()
    expect(count()).toBe(2)
  })

  it('if it is the n-th since the API accepted a call', () => {
    renews()
    for (let nth = 0; nth < 5; nth += 1) {
      expect(rejects()).toBe(false)
      accepts()
    }
    expect(count()).toBe(2)
  })

  it('if it is the n-th since the renewal', () => {
    renews()
    rejects()
    renews()
    expect(count()).toBe(4)
  })

  it.each([
    { ms: 59_999, mayBe: false },
    { ms: 60_000, mayBe: true },
  ])('if it comes a minute after the first one: after $ms ms, $mayBe', ({ ms, mayBe }) => {
    for (let nth = 0; nth < 3; nth += 1) renews() // n is 8
    pass(HOUR)
    rejects()
    now += ms / 2
    rejects()
    now += ms / 2
    expect(rejects()).toBe(mayBe)
  })

  it('not if the first one came before the API accepted a call', () => {
    renews()
    rejects()
    accepts()
    pass(MINUTE)
    expect(rejects()).toBe(false)
  })

  it.each([
    { ms: 4 * HOUR * 1_000 - 1, mayBe: false },
    { ms: 4 * HOUR * 1_000, mayBe: true },
  ])('if it comes four hours after the last renewal: after $ms ms, $mayBe', ({ ms, mayBe }) => {
    renews()
    now += ms
    accepts()
    expect(rejects()).toBe(mayBe)
  })

  it.each([
    { ms: 4 * HOUR * 1_000 - 1, n: 4 },
    { ms: 4 * HOUR * 1_000, n: 2 },
  ])('with the same n after a renewal that came four hours after the last one: $ms ms, $n', ({ ms, n }) => {
    renews()
    now += ms
    renews()
    expect(count()).toBe(n)
  })

  it('if it is the second after a renewal that found the token of another process', () => {
    limits.recordFor(MERCHANT).renewed(now, { isRequested: false })
    expect(count()).toBe(2)
    expect(waitS('rejected')).toBe(0)
  })

  it('with the same n after a renewal that found the token of another process', () => {
    renews()
    renews()
    limits.recordFor(MERCHANT).renewed(now, { isRequested: false })
    expect(count()).toBe(4)
  })
})

describe('where the token before was rejected, too', () => {
  const rejectsBoth = (): void => limits.recordFor(MERCHANT).beginDoubt(now)

  it('a 401 may be about the token if it is the second, whenever a renewal helped before', () => {
    renews()
    rejects()
    helps()
    pass(10 * HOUR)
    rejectsBoth()
    expect(count()).toBe(2)
  })

  it('a 401 may be about the token if it is the second, whatever was rejected before', () => {
    rejects()
    rejectsBoth()
    expect(count()).toBe(2)
  })

  it('n is 2 after the next renewal', () => {
    rejectsBoth()
    renews()
    expect(count()).toBe(2)
  })

  it('n does not change if it is larger', () => {
    renews()
    renews()
    rejectsBoth()
    expect(count()).toBe(4)
  })

  it('a 401 may be about the token four hours later', () => {
    rejectsBoth()
    pass(4 * HOUR)
    rejectsBoth()
    expect(rejects()).toBe(true)
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
  const times = (n: number, act: () => void) => () => {
    for (let nth = 0; nth < n; nth += 1) act()
  }

  it('limit this one, too: count, gap and bucket', () => {
    adoptFrom(1, times(3, renews))
    expect(waitS('rejected')).toBe(3) // of 4
    expect(count()).toBe(8)
    pass(HOUR)
    helps()
    adoptFrom(0, times(8, renews))
    helps()
    expect(waitS('rejected')).toBe(40 * MINUTE)
  })

  it('are known by their age', () => {
    adoptFrom(4 * HOUR, renews)
    expect(rejects()).toBe(true)
  })

  it.each([
    { ageS: 59, renews: false },
    { ageS: 60, renews: true },
  ])(
    'renew at its first 401 a minute after a doubt of another process began: $ageS s, $renews',
    ({ ageS, renews: expected }) => {
      adoptFrom(ageS, renews)
      expect(rejects()).toBe(expected)
    },
  )

  it('count from its own first 401 once the API has accepted a call of this process', () => {
    adoptFrom(MINUTE, renews)
    accepts()
    expect(rejects()).toBe(false)
  })

  it('count from its own first 401 where this process is in doubt itself, whose entry it reads again', () => {
    renews()
    const { shared } = limits
    pass(MINUTE + 1)
    accepts()
    adopt(shared, MINUTE)
    expect(rejects()).toBe(false)
  })

  it('limit this one where it failed only', () => {
    const failsTwice = times(2, () => limits.recordFor(MERCHANT).failed(now))
    adoptFrom(0.5, failsTwice)
    rejects()
    expect(waitS('rejected')).toBe(1.5) // of 2
    expect(count()).toBe(1)
  })

  it('limit it for each API by itself', () => {
    adoptFrom(0, renews)
    expect([waitS('rejected'), waitS('rejected', IN_STORE)]).toEqual([1, 0])
  })

  it('do not loosen its own limits', () => {
    times(3, renews)() // n is 8, the gap 4 s
    adoptFrom(0, renews)
    expect(waitS('rejected')).toBe(4)
    expect(count()).toBe(8)
    renews()
    expect(waitS('rejected')).toBe(8)
  })

  it.each([
    { quietS: 60, gapS: 2 },
    { quietS: 61, gapS: 1 },
  ])(
    'have no gap any more that ended $quietS s ago if that is more than a minute: the next one is $gapS s',
    ({ quietS, gapS }) => {
      const shared = writtenAfter(renews)
      pass(1 + quietS)
      rejects()
      adopt(shared, 1 + quietS)
      renews()
      expect(waitS('rejected')).toBe(gapS)
    },
  )

  it('do not bring back what a renewal that helped has ended', () => {
    const shared = writtenAfter(times(3, renews))
    helps()
    pass(1)
    adopt(shared, 1)
    expect(waitS('rejected')).toBe(0)
    expect([count(), count()]).toEqual([1, 1])
  })

  it('limit this one again if they came after a renewal that helped', () => {
    renews()
    helps()
    pass(1)
    adoptFrom(0, renews)
    expect(waitS('rejected')).toBe(1)
    expect(count()).toBe(2)
  })

  it('say nothing of an API that is out of doubt', () => {
    renews()
    adoptFrom(0, () => {
      renews()
      renews()
      helps()
    })
    expect([waitS('rejected'), count()]).toEqual([1, 2])
  })

  it.each([
    { quietMs: 61_001, gap: 1, of: 'ends after more than the gap and a minute' },
    { quietMs: 61_000, gap: 2, of: 'goes on after exactly the gap and a minute' },
  ])('have a gap that $of', ({ quietMs, gap }) => {
    adoptFrom(0, renews)
    now += quietMs
    renews()
    expect(waitS('rejected')).toBe(gap)
  })
})

describe('whether an API has accepted a call with a token', () => {
  it('is known of the last token that it accepted, for any API', () => {
    limits.recordFor(MERCHANT).accepted('one', 'one')
    limits.recordFor(IN_STORE).accepted('another', 'another')
    limits.recordFor(MERCHANT).accepted('newer', 'newer')
    expect(['one', 'another', 'newer'].map((token) => limits.anyHasAccepted(token))).toEqual([
      false,
      true,
      true,
    ])
  })
})
