// The order in which faults come, how often, and what is refused as a fault.
import { describe, expect, it } from 'vitest'
import { call, freshToken, requestToken, useSandbox } from './calls.ts'

const use = useSandbox()
const merchant = async () => (await call(use.env.merchantUrl, undefined)).status

describe('fail', () => {
  it('meets the next request, once', async () => {
    use.env.fail('merchant', { kind: 'status', status: 503 })
    expect([await merchant(), await merchant()]).toEqual([503, 401])
  })

  it('meets as many requests as it was told to, in the order of the orders', async () => {
    const first = use.env.fail('merchant', { kind: 'status', status: 503 }, { times: 2 })
    const second = use.env.fail('merchant', { kind: 'status', status: 429 })
    expect([await merchant(), await merchant(), await merchant(), await merchant()]).toEqual([
      503, 503, 429, 401,
    ])
    expect(use.env.requests('merchant').map(({ fault }) => fault)).toEqual([first, first, second, undefined])
  })

  it('meets requests of its target alone, in its environment alone', async () => {
    use.env.fail('in-store', { kind: 'status', status: 503 })
    expect(await merchant()).toBe(401)
    expect((await requestToken(use.env)).status).toBe(200)
    expect((await call(use.sandbox.production.inStoreUrl, undefined)).status).toBe(401)
    expect((await call(use.env.inStoreUrl, undefined)).status).toBe(503)
  })

  it('meets all requests until it is cleared, with Infinity', async () => {
    use.env.fail('merchant', { kind: 'status', status: 503 }, { times: Number.POSITIVE_INFINITY })
    for (let i = 0; i < 20; i += 1) expect(await merchant()).toBe(503)
    use.env.clearFaults()
    expect(await merchant()).toBe(401)
  })

  it('gives every answer without a fault no sign of one', async () => {
    const response = await call(use.env.merchantUrl, await freshToken(use.env))
    expect(response.headers.has('x-sandbox-fault')).toBe(false)
    expect(use.env.requests('merchant')[0]).not.toHaveProperty('fault')
  })

  it('comes after the latency', async () => {
    const asked: number[] = []
    use.env.configure({
      apiLatencyMs: () => {
        asked.push(1)
        return 0
      },
    })
    use.env.fail('merchant', { kind: 'status', status: 503 })
    expect(await merchant()).toBe(503)
    expect(asked).toHaveLength(1)
  })

  it.each([
    ['target', 'refunds', { kind: 'reset' }, undefined],
    ['fault', 'token', undefined, undefined],
    ['fault.kind', 'token', { kind: 'explode' }, undefined],
    ['fault.status', 'token', { kind: 'status', status: 100 }, undefined],
    ['fault.status', 'token', { kind: 'status' }, undefined],
    ['fault.headers', 'token', { kind: 'status', status: 500, headers: { 'a b': 'x' } }, undefined],
    ['fault.headers', 'token', { kind: 'status', status: 500, headers: { a: 'x\r\ny' } }, undefined],
    ['fault.retryAfter', 'token', { kind: 'status', status: 500, retryAfter: '\n' }, undefined],
    ['fault.body', 'token', { kind: 'status', status: 500, body: 5n }, undefined],
    ['fault.body', 'token', { kind: 'json' }, undefined],
    ['fault.at', 'token', { kind: 'hang', at: 'trailers' }, undefined],
    ['fault.durationMs', 'token', { kind: 'slow-body', durationMs: -1 }, undefined],
    ['fault.bytes', 'token', { kind: 'huge-body', bytes: 0 }, undefined],
    ['fault.body', 'token', { kind: 'text', body: 5 }, undefined],
    ['fault.location', 'token', { kind: 'redirect', location: 'a\nb' }, undefined],
    ['fault.status', 'token', { kind: 'redirect', location: '/', status: 200 }, undefined],
    ['fault.afterMs', 'token', { kind: 'reset', afterMs: 5 }, undefined],
    ['times', 'token', { kind: 'reset' }, { times: 0 }],
    ['times', 'token', { kind: 'reset' }, { times: 1.5 }],
    ['time', 'token', { kind: 'reset' }, { time: 2 }],
  ])('refuses a wrong order: %s of %s %o %o', async (option, target, fault, options) => {
    const order = () => use.env.fail(target as never, fault as never, options as never)
    expect(order).toThrow(expect.objectContaining({ code: 'ERR_CONFIGURATION' }))
    expect(order).toThrow(expect.objectContaining({ problems: [expect.objectContaining({ option })] }))
  })
})

describe('clearFaults', () => {
  it('forgets those of one target', async () => {
    use.env.fail('merchant', { kind: 'status', status: 503 })
    use.env.fail('in-store', { kind: 'status', status: 503 })
    use.env.clearFaults('merchant')
    expect(await merchant()).toBe(401)
    expect((await call(use.env.inStoreUrl, undefined)).status).toBe(503)
  })

  it('refuses a target that does not exist', () => {
    expect(() => use.env.clearFaults('refunds' as never)).toThrow(
      expect.objectContaining({ code: 'ERR_CONFIGURATION' }),
    )
  })
})
