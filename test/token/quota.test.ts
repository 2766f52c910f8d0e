/** Quotas of token requests: how their headers are parsed, what events contain, and which requests they allow. */
import { describe, expect, it } from 'vitest'
import { Fleet } from '../store/fleet.ts'
import { settled } from '../support/clock.ts'
import {
  type Answer,
  acquired,
  granted,
  grantedWith,
  MERCHANT_URL,
  noConnection,
  rig,
  status,
  withoutJitter,
} from './harness.ts'
import { HOUR_MS, type Service, simulate } from './spent-quota.ts'

const random = withoutJitter()

const CLIENT = 'Auth0-Client-Quota-Limit'
const ORGANIZATION = 'Auth0-Organization-Quota-Limit'

type Headers = Readonly<Record<string, string>>

/** An hourly quota of 10 in the client header. */
const hourly = (remaining: number, resetsInSeconds?: number): Headers => ({
  [CLIENT]: `b=per_hour;q=10;r=${remaining}${resetsInSeconds === undefined ? '' : `;t=${resetsInSeconds}`}`,
})

/** The quotas in the token-acquired event of a response with these headers. */
async function readFrom(headers: Headers, fields: Record<string, unknown> = {}): Promise<unknown> {
  const { provider, events } = rig([grantedWith(headers, fields)])
  await provider.getToken()
  const event = events.find(({ type }) => type === 'token-acquired')
  return event && 'quota' in event ? event.quota : undefined
}

const perHour = { scope: 'client', name: 'per_hour', limit: 10, remaining: 7, resetsInMs: 3_540_000 }

