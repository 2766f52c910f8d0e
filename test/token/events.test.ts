/** The events of a provider have the documented fields and no others: none is there with nothing in it. */
import { type AuthEvent, createAuthFetch } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  ENVIRONMENT,
  granted,
  MERCHANT_URL,
  noConnection,
  rejection,
  rig,
  status,
  TOKEN_ENDPOINT,
} from './harness.ts'

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0))
afterEach(() => void vi.restoreAllMocks())

const MERCHANT = 'https://api.test.example/merchant'
const fieldsOf = (events: readonly AuthEvent[]) => events.map((event) => Object.keys(event).sort())

describe('the fields of an event', () => {
  it('of an environment without a name are these, and the same with environment where it has one', async () => {
    const { name: _, ...nameless } = ENVIRONMENT
    for (const environment of [nameless, ENVIRONMENT]) {
      const badRequest = status(400, { error: 'invalid_request' })
      const answers = [noConnection, status(503), badRequest, granted(), granted()]
      const { provider, events, clock } = rig(answers, { environment })
      const failing = rejection(provider.getToken())
      await clock.advance(0)
      await failing
      await clock.advance(1_000)
      const token = await provider.getToken()
      const newer = await provider.renewToken(token, { url: MERCHANT_URL })
      await provider.renewToken(newer ?? token, { url: MERCHANT_URL })
      const withName = (fields: string[]) =>
        'name' in environment ? [...fields, 'environment'].sort() : fields
      expect(fieldsOf(events)).toEqual(
        [
          ['attempt', 'type', 'url'],
          ['attempt', 'code', 'nextTryMs', 'type'],
          ['attempt', 'type', 'url'],
          ['attempt', 'code', 'nextTryMs', 'status', 'type'],
          ['attempt', 'type', 'url'],
          ['attempt', 'code', 'error', 'status', 'type'],
          ['attempt', 'type', 'url'],
          ['durationMs', 'lifetimeMs', 'remainsMs', 'source', 'type'],
          ['api', 'type'],
          ['attempt', 'type', 'url'],
          ['durationMs', 'lifetimeMs', 'remainsMs', 'source', 'type'],
          ['reason', 'type'],
          ['api', 'type'],
          ['api', 'nextRenewalMs', 'type'],
        ].map(withName),
      )
    }
  })

  it('about a rejection without a url have no api', async () => {
    const { provider, events } = rig()
    const token = await provider.getToken()
    const newer = await provider.renewToken(token)
    events.length = 0
    await provider.renewToken(newer ?? token)
    expect(fieldsOf(events)).toEqual([
      ['environment', 'type'],
      ['environment', 'nextRenewalMs', 'type'],
    ])
  })
})

describe('the events of a renewal after a rejection', () => {
  it('for a token that has been replaced are none, and no rate limit is touched', async () => {
    const { provider, events, endpoint } = rig()
    const old = await provider.getToken()
    const token = await provider.renewToken(old)
    events.length = 0
    for (let call = 0; call < 3; call += 1)
      expect(await provider.renewToken(old, { url: MERCHANT_URL })).toBe(token)
    expect(events).toEqual([])
    expect((await provider.renewToken(token ?? old, { url: MERCHANT_URL }))?.value).not.toBe(token?.value)
    expect(endpoint.count).toBe(3)
  })

  it('that may not come yet are emitted for each call, also where they come at once', async () => {
    const { provider, events } = rig()
    const token = await provider.renewToken(await provider.getToken(), { url: MERCHANT_URL })
    events.length = 0
    const rejected = [1, 2, 3].map(() => provider.renewToken(token ?? '', { url: MERCHANT_URL }))
    expect(await Promise.all(rejected)).toEqual([undefined, undefined, undefined])
    const emitted = { environment: 'test', api: MERCHANT }
    expect(events.filter(({ type }) => type === 'token-rejected')).toEqual(
      [1, 2, 3].map(() => ({ type: 'token-rejected', ...emitted })),
    )
    expect(events.filter(({ type }) => type === 'renewal-suppressed')).toEqual(
      [1, 2, 3].map(() => ({ type: 'renewal-suppressed', nextRenewalMs: 1_000, ...emitted })),
    )
  })

  it('that many calls share are emitted once', async () => {
    const { provider, events } = rig()
    const token = await provider.getToken()
    await Promise.all([1, 2, 3].map(() => provider.renewToken(token, { url: MERCHANT_URL })))
    expect(events.filter(({ type }) => type === 'token-renewed')).toHaveLength(1)
    expect(events.filter(({ type }) => type === 'token-rejected')).toHaveLength(3)
    expect(events.filter(({ type }) => type === 'renewal-suppressed')).toEqual([])
  })

  it('say nothing of a renewal where the same token is given out again', async () => {
    const { provider, events, endpoint } = rig()
    endpoint.otherwise = granted({ access_token: 'the.same.token' })
    const token = await provider.getToken()
    events.length = 0
    expect(await provider.renewToken(token, { url: MERCHANT_URL })).toBeUndefined()
    expect(events.map(({ type }) => type)).toEqual(['token-rejected', 'token-requested', 'token-acquired'])
  })

  it('are none at all for a token that has expired', async () => {
    const { provider, events, clock } = rig()
    const token = await provider.getToken()
    await clock.advance(990_000)
    events.length = 0
    await provider.renewToken(token, { url: MERCHANT_URL })
    expect(events.map(({ type }) => type)).toEqual(['token-requested', 'token-acquired'])
  })
})

describe('the events of a secret that is replaced while it is rejected', () => {
  it('say that it was rejected, and that the next attempt follows at once', async () => {
    let asked = 0
    const clientSecret = (): string => {
      asked += 1
      return `secret-no-${asked}`
    }
    const { provider, events } = rig([status(401)], { clientSecret })
    await provider.getToken()
    expect(events.map(({ environment: _, ...event }) => event)).toEqual([
      { type: 'token-requested', attempt: 1, url: TOKEN_ENDPOINT },
      { type: 'token-request-failed', attempt: 1, code: 'ERR_TOKEN_STATUS', status: 401, nextTryMs: 0 },
      { type: 'token-requested', attempt: 2, url: TOKEN_ENDPOINT },
      {
        type: 'token-acquired',
        source: 'endpoint',
        durationMs: 0,
        lifetimeMs: 1_000_000,
        remainsMs: 1_000_000,
      },
    ])
  })
})

describe('the events of what attaches the token', () => {
  it('come out where those of its provider do', async () => {
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

  it.each(['the client secret', 'a token', 'a token, escaped'])(
    'show the path of another place without %s in it',
    async (what) => {
      const clientSecret = 'the-secret-that-was-pasted'
      const { provider, events } = rig([], { clientSecret })
      const { value } = await provider.getToken()
      events.length = 0
      const secret = what === 'the client secret' ? clientSecret : value
      const escaped = what === 'a token, escaped' ? secret.replace('.', '%2e') : secret
      const authFetch = createAuthFetch(provider, { fetch: async () => new Response('') })
      await authFetch(`https://elsewhere.example/of/${escaped}/x`)
      expect(events).toMatchObject([{ type: 'token-withheld' }])
      expect(JSON.stringify(events)).toContain('https://elsewhere.example')
      expect(decodeURIComponent(JSON.stringify(events))).not.toContain(secret)
    },
  )
})
