// The plain request interceptor by itself, without axios around it (contract 2, 5.3).
import { ConfigurationError } from 'merchant-auth'
import { createAuthInterceptor } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { hang, MERCHANT_URL, rig } from '../token/harness.ts'
import { rejectionOf } from './calls.ts'

interface Config {
  url: string
  headers: { [name: string]: string; Authorization?: string }
  beforeRedirect?: (options: object, response?: unknown, request?: unknown) => void
  signal?: AbortSignal
}
const fresh = (): Config => ({ url: MERCHANT_URL, headers: {} })

/** An interceptor, and what lets it have one token after another. */
function renewing() {
  const { provider, clock, events } = rig()
  return {
    intercept: createAuthInterceptor(provider),
    withheld: () => events.flatMap((event) => (event.type === 'token-withheld' ? [event.reason] : [])),
    async nextToken(): Promise<string> {
      await clock.advance(1_000_000)
      return `Bearer ${(await provider.getToken()).value}`
    },
  }
}

describe('the interceptor', () => {
  it('puts on a token that is there at once, without a promise', async () => {
    const { intercept, nextToken } = renewing()
    const value = await nextToken()
    const config = fresh()
    expect(intercept(config)).toBe(config)
    expect(config.headers).toEqual({ Authorization: value })
  })

  it('gives the same config where it has to wait for one', async () => {
    const config = fresh()
    const { intercept } = renewing()
    const waiting = intercept(config)
    expect(waiting).toBeInstanceOf(Promise)
    expect(await waiting).toBe(config)
    expect(config.headers.Authorization).toMatch(/^Bearer head\.body\.signature-\d+$/)
  })

  it('lets a signal end the wait, and axios say so', async () => {
    const { provider, endpoint, events } = rig([hang])
    const abort = new AbortController()
    const config = { ...fresh(), signal: abort.signal }
    const waiting = createAuthInterceptor(provider)(config)
    abort.abort()
    expect(await waiting).toBe(config)
    expect(config.headers).toEqual({})
    expect(endpoint.count).toBe(1)
    expect(events.map(({ type }) => type)).toEqual(['token-requested'])
    await provider.close()
  })

  it('rejects where the provider does, signal or not', async () => {
    const { provider } = rig([hang])
    const waiting = createAuthInterceptor(provider)({ ...fresh(), signal: new AbortController().signal })
    const error = rejectionOf(waiting as Promise<unknown>)
    await provider.close()
    expect(await error).toMatchObject({ code: 'ERR_PROVIDER_CLOSED' })
  })
})

describe('a config that is sent again', () => {
  it('gets the current token however often another one was put on other calls', async () => {
    const { intercept, nextToken, withheld } = renewing()
    await nextToken()
    const old = fresh()
    await intercept(old)
    const current = await nextToken()
    for (let nth = 0; nth < 20; nth += 1) intercept(fresh())
    intercept(old)
    expect(old.headers).toEqual({ Authorization: current })
    expect(withheld()).toEqual([])
  })

  it('is known by any of the last 64 tokens; an older one counts as the caller’s own header', async () => {
    const { intercept, nextToken, withheld } = renewing()
    const configs = []
    for (let nth = 1; nth <= 65; nth += 1) {
      await nextToken()
      const config = fresh()
      intercept(config)
      configs.push(config)
    }
    const values = configs.map(({ headers }) => headers.Authorization)
    expect(new Set(values).size).toBe(65)
    for (const config of configs.toReversed()) intercept(config)
    const [oldest, ...others] = configs.map(({ headers }) => headers.Authorization)
    expect(oldest).toBe(values[0])
    expect(others).toEqual(Array(64).fill(values[64]))
    expect(withheld()).toEqual(['own-header'])
  })

  it('has its header under the name that it is sent in, once', async () => {
    const { intercept, nextToken } = renewing()
    const value = await nextToken()
    const config = { ...fresh(), headers: { authorization: value, 'x-mine': value } }
    intercept(fresh())
    intercept(config)
    expect(config.headers).toEqual({ Authorization: value, 'x-mine': value })
  })

  it('and again, for a day, has one guard of its redirects, which asks the caller’s own once', async () => {
    const { intercept, nextToken } = renewing()
    await nextToken()
    let asked = 0
    const config = {
      ...fresh(),
      beforeRedirect: () => {
        asked += 1
      },
    }
    const bare = fresh()
    for (let nth = 0; nth < 50_000; nth += 1) {
      intercept(config)
      intercept(bare)
    }
    const redirect = () => ({ href: `${MERCHANT_URL}/there`, headers: { authorization: 'Bearer abc' } })
    const guards = [config, bare].map(({ beforeRedirect }) => beforeRedirect as Config['beforeRedirect'])
    const [within, without] = [redirect(), { ...redirect(), href: 'https://elsewhere.example/' }]
    guards[0]?.(within, {}, {})
    guards[1]?.(without, {}, {})
    expect(asked).toBe(1)
    expect(within.headers).toEqual({ Authorization: 'Bearer abc' })
    expect(without.headers).toEqual({})
  })
})

describe('without a provider and without options', () => {
  it.each([undefined, null, 'provider', {}])('is refused: %j', (auth) => {
    expect(() => createAuthInterceptor(auth as never)).toThrow(ConfigurationError)
    expect(() => createAuthInterceptor(auth as never)).toThrow(
      /^The options of the token provider cannot be used:/,
    )
  })
})
