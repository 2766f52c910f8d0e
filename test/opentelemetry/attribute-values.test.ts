/** Which values the attributes may have: few, whatever a server or a store says; and those that the caller gave. */
import { createTelemetry } from 'merchant-auth/opentelemetry'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ACQUIRED, Collected, FAILED, REQUESTED } from './harness.ts'

describe('the values of attributes', () => {
  let collected: Collected
  beforeEach(() => {
    collected = new Collected()
  })
  afterEach(() => collected.shutdown())

  const listener = (attributes = {}) => createTelemetry({ ...collected, attributes })
  const valuesOf = async (name: string, key: string) =>
    (await collected.series(name)).map(({ attributes, value }) => [attributes[key], value])

  it('for OAuth errors are those of RFC 6749 and _OTHER', async () => {
    const errors = ['invalid_client', 'access_denied', 'out of milk', 'mfa_required', '__proto__']
    for (const error of errors) listener()({ ...FAILED, error })
    expect(await valuesOf('token.request.failures', 'merchant_auth.oauth.error')).toEqual([
      ['invalid_client', 1],
      ['access_denied', 1],
      ['_OTHER', 3],
    ])
  })

  it("for failures are this package's codes and _OTHER", async () => {
    for (const code of ['ERR_TOKEN_TIMEOUT', 'undefined', 'who knows']) listener()({ ...FAILED, code })
    expect(await valuesOf('token.request.failures', 'error.type')).toEqual([
      ['ERR_TOKEN_TIMEOUT', 1],
      ['_OTHER', 2],
    ])
  })

  it('for the failures of stores are few, however many a store makes up', async () => {
    const tell = listener()
    const codes = [undefined, 'lower case', 'X', ...Array.from({ length: 100 }, (_, index) => `E${index}`)]
    for (const code of codes) tell({ type: 'store-failed', operation: 'get', code })
    tell({ type: 'store-failed', operation: 'get', code: 'E0' })
    const told = new Map((await valuesOf('store.failures', 'error.type')) as [string, number][])
    expect(told.size).toBe(31)
    expect(told.get('E0')).toBe(2)
    expect(told.get('_OTHER')).toBe(73)
  })

  it.each([
    ['https://auth.example.com/oauth/token', 'auth.example.com', 443],
    ['http://auth.example.com/oauth/token', 'auth.example.com', 80],
    ['https://auth.example.com:8443/oauth/token', 'auth.example.com', 8443],
    ['http://[::1]:3000/oauth/token', '::1', 3000],
  ])('for the server of %s are its address and port', async (url, address, port) => {
    const tell = listener()
    tell({ ...REQUESTED, url })
    tell(ACQUIRED)
    expect(await collected.series('token.request.duration')).toEqual([
      { attributes: { 'server.address': address, 'server.port': port }, value: 1 },
    ])
    expect(collected.spans()[0]?.attributes).toMatchObject({ 'server.address': address, 'server.port': port })
  })

  it('that the caller gave are on every measurement and span, as they were when given', async () => {
    const attributes = { merchant: 'm-1', 'error.type': 'mine' }
    const tell = listener(attributes)
    attributes.merchant = 'changed'
    const api = 'https://api.example.com'
    const url = 'https://other.example.com/'
    for (const event of [
      REQUESTED,
      FAILED,
      REQUESTED,
      ACQUIRED,
      { type: 'token-rejected', api },
      { type: 'token-renewed', reason: 'rejected' },
      { type: 'renewal-suppressed', nextRenewalMs: 1, api },
      { type: 'token-withheld', reason: 'destination', url },
      { type: 'store-failed', operation: 'set' },
    ] as const)
      tell(event)
    const points = (await collected.metrics()).flatMap(({ descriptor: { name }, dataPoints }) =>
      dataPoints.map((point) => ({ name, attributes: point.attributes })),
    )
    expect(new Set(points.map(({ name }) => name)).size).toBe(9)
    for (const point of points) expect(point.attributes).toHaveProperty('merchant', 'm-1')
    for (const span of collected.spans()) expect(span.attributes).toHaveProperty('merchant', 'm-1')
    expect(
      points.find(({ name }) => name === 'merchant_auth.token.request.failures')?.attributes,
    ).toHaveProperty(['error.type'], 'ERR_TOKEN_STATUS')
  })
})
