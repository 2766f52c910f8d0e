/** The events of a provider have exactly the documented fields, and no field without a value. */
import { createAuthFetch } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { BUCKET } from '../../src/token/limits/renewals.ts'
import {
  acquired,
  ENVIRONMENT,
  failed,
  granted,
  grantedWith,
  MERCHANT_URL,
  noConnection,
  rejection,
  rig,
  status,
  TOKEN_ENDPOINT,
  withoutJitter,
} from './harness.ts'
import { attachedRig, REFUSED_URL } from './scripted-api.ts'

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
/** A call, and what its events say of it. */
const call = { url: `${url}?store=7`, method: 'POST' }
const shown = { api, url, method: 'POST' }

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
    const { retryAfterMs } = await failed(made, 2_000)
    await clock.advance(Number(retryAfterMs))
    const first = await acquired(made, 2_000)
    const second = await provider.renewToken(first, call)
    const third = await provider.renewToken(second ?? '')
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
        { type: 'token-rejected', ...shown },
        requested(1),
        acquiredAfter(0),
        renewed,
        { type: 'token-rejected' },
        requested(1),
        acquiredAfter(0),
        renewed,
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
  const spentFor = (seconds: number) => ({ 'Auth0-Client-Quota-Limit': `b=h;q=10;r=0;t=${seconds}` })

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
    expect(new Set(await thrice(token?.value ?? '')).size).toBe(1)
    expect(counts()).toEqual([6, 2, 0])
  })

  it('show the URL of the call without user info, query and secrets', async () => {
    const { provider, events } = rig()
    const { value } = await provider.getToken()
    const { host } = new URL(url)
    await provider.renewToken(value, { url: `https://user:pass@${host}/merchant/${value}?q=1#f` })
    expect(events.find(({ type }) => type === 'token-rejected')).toMatchObject({
      url: `https://${host}/merchant/[hidden]`,
    })
  })

  it('say why a renewal was suppressed: accepted, for a call with a 401 of its own', async () => {
    const { api: scripted, events } = attachedRig()
    await scripted.call()
    await scripted.call(REFUSED_URL)
    await scripted.call()
    events.length = 0
    await scripted.call(REFUSED_URL, { method: 'DELETE' })
    const refused = { api, url: REFUSED_URL, method: 'DELETE', environment: 'test' }
    expect(events).toStrictEqual([
      { type: 'token-rejected', ...refused },
      { type: 'renewal-suppressed', reason: 'accepted', ...refused },
    ])
  })

  it('say why a renewal was suppressed: the bucket of renewals is empty', async () => {
    const { provider, events } = rig()
    for (let times = 0; times <= BUCKET; times += 1)
      await provider.renewToken(
        String(provider.currentToken()?.value ?? (await provider.getToken()).value),
        call,
      )
    expect(events.at(-1)).toStrictEqual({
      type: 'renewal-suppressed',
      reason: 'limited',
      nextRenewalMs: 990_000, // less than it takes until the bucket has one again
      ...shown,
      environment: 'test',
    })
  })

  it('say why a renewal was suppressed: a quota', async () => {
    const { provider, events } = rig([grantedWith(spentFor(600))])
    await provider.renewToken(await provider.getToken(), call)
    expect(events.at(-1)).toStrictEqual({
      type: 'renewal-suppressed',
      reason: 'quota',
      nextRenewalMs: 600_000,
      ...shown,
      environment: 'test',
    })
  })

  it('say why a renewal was suppressed: a cooldown', async () => {
    const { provider, events } = rig([granted(), status(400, '', { 'retry-after': '20' })])
    const token = await provider.getToken()
    await rejection(provider.renewToken(token, call))
    await rejection(provider.renewToken(token, call))
    expect(events.at(-1)).toStrictEqual({
      type: 'renewal-suppressed',
      reason: 'cooldown',
      nextRenewalMs: 20_000,
      ...shown,
      environment: 'test',
    })
  })

  it('announce when the last of several limits ends', async () => {
    const pause = status(400, '', { 'retry-after': '20', ...spentFor(600) })
    const { provider, events } = rig([granted(), pause])
    const token = await provider.getToken()
    await rejection(provider.renewToken(token, call))
    await rejection(provider.renewToken(token, call))
    expect(events.at(-1)).toMatchObject({ reason: 'cooldown', nextRenewalMs: 600_000 })
  })

  it('announce the end of the token where a limit is longer', async () => {
    const { provider, events } = rig([grantedWith(spentFor(5_000), { expires_in: 400 })])
    await provider.renewToken(await provider.getToken(), call)
    expect(events.at(-1)).toMatchObject({ reason: 'quota', nextRenewalMs: 390_000 })
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
