import { createTokenProvider, type TokenProvider } from 'merchant-auth'
import { createStaticTokenProvider, type Sandbox, startSandbox } from 'merchant-auth/testing'
import { Orders } from './orders'

describe('with a token from the start, and a mock of fetch', () => {
  afterEach(() => jest.restoreAllMocks())

  test('an order is sent with the token', async () => {
    const fetch = jest.spyOn(globalThis, 'fetch').mockResolvedValue(new Response())
    await new Orders(createStaticTokenProvider(), 'http://localhost').place(1200)
    const [url, init] = fetch.mock.calls[0]
    expect([url, init?.body]).toEqual(['http://localhost/orders', '{"amount":1200}'])
    expect(new Headers(init?.headers).get('authorization')).toBe('Bearer static-test-token')
  })
})

describe('with the sandbox', () => {
  let sandbox: Sandbox
  let tokens: TokenProvider
  let orders: Orders

  beforeEach(async () => {
    sandbox = await startSandbox()
    const { environment, clientId, clientSecret, merchantUrl } = sandbox.test
    tokens = createTokenProvider({ environment, clientId, clientSecret })
    orders = new Orders(tokens, merchantUrl)
  })

  afterEach(async () => {
    jest.useRealTimers()
    await tokens.close()
    await sandbox.close()
  })

  test('an order is sent again after the token was revoked', async () => {
    await orders.place(1200)
    sandbox.test.revoke()
    await orders.place(1300)
    const sent = sandbox.test.requests('merchant').map(({ status, body }) => `${status} ${body}`)
    expect(sent).toEqual(['200 {"amount":1200}', '401 {"amount":1300}', '200 {"amount":1300}'])
  })

  test('an order gets a new token after the first one expired', async () => {
    jest.useFakeTimers()
    await orders.place(1200)
    jest.advanceTimersByTime(3_600_000)
    await orders.place(1300)
    expect(sandbox.test.counts).toMatchObject({ token: 2, unauthorized: 0 })
  })

  test('an order fails while the token endpoint is down', async () => {
    // A pause that is longer than timeoutMs: the call fails at once, without retries.
    sandbox.test.fail('token', { kind: 'status', status: 503, retryAfter: 60 })
    await expect(orders.place(1200)).rejects.toMatchObject({ code: 'ERR_TOKEN_STATUS', status: 503 })
  })
})