describe('the quotas of a response', () => {
  it.each<[name: string, headers: Headers, quotas: readonly object[]]>([
    [
      'two buckets of the client',
      { [CLIENT]: 'b=per_hour;q=10;r=7;t=3540,b=per_day;q=50;r=40;t=80000' },
      [perHour, { scope: 'client', name: 'per_day', limit: 50, remaining: 40, resetsInMs: 80_000_000 }],
    ],
    [
      'with whitespace',
      { [CLIENT]: ' b=per_hour;q=10;r=7;t=3540 , b=x;r=1' },
      [perHour, { scope: 'client', name: 'x', remaining: 1 }],
    ],
    ['in another order, with other parameters', { [CLIENT]: 'b=per_hour;t=3540;w=1;r=7;q=10' }, [perHour]],
    [
      'of client and organization with the same name',
      { [CLIENT]: 'b=per_hour;q=10;r=7;t=3540', [ORGANIZATION]: 'b=per_hour;q=10;r=7;t=3540' },
      [perHour, { ...perHour, scope: 'organization' }],
    ],
    [
      'with a name of 100 characters',
      { [CLIENT]: `b=${'x'.repeat(100)};r=7` },
      [{ scope: 'client', name: 'x'.repeat(100), remaining: 7 }],
    ],
    [
      'a valid header beside an invalid one',
      { [CLIENT]: 'b=per_hour;q=10;r=7;t=3540', [ORGANIZATION]: 'b=5;r=7' },
      [perHour],
    ],
    [
      'named twice: the one with less left',
      { [CLIENT]: 'b=per_hour;q=10;r=9;t=9000,b=per_hour;q=10;r=7;t=3540' },
      [perHour],
    ],
    [
      'named twice: the one with a reset time',
      { [CLIENT]: 'b=per_hour;q=10;r=7,b=per_hour;q=10;r=7;t=3540' },
      [perHour],
    ],
    [
      'named twice, in the other order: the one with less left',
      { [CLIENT]: 'b=per_hour;q=10;r=7;t=3540,b=per_hour;q=10;r=9;t=9000' },
      [perHour],
    ],
    [
      'named twice, in the other order: the one with the later reset time',
      { [CLIENT]: 'b=per_hour;q=10;r=7;t=3,b=per_hour;q=10;r=7;t=3540' },
      [perHour],
    ],
    [
      'named twice: the one with a fifth or less left',
      { [CLIENT]: 'b=per_hour;q=10;r=7;t=3540,b=per_hour;q=50;r=10;t=9' },
      [{ scope: 'client', name: 'per_hour', limit: 50, remaining: 10, resetsInMs: 9_000 }],
    ],
  ])('are in the token-acquired event: %s', async (_, headers, quotas) => {
    expect(await readFrom(headers)).toEqual(quotas)
  })

  it.each<[name: string, value: string]>([
    ['blank', ' , ,'],
    ['the fields of the RateLimit draft', '"per_hour";q=10;r=7'],
    ['not a list of buckets', '7 of 10'],
    ['no name', 'q=10;r=7'],
    ['an empty name', 'b=;q=10;r=7'],
    ['a number as a name', 'b=5;q=10;r=7'],
    ['a list as a name', 'b=(a b);q=10;r=7'],
    ['a name of 101 characters', `b=${'x'.repeat(101)};q=10;r=7`],
    ['no remaining', 'b=per_hour;q=10;t=3540'],
    ['a string as remaining', 'b=per_hour;q=10;r=seven'],
    ['a flag as remaining', 'b=per_hour;q=10;r'],
    ['a fraction', 'b=per_hour;q=10;r=7.5'],
    ['a negative number', 'b=per_hour;q=10;r=-1'],
    ['a negative reset', 'b=per_hour;q=10;r=1;t=-5'],
    ['a number too long for a quota', 'b=per_hour;q=10;r=9999999999999999'],
    ['an exponent', 'b=per_hour;q=10;r=1e3'],
    ['one valid bucket and an invalid one', 'b=per_hour;q=10;r=7,b=per_day;q=50'],
  ])('are ignored if the header is invalid: %s', async (_, value) => {
    for (const header of [CLIENT, ORGANIZATION]) expect(await readFrom({ [header]: value })).toBeUndefined()
  })

  it.each<[then: string, secrets: string[], answers: Answer[], quotas: unknown[]]>([
    [
      'no connection',
      ['secret-no-1'],
      [noConnection, status(503, '', hourly(7, 3_540)), noConnection, grantedWith({})],
      [undefined, [perHour], undefined, undefined],
    ],
    [
      'a secret that cannot be read',
      ['secret-no-1', ''],
      [status(503, '', hourly(7, 3_540)), granted()],
      [[perHour], undefined, undefined],
    ],
    [
      'no connection for the attempt with another secret',
      ['secret-no-1', 'secret-no-2'],
      [status(401, '', hourly(7, 3_540)), noConnection, granted()],
      [[perHour], undefined, undefined],
    ],
  ])(
    'are in the event of the failed response that reported them, and in no later event: then %s',
    async (_, secrets, answers, quotas) => {
      const clientSecret = (): string => secrets.shift() ?? 'secret-no-3' // an empty one is an error
      const made = rig(answers, { retries: 3, clientSecret })
      await acquired(made)
      const ended = made.events.filter(({ type }) => type !== 'token-requested')
      expect(ended.map((event) => ('quota' in event ? event.quota : undefined))).toEqual(quotas)
    },
  )

  it('are not emitted again for a token from the store', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(grantedWith(hourly(7, 3_540)))
    await fleet.begin()
    const { events } = await (async () => {
      const process = fleet.start()
      await process.provider.getToken()
      return process
    })()
    expect(events).toMatchObject([{ type: 'token-acquired', source: 'store' }])
    expect(events[0]).not.toHaveProperty('quota')
  })
})

