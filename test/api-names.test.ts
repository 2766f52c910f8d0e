// The two APIs by name: where they are defined, in variables, in events and in errors.
import { createTokenProvider, defineEnvironments, type Environment, optionsFromEnv } from 'merchant-auth'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { destinationsOf } from '../src/destinations.ts'
import { rejectionOf, useGround } from './support/ground.ts'
import { problemsOf } from './support/problems.ts'

const merchant = 'https://api.example/merchant'
const inStore = 'https://api.example/in-store'
const plain = { authUrl: 'https://auth.example', audience: 'https://api.example' }

describe('apiUrls by name', () => {
  it('keep their names, in the type too, and are frozen copies', () => {
    const apiUrls = { merchant, inStore }
    const { test } = defineEnvironments({ test: { ...plain, apiUrls } })
    expectTypeOf(test.apiUrls).toEqualTypeOf<{ merchant: string; inStore: string }>()
    expect(test.apiUrls).toEqual({ merchant, inStore })
    expect(test.apiUrls).not.toBe(apiUrls)
    expect(Object.isFrozen(test.apiUrls)).toBe(true)
    const tokens = createTokenProvider({ environment: test, clientId: 'c', clientSecret: 'swordfish' })
    expect(tokens.environment.apiUrls).toEqual({ merchant, inStore })
  })

  it.each([
    [{ merchant: 'api.example' }, ['test.apiUrls.merchant']],
    [{ merchant, inStore: 'http://api.example' }, ['test.apiUrls.inStore']],
    [{ merchant: undefined, inStore: 5 }, ['test.apiUrls.merchant', 'test.apiUrls.inStore']],
    [{ '': merchant }, ['test.apiUrls.']],
    [{}, ['test.apiUrls']],
    [new Map([['merchant', merchant]]), ['test.apiUrls']],
    ['https://api.example', ['test.apiUrls']],
  ])('are checked, each by its name: %j', (apiUrls, options) => {
    const test = { ...plain, apiUrls } as Environment
    expect(problemsOf(() => defineEnvironments({ test }))).toEqual(options)
  })

  it('may not overlap with those of another environment', () => {
    const other = { authUrl: 'https://auth.other', audience: 'other', apiUrls: [`${merchant}/v2`] }
    expect(
      problemsOf(() => defineEnvironments({ other, test: { ...plain, apiUrls: { merchant } } })),
    ).toEqual(['test.apiUrls.merchant'])
  })

  describe('in events', () => {
    const ground = useGround()

    it('are what an API is called', async () => {
      const api = ground.api()
      ground.env.fail('merchant', { kind: 'status', status: 401 }, { times: Number.POSITIVE_INFINITY })
      for (const _ of [1, 2, 3]) await rejectionOf(api.get('/orders'))
      const named = ground.events.filter((event) => 'api' in event)
      expect(named.map((event) => [event.type, 'api' in event && event.api])).toEqual([
        ['token-rejected', 'merchant'],
        ['token-rejected', 'merchant'],
        ['renewal-suppressed', 'merchant'],
        ['token-rejected', 'merchant'],
        ['renewal-suppressed', 'merchant'],
      ])
    })
  })
})

describe('MERCHANT_AUTH_API_URLS', () => {
  const apiUrlsOf = (text: string) =>
    optionsFromEnv({
      MERCHANT_AUTH_URL: plain.authUrl,
      MERCHANT_AUTH_AUDIENCE: plain.audience,
      MERCHANT_AUTH_API_URLS: text,
      MERCHANT_AUTH_CLIENT_ID: 'c',
      MERCHANT_AUTH_CLIENT_SECRET: 'swordfish',
    }).environment.apiUrls

  it.each([
    [`merchant=${merchant},inStore=${inStore}`, { merchant, inStore }],
    [` merchant = ${merchant} , inStore=${inStore},`, { merchant, inStore }],
    [`${merchant}, ${inStore}`, [merchant, inStore]],
    [`${merchant}/a=b`, [`${merchant}/a=b`]],
    [`one=${merchant}/a=b`, { one: `${merchant}/a=b` }],
  ])('%s', (text, apiUrls) => {
    expect(apiUrlsOf(text)).toEqual(apiUrls)
  })

  it.each([
    [`merchant=${merchant},${inStore}`, ['MERCHANT_AUTH_API_URLS']],
    [`merchant=${merchant},merchant=${inStore}`, ['MERCHANT_AUTH_API_URLS']],
    ['merchant=http://api.example', ['MERCHANT_AUTH_API_URLS.merchant']],
    ['merchant=', ['MERCHANT_AUTH_API_URLS.merchant']],
    ['http://api.example', ['MERCHANT_AUTH_API_URLS[0]']],
    [',', ['MERCHANT_AUTH_API_URLS']],
  ])('rejects %s', (text, options) => {
    expect(problemsOf(() => apiUrlsOf(text))).toEqual(options)
  })
})

it('a URL that is an inner entry itself belongs to that entry', () => {
  const apiUrls = { all: 'https://api.example/api', merchant: 'https://api.example/api/merchant' }
  const destinations = destinationsOf({ ...plain, apiUrls })
  for (const rest of ['', '?x=1', '#top', '/', '/orders'])
    expect(destinations(`${apiUrls.merchant}${rest}`).api?.label, rest).toBe('merchant')
  expect(destinations(`${apiUrls.merchant}s`).api?.label).toBe('all')
})
