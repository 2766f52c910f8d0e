/** The table of the contract: when a token may be requested, by purpose and by what happened before. */
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { TokenRequestError, TokenResponseError } from '../../src/errors.ts'
import type { Quota } from '../../src/quota.ts'
import { type Purpose, RequestLimits } from '../../src/token/rate-limit.ts'

const MERCHANT = 'https://api.test.example/merchant'
const IN_STORE = 'https://api.test.example/in-store'

let now = 0
let limits = new RequestLimits({ monotonicMs: () => now })

beforeEach(() => {
  vi.spyOn(Math, 'random').mockReturnValue(0.5) // no jitter
  now = 0
  limits = new RequestLimits({ monotonicMs: () => now })
})

/** The error of a response with this status; 0: there was none. */
function failure(
  status: number,
  { retryAfterS, quotas }: { retryAfterS?: number; quotas?: Quota[] } = {},
): unknown {
  const retryAfterMs = retryAfterS === undefined ? undefined : retryAfterS * 1_000
  const code = status === 0 ? 'ERR_TOKEN_NETWORK' : 'ERR_TOKEN_STATUS'
  const known = { retryable: true, attempts: 1, retryAfterMs, answer: { retryAfterMs, quotas } }
  return new TokenRequestError('', { code, ...known, ...(status > 0 && { status }) })
}

function hourly(remaining: number, resetsInS?: number): Quota[] {
  const resetsInMs = resetsInS === undefined ? undefined : resetsInS * 1_000
  return [{ scope: 'client', name: 'per_hour', limit: 10, remaining, ...(resetsInMs && { resetsInMs }) }]
}

function fails(purpose: Purpose, ...errors: unknown[]): void {
  for (const error of errors) limits.failed(error, purpose, MERCHANT)
}

/** A background renewal fails, 400 s before the token may no longer be used. */
function failsInBackground(error: unknown): void {
  fails('background', error)
  limits.pauseBackground(400_000)
}

/** The merchant API rejects the tokens that replace each other at these times (s). */
function renewedAt(...seconds: number[]): void {
  for (const second of seconds) {
    now = second * 1_000
    limits.rejected(MERCHANT)
    limits.renewed(MERCHANT, now)
    limits.succeeded()
  }
}

const HOUR = 3_600

/** In how many seconds a token may be requested: 0 is now. `rejection` is by the merchant API. */
type Row = [situation: string, before: () => void, seconds: Record<Purpose, number>]