describe('a quota with a fifth or less left', () => {
  it.each<[left: string, headers: Headers]>([
    ['2 of 10', hourly(2, 5_000)],
    ['0 of 10', hourly(0, 5_000)],
    ['0 of an unknown limit', { [CLIENT]: 'b=x;r=0;t=5000' }],
    ['2 of 10, without a reset time', hourly(2)],
    ['9 of 10 an hour, 10 of 50 a day', { [CLIENT]: 'b=h;q=10;r=9;t=60,b=d;q=50;r=10;t=5000' }],
    ['1 of 5', { [CLIENT]: 'b=h;q=5;r=1;t=5000' }],
    ['2 of 10 of the organization', { [ORGANIZATION]: 'b=h;q=10;r=2;t=5000' }],
    ['2 of 10 with 999999999999999 s to go', hourly(2, 999_999_999_999_999)],
  ])('prevents renewals: %s', async (_, headers) => {
    const { provider, clock, endpoint, events } = rig([grantedWith(headers)])
    const token = await provider.getToken()
    expect(await provider.renewToken(token, { url: MERCHANT_URL })).toBeUndefined()
    expect(events.at(-1)).toMatchObject({
      type: 'renewal-suppressed',
      api: MERCHANT_URL.replace('/orders', ''),
    })
    await clock.advance(900_000) // the token's refresh window has opened
    expect(await provider.getToken()).toBe(token)
    await settled()
    expect(endpoint.count).toBe(1)
  })

  it.each<[left: string, headers: Headers]>([
    ['3 of 10', hourly(3, 5_000)],
    ['1 of an unknown limit', { [CLIENT]: 'b=x;r=1;t=5000' }],
    ['2 of 10, full again in 0 s', hourly(2, 0)],
    ['1 of 4', { [CLIENT]: 'b=h;q=4;r=1;t=5000' }],
  ])('prevents no renewal if it has more left: %s', async (_, headers) => {
    const { provider, endpoint } = rig([grantedWith(headers)])
    const token = await provider.getToken()
    expect(await provider.renewToken(token, { url: MERCHANT_URL })).toBeDefined()
    expect(endpoint.count).toBe(2)
  })

  it('prevents the retry of a failed renewal', async () => {
    const answers = [grantedWith(hourly(3, 5_000)), status(503, '', hourly(2, 5_000))]
    const { provider, endpoint } = rig(answers, { retries: 2 })
    const token = await provider.getToken()
    await expect(provider.renewToken(token, { url: MERCHANT_URL })).rejects.toMatchObject({ status: 503 })
    expect(endpoint.count).toBe(2)
  })

  it('does not prevent the retry of a renewal during which the token expired', async () => {
    const { provider, endpoint, clock } = rig([grantedWith(hourly(3, 5_000))])
    const token = await provider.getToken()
    await clock.advance(989_900)
    endpoint.answers.push((init) => clock.sleep(100).then(() => status(503, '', hourly(2, 5_000))(init)))
    const renewal = provider.renewToken(token, { url: MERCHANT_URL })
    await clock.advance(100)
    expect((await renewal)?.value).not.toBe(token.value)
    expect(endpoint.count).toBe(3)
  })

  it('does not prevent token requests for callers without a token', async () => {
    const made = rig([grantedWith(hourly(1, 5_000)), grantedWith(hourly(0, 5_000))])
    const token = await made.provider.getToken()
    await made.clock.advance(990_000)
    expect((await made.provider.getToken()).value).not.toBe(token.value)
    await made.clock.advance(990_000)
    expect(await made.provider.getToken()).toBeDefined() // although the last response reported nothing left
    expect(made.endpoint.count).toBe(3)
  })

  it('allows renewals again at its reset time, which renewal-suppressed announces', async () => {
    const { provider, clock, endpoint, events } = rig([grantedWith(hourly(2, 600))])
    const token = await provider.getToken()
    expect(await provider.renewToken(token, { url: MERCHANT_URL })).toBeUndefined()
    expect(events.at(-1)).toMatchObject({ type: 'renewal-suppressed', nextRenewalMs: 600_000 })
    await clock.advance(599_999)
    expect(await provider.renewToken(token, { url: MERCHANT_URL })).toBeUndefined()
    await clock.advance(1)
    expect(await provider.renewToken(token, { url: MERCHANT_URL })).toBeDefined()
    expect(endpoint.count).toBe(2)
  })

  it('allows a background renewal soon after its reset', async () => {
    const { provider, clock, endpoint } = rig([grantedWith(hourly(2, 850))]) // the window opens at 790 s
    const token = await provider.getToken()
    for (let second = 780; second < 849; second += 1) {
      await clock.advance(second === 780 ? 780_000 : 1_000)
      expect(await provider.getToken()).toBe(token)
    }
    expect(endpoint.count).toBe(1)
    await clock.advance(45_000)
    provider.currentToken()
    await settled()
    expect(endpoint.count).toBe(2)
  })

  /** How many requests a renewal causes after the next response was this one. */
  const renewalsAfter = async (answer: Answer): Promise<number> => {
    const made = rig([grantedWith(hourly(2, 5_000)), answer], { retries: 0 })
    await made.provider.getToken()
    await made.clock.advance(990_000)
    await made.provider.getToken().catch(() => {})
    await made.clock.advance(1_000)
    const token = await made.provider.getToken()
    const before = made.endpoint.count
    await made.provider.renewToken(token)
    return made.endpoint.count - before
  }

  it.each<[name: string, answer: Answer]>([
    ['of another quota', grantedWith({ [CLIENT]: 'b=per_day;q=50;r=40;t=5000' })],
    ['of no quota', grantedWith({})],
  ])('still applies after a report %s', async (_, answer) => {
    expect(await renewalsAfter(answer)).toBe(0)
  })

  it.each<[name: string, answer: Answer]>([
    ['with a token', grantedWith(hourly(9, 5_000))],
    ['with a failure', status(503, '', hourly(9, 5_000))],
  ])('applies until a response reports enough of it: %s', async (_, answer) => {
    expect(await renewalsAfter(answer)).toBe(1)
  })

  it('is known to each process that acquires the token from the store', async () => {
    const fleet = new Fleet()
    fleet.endpoint.answers.push(grantedWith(hourly(2, 600)))
    const { token } = await fleet.begin()
    await fleet.skip(100_000)
    const other = fleet.start()
    expect((await other.provider.getToken()).value).toBe(token)
    expect(await other.provider.renewToken(token, { url: MERCHANT_URL })).toBeUndefined()
    expect(other.events.at(-1)).toMatchObject({ type: 'renewal-suppressed', nextRenewalMs: 500_000 })
    await fleet.skip(499_999)
    expect(await other.provider.renewToken(token, { url: MERCHANT_URL })).toBeUndefined()
    const late = fleet.start()
    await late.provider.getToken()
    await fleet.skip(1)
    expect(await late.provider.renewToken(token, { url: MERCHANT_URL })).toBeDefined()
    expect(fleet.endpoint.count).toBe(2)
  })
})

describe('an API that rejects everything for a day, beside a healthy one', () => {
  const HOUR_AND_DAY = [
    [10, HOUR_MS],
    [50, 24 * HOUR_MS],
  ] as const
  it.each([
    { lifetimeS: 36_000, callEveryMs: 20_000, quotas: HOUR_AND_DAY },
    { lifetimeS: 86_400, callEveryMs: 62_000, quotas: HOUR_AND_DAY },
    { lifetimeS: 3_600, callEveryMs: 30_000, quotas: [[50, 12 * HOUR_MS]] as const },
  ])(
    'leaves a fifth of each quota and never an expired token for the healthy one (tokens of $lifetimeS s)',
    async ({ lifetimeS, callEveryMs, quotas }) => {
      random.mockReset()
      const service: Service = { quotas, lifetimeS, saysWhen: 'quotas' }
      const day = await simulate({ processes: 1, service, spent: 0, rejects: true, callEveryMs })
      expect(day.leastLeft).toBeGreaterThanOrEqual(1 / 5)
      expect(day.tokens).toBeGreaterThan(10)
      expect([day.requests - day.tokens, day.failedCalls]).toEqual([0, 0]) // no 429
    },
  )
})
