/** Tests of your own code with MSW, for the token endpoint and the API: `node examples/recipes/msw.ts` runs them. */
import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import { createAuthFetch, createTokenProvider, type TokenProvider } from 'merchant-auth'
import { createStaticTokenProvider } from 'merchant-auth/testing'
import { HttpResponse, http } from 'msw'
import { setupServer } from 'msw/node'
import { environments } from './parts/environments.ts'
import { handlers } from './parts/msw-handlers.ts'

const { test: environment } = environments

/** The code under test. */
async function placeOrder(tokens: TokenProvider, amount: number): Promise<string> {
  const response = await createAuthFetch(tokens)(`${environment.apiUrls.merchant}/orders`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ amount }),
  })
  if (!response.ok) throw new Error(`The order was not placed: ${response.status}`)
  return ((await response.json()) as { id: string }).id
}

const server = setupServer(...handlers)
/** What arrived, in order. */
const received: string[] = []
server.events.on('request:start', ({ request }) => {
  const path = new URL(request.url).pathname
  received.push([path, request.headers.get('authorization')].join(' ').trim())
})

before(() => {
  // A call that no handler answers fails, and does not leave this machine. MSW 2 calls the option onUnhandledRequest.
  server.listen({ onUnhandledFrame: 'error' })
})

afterEach(() => {
  server.resetHandlers()
  received.length = 0
})

after(() => {
  server.close()
})

test('an order is placed with the token of the token endpoint', async (t) => {
  const tokens = createTokenProvider({ environment, clientId: 'my-client', clientSecret: 'made-up-secret' })
  t.after(() => tokens.close())

  assert.equal(await placeOrder(tokens, 1200), 'order-1')
  assert.deepEqual(received, ['/oauth/token', '/merchant/orders Bearer abc'])
})

test('an order is placed once more, with another token, when the API answers 401', async (t) => {
  const tokens = createTokenProvider({ environment, clientId: 'my-client', clientSecret: 'made-up-secret' })
  t.after(() => tokens.close())
  const rejected = (): Response => new HttpResponse(null, { status: 401 })
  server.use(http.post('https://api.test.example.com/merchant/orders', rejected, { once: true }))
  const answer = { access_token: 'old', expires_in: 3600, token_type: 'Bearer', scope: 'merchant' }
  const revoked = (): Response => HttpResponse.json(answer)
  server.use(http.post('https://auth.test.example.com/oauth/token', revoked, { once: true }))

  assert.equal(await placeOrder(tokens, 1200), 'order-1')
  assert.deepEqual(received, [
    '/oauth/token',
    '/merchant/orders Bearer old',
    '/oauth/token',
    '/merchant/orders Bearer abc',
  ])
})

test('a rejected client fails with what the token endpoint says', async (t) => {
  server.use(
    http.post('https://auth.test.example.com/oauth/token', () =>
      HttpResponse.json({ error: 'invalid_client' }, { status: 401 }),
    ),
  )
  const tokens = createTokenProvider({ environment, clientId: 'my-client', clientSecret: 'wrong-secret' })
  t.after(() => tokens.close())

  await assert.rejects(placeOrder(tokens, 1200), { code: 'ERR_TOKEN_STATUS', error: 'invalid_client' })
  assert.deepEqual(received, ['/oauth/token'])
})

// Most tests need no token endpoint: a provider that has its token from the start.
test('an order is placed, and only the API is called', async () => {
  const tokens = createStaticTokenProvider({ environment, value: 'abc' })

  assert.equal(await placeOrder(tokens, 1200), 'order-1')
  assert.deepEqual(received, ['/merchant/orders Bearer abc'])
})

test('a 401 is an error of the API where no other token can be had', async () => {
  const tokens = createStaticTokenProvider({ environment, value: 'unknown' })

  await assert.rejects(placeOrder(tokens, 1200), { message: 'The order was not placed: 401' })
})