const TABLE: Row[] = [
  ['nothing has happened', () => {}, { caller: 0, rejection: 0, background: 0 }],
  ['no connection', () => fails('caller', failure(0)), { caller: 1, rejection: 1, background: 1 }],
  ['a 503', () => fails('caller', failure(503)), { caller: 1, rejection: 1, background: 1 }],
  ['two', () => fails('caller', failure(503), failure(503)), { caller: 2, rejection: 2, background: 2 }],
  [
    'six',
    () => fails('caller', ...Array.from({ length: 6 }, () => failure(503))),
    { caller: 5, rejection: 5, background: 5 },
  ],
  [
    'six redirects',
    () => fails('caller', ...Array.from({ length: 6 }, () => failure(302))),
    { caller: 5, rejection: 5, background: 5 },
  ],
  [
    'a 503 with Retry-After: 20',
    () => fails('caller', failure(503, { retryAfterS: 20 })),
    { caller: 20, rejection: 20, background: 20 },
  ],
  [
    'a 503 with Retry-After: 300',
    () => fails('caller', failure(503, { retryAfterS: 300 })),
    { caller: 60, rejection: 60, background: 60 },
  ],
  ['a 400', () => fails('caller', failure(400)), { caller: 1, rejection: 1, background: 1 }],
  [
    'six',
    () => fails('caller', ...Array.from({ length: 6 }, () => failure(400))),
    { caller: 30, rejection: 30, background: 30 },
  ],
  [
    'an invalid token response',
    () => fails('caller', new TokenResponseError('', [])),
    { caller: 1, rejection: 1, background: 1 },
  ],
  ['a 429', () => fails('caller', failure(429)), { caller: 10, rejection: 10, background: 10 }],
  ['two', () => fails('caller', failure(429), failure(429)), { caller: 20, rejection: 20, background: 20 }],
  [
    'ten',
    () => fails('caller', ...Array.from({ length: 10 }, () => failure(429))),
    { caller: HOUR / 2, rejection: HOUR / 2, background: HOUR / 2 },
  ],
  [
    'a 429 with Retry-After: 7',
    () => fails('caller', failure(429, { retryAfterS: 7 })),
    { caller: 7, rejection: 7, background: 7 },
  ],
  [
    'two',
    () => fails('caller', failure(429, { retryAfterS: 7 }), failure(429, { retryAfterS: 7 })),
    { caller: 10, rejection: 10, background: 10 },
  ],
  [
    'a 429 with Retry-After: 0',
    () => fails('caller', failure(429, { retryAfterS: 0 })),
    { caller: 1, rejection: 1, background: 1 },
  ],
  [
    'a 429 with Retry-After: 86400',
    () => fails('caller', failure(429, { retryAfterS: 86_400 })),
    { caller: HOUR, rejection: HOUR, background: HOUR },
  ],
  [
    'a 429 with a spent quota',
    () => fails('caller', failure(429, { quotas: hourly(0, 1_800) })),
    { caller: 1_800, rejection: 1_800, background: 1_800 },
  ],
  [
    'a 429 with a quota that is spent for more than an hour',
    () => fails('caller', failure(429, { quotas: hourly(0, 80_000) })),
    { caller: HOUR, rejection: HOUR, background: HOUR },
  ],
  [
    'a 429 with a spent quota and a longer Retry-After',
    () => fails('caller', failure(429, { retryAfterS: 120, quotas: hourly(0, 60) })),
    { caller: 120, rejection: 120, background: 120 },
  ],
  [
    'a 429 with a spent quota and a shorter Retry-After',
    () => fails('caller', failure(429, { retryAfterS: 60, quotas: hourly(0, 120) })),
    { caller: 120, rejection: 120, background: 120 },
  ],
  [
    'a 429 with a spent quota that does not say when it is full again',
    () => fails('caller', failure(429, { quotas: hourly(0) })),
    { caller: 10, rejection: 10, background: 10 },
  ],
  [
    'a quota with 3 of 10 left',
    () => limits.quotasReported(hourly(3, 600)),
    { caller: 0, rejection: 0, background: 0 },
  ],
  [
    'a quota with 2 of 10 left',
    () => limits.quotasReported(hourly(2, 600)),
    { caller: 0, rejection: 600, background: 600 },
  ],
  [
    'a renewal after a rejection failed with a 503',
    () => fails('rejection', failure(503)),
    { caller: 1, rejection: 1, background: 1 },
  ],
  [
    'four',
    () => fails('rejection', failure(503), failure(503), failure(503), failure(503)),
    { caller: 5, rejection: 8, background: 5 },
  ],
  [
    'a background renewal failed with a 503',
    () => failsInBackground(failure(503)),
    { caller: 0, rejection: 0, background: 100 },
  ],
  [
    'with a 503 and Retry-After: 300',
    () => failsInBackground(failure(503, { retryAfterS: 300 })),
    { caller: 60, rejection: 60, background: 300 },
  ],
  ['with a 400', () => failsInBackground(failure(400)), { caller: 0, rejection: 0, background: 100 }],
  ['with a 429', () => failsInBackground(failure(429)), { caller: 10, rejection: 10, background: 100 }],
  [
    'with a 429 and a spent quota',
    () => failsInBackground(failure(429, { quotas: hourly(0, 600) })),
    { caller: 600, rejection: 600, background: 600 },
  ],
  ['one rejected token was renewed', () => renewedAt(0), { caller: 0, rejection: 1, background: 0 }],
  ['three', () => renewedAt(0, 1, 3), { caller: 0, rejection: 4, background: 0 }],
  [
    'twelve in an hour, each after a minute and a half without a rejection',
    () => renewedAt(...Array.from({ length: 12 }, (_, n) => 90 * n)),
    { caller: 0, rejection: HOUR - 11 * 90, background: 0 },
  ],
  [
    'sixty in a day',
    () => renewedAt(...Array.from({ length: 60 }, (_, n) => 400 * n)),
    { caller: 0, rejection: 24 * HOUR - 59 * 400, background: 0 },
  ],
  [
    'a success ends every pause',
    () => {
      failsInBackground(failure(503, { retryAfterS: 300 }))
      fails('caller', failure(429))
      limits.succeeded()
    },
    { caller: 0, rejection: 0, background: 0 },
  ],
  [
    'two of a 503, a success, a 503',
    () => {
      fails('caller', failure(503), failure(503))
      limits.succeeded()
      fails('caller', failure(503))
    },
    { caller: 1, rejection: 1, background: 1 },
  ],
  [
    'two of a 429, a success, a 429',
    () => {
      fails('caller', failure(429), failure(429))
      limits.succeeded()
      fails('caller', failure(429))
    },
    { caller: 10, rejection: 10, background: 10 },
  ],
  [
    'a 429, a success, a 429 with Retry-After: 7',
    () => {
      fails('caller', failure(429))
      limits.succeeded()
      fails('caller', failure(429, { retryAfterS: 7 }))
    },
    { caller: 7, rejection: 7, background: 7 },
  ],
]

