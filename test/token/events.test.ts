/** The events of a provider have exactly the documented fields, and no field without a value. */
import { createAuthFetch } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import {
  acquired,
  ENVIRONMENT,
  failed,
  granted,
  MERCHANT_URL,
  noConnection,
  rejection,
  rig,
  status,
  TOKEN_ENDPOINT,
  withoutJitter,
} from './harness.ts'

withoutJitter()

const api = 'https://api.test.example/merchant'
const url = MERCHANT_URL
const typesOf = (events: readonly { type: string }[]) => events.map(({ type }) => type)

const requested = (attempt: number) => ({ type: 'token-requested', attempt, url: TOKEN_ENDPOINT })
const failedBy = (attempt: number, code: string, more = {}) => ({
  type: 'token-request-failed',
  attempt,
  code,
  ...more,
})
const acquiredAfter = (durationMs: number, lifetimeMs = 1_000_000) => ({
  type: 'token-acquired',
  source: 'endpoint',
  durationMs,
  lifetimeMs,
  remainsMs: lifetimeMs - durationMs,
})
const renewed = { type: 'token-renewed', reason: 'rejected' }
const suppressed = { type: 'renewal-suppressed', nextRenewalMs: 1_000 }

describe('the events of token requests and renewals', () => {
  const { name: _, ...nameless } = ENVIRONMENT
  it.each([
    ['environment with a name', ENVIRONMENT, { environment: 'test' }],
    ['environment without a name', nameless, {}],
  ])('have exactly the documented fields, in order: %s', async (_, environment, named) => {
    const pause = status(503, '', { 'retry-after': '2' })
    const badRequest = status(400, { error: 'invalid_request' })
    const day = granted({ expires_in: 36_000 })
    const made = rig([noConnection, pause, badRequest, pause, day], { environment, refreshAheadMs: 0 })
    const { provider, events, clock, endpoint } = made
    await failed(made, 2_000)
    await clock.advance(1_000)
    const first = await acquired(made, 2_000)
    const second = await provider.renewToken(first, { url })
    await provider.renewToken(second ?? '', { url })
    const third = await provider.renewToken(second ?? '')
    await provider.renewToken(third ?? '')
    await clock.advance(1_000)
    endpoint.answers.push(granted({ token_type: 'mac' }))
    await rejection(provider.renewToken(third ?? ''))
    const { remainsMs: __, ...dayLong } = acquiredAfter(2_000, 36_000_000)
    const STATUS = 'ERR_TOKEN_STATUS'
    expect(events).toStrictEqual(
      [
        requested(1),
        failedBy(1, 'ERR_TOKEN_NETWORK', { nextTryMs: 0 }),
        requested(2),
        failedBy(2, STATUS, { status: 503, nextTryMs: 2_000 }),
        requested(3),
        failedBy(3, STATUS, { status: 400, error: 'invalid_request' }),
        requested(1),
        failedBy(1, STATUS, { status: 503, nextTryMs: 2_000 }),
        requested(2),
        { ...dayLong, remainsMs: 36_000_000 }, // counted from when this attempt was sent
        { type: 'token-rejected', api },
        requested(1),
        acquiredAfter(0),
        renewed,
        { type: 'token-rejected', api },
        { ...suppressed, api },
        { type: 'token-rejected' },
        requested(1),
        acquiredAfter(0),
        renewed,
        { type: 'token-rejected' },
        suppressed,
        { type: 'token-rejected' },
        requested(1),
        failedBy(1, 'ERR_TOKEN_RESPONSE'),
      ].map((event) => ({ ...event, ...named })),
    )
  })

  it('announce an immediate retry if a rejected secret was replaced', async () => {
    const secrets = ['secret-no-1', 'secret-no-2']
    const { provider, events } = rig([status(401)], { clientSecret: () => secrets.shift() ?? '' })
    await provider.getToken()
    expect(events).toMatchObject([
      requested(1),
      failedBy(1, 'ERR_TOKEN_STATUS', { status: 401, nextTryMs: 0 }),
      requested(2),
      acquiredAfter(0),
    ])
  })
})

describe('the events of a renewal after a rejection', () => {
  it('are not emitted for a token that was already replaced, which does not use up the rate limit', async () => {
    const { provider, events, endpoint } = rig()
    const old = await provider.getToken()
    const token = await provider.renewToken(old)
    events.length = 0
    for (let call = 0; call < 3; call += 1) expect(await provider.renewToken(old, { url })).toBe(token)
    expect(events).toEqual([])
    expect((await provider.renewToken(token ?? old, { url }))?.value).not.toBe(token?.value)
    expect(endpoint.count).toBe(3)
  })

  it('include token-rejected for each call and token-renewed once for a shared renewal', async () => {
    const { provider, events } = rig()
    const thrice = (token: string) => Promise.all([1, 2, 3].map(() => provider.renewToken(token, { url })))
    const [token] = await thrice((await provider.getToken()).value)
    const counted = (wanted: string) => typesOf(events).filter((type) => type === wanted).length
    const counts = () => ['token-rejected', 'token-renewed', 'renewal-suppressed'].map(counted)
    expect(counts()).toEqual([3, 1, 0])
    expect(await thrice(token?.value ?? '')).toEqual([undefined, undefined, undefined])
    expect(counts()).toEqual([6, 1, 3])
  })

  it('omit token-renewed if the endpoint returns the rejected token again', async () => {
    const { provider, events, endpoint } = rig()
    endpoint.otherwise = granted({ access_token: 'the.same.token' })
    const token = await provider.getToken()
    events.length = 0
    expect(await provider.renewToken(token, { url })).toBeUndefined()
    expect(typesOf(events)).toEqual(['token-rejected', 'token-requested', 'token-acquired'])
  })

  it('omit token-rejected for a token that has expired', async () => {
    const { provider, events, clock } = rig()
    const token = await provider.getToken()
    await clock.advance(990_000)
    events.length = 0
    expect((await provider.renewToken(token, { url }))?.value).not.toBe(token.value)
    expect(typesOf(events)).toEqual(['token-requested', 'token-acquired'])
  })
})

it('the token-withheld event has the URL of the call without its query', async () => {
  const { provider, events } = rig()
  const authFetch = createAuthFetch(provider, { fetch: async () => new Response('') })
  await authFetch('https://elsewhere.example/orders?secret=1')
  expect(events).toEqual([
    {
      type: 'token-withheld',
      reason: 'destination',
      url: 'https://elsewhere.example/orders',
      environment: 'test',
    },
  ])
})