describe('the pause of another process', () => {
  const own = failure(503, { retryAfterS: 20 })
  const other = failure(429)
  const adopt = (gapS: number, remainsS: number): void =>
    limits.adoptPause({ gapMs: gapS * 1_000, remainsMs: remainsS * 1_000 }, () => other)

  it.each<[pause: string, before: () => void, endsInS: number, error: unknown]>([
    ['holds back this one, too', () => adopt(20, 5), 5, other],
    ['does not, once it is over', () => adopt(20, -1), Number.NEGATIVE_INFINITY, undefined],
    ['extends a shorter one', () => [fails('caller', own), adopt(20, 25)], 25, own],
    ['does not shorten a longer one', () => [fails('caller', own), adopt(20, 5)], 20, own],
    [
      'replaces the error of one that is over',
      () => {
        fails('caller', own)
        now = 20_000
        adopt(20, 5)
      },
      5,
      other,
    ],
  ])('%s', (_, before, endsInS, error) => {
    before()
    expect((limits.nextAt('caller') - now) / 1_000).toBe(endsInS)
    expect(limits.lastFailure?.error).toBe(error)
  })

  it.each([
    { gapS: 0, nextS: 10 },
    { gapS: 20, nextS: 40 },
  ])('makes the next 429 one more in a row: a gap of $gapS s, then $nextS s', ({ gapS, nextS }) => {
    adopt(gapS, 1)
    now = 1_000
    fails('caller', failure(429, { retryAfterS: 1 }))
    expect(limits.nextAt('caller')).toBe(1_000 + nextS * 1_000)
  })
})

describe('the renewals of another process', () => {
  it('do not shorten the gap after those of this one', () => {
    renewedAt(0, 1, 3)
    limits.adoptRenewals(MERCHANT, { gapMs: 1_000, renewedAgoMs: [500] })
    expect(limits.nextAt('rejection', MERCHANT)).toBe(7_000)
  })
})

it('a quota that never said when it is full again is reserved until the next response', () => {
  limits.quotasReported([{ scope: 'client', name: 'per_hour', limit: 10, remaining: 1 }])
  expect(limits.mayRequest('rejection', MERCHANT)).toBe(false)
  limits.quotasReported([{ scope: 'client', name: 'per_day', limit: 50, remaining: 40, resetsInMs: 1_000 }])
  expect(limits.mayRequest('rejection', MERCHANT)).toBe(true)
})

describe('a token may be requested in so many seconds', () => {
  it.each(TABLE)('after: %s', (_, before, expected) => {
    before()
    const inSeconds = (purpose: Purpose): number =>
      Math.max(0, limits.nextAt(purpose, MERCHANT) - now) / 1_000
    expect({
      caller: inSeconds('caller'),
      rejection: inSeconds('rejection'),
      background: inSeconds('background'),
    }).toEqual(expected)
  })

  it('for each API by itself, where rejections are limited', () => {
    renewedAt(0)
    expect([MERCHANT, IN_STORE, undefined].map((api) => limits.mayRequest('rejection', api))).toEqual([
      false,
      true,
      true,
    ])
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
    fails('background', failure(503, retryAfterS === undefined ? {} : { retryAfterS }))
    limits.pauseBackground(leftS * 1_000)
    expect(limits.nextAt('background') / 1_000).toBeCloseTo(seconds, 9)
  })
})
