/** Tests of your own code with nock, for the token endpoint and the API: `node examples/recipes/nock.ts` runs them. */
import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import axios from 'axios'
import { createTokenProvider, type TokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { createStaticTokenProvider } from 'merchant-auth/testing'
import nock from 'nock'
import { environments } from './parts/environments.ts'
import { mockOrder, mockToken } from './parts/nock-mocks.ts'

const { test: environment } = environments

/** The code under test. */
async function placeOrder(tokens: TokenProvider, amount: number): Promise<string> {
  const api = axios.create({ baseURL: environment.apiUrls.merchant })
  attachAuth(api, tokens)
  const { data } = await api.post<{ id: string }>('/orders', { amount })
  return data.id
}

before(() => {
  nock.disableNetConnect() // a call that no mock answers fails, and does not leave this machine
})

afterEach(() => {
  const left = nock.pendingMocks()
  nock.cleanAll()
  assert.deepEqual(left, [], 'a mocked call was not made')
})

after(() => {
  nock.restore()
})

test('an order is placed with the token of the token endpoint', async (t) => {
  mockToken('first')
  mockOrder('first').reply(201, { id: 'order-1' })
  const tokens = createTokenProvider({ environment, clientId: 'my-client', clientSecret: 'made-up-secret' })
  t.after(() => tokens.close())

  assert.equal(await placeOrder(tokens, 1200), 'order-1')
})

test('an order is placed once more, with another token, when the API answers 401', async (t) => {
  mockToken('first')
  mockToken('second')
  mockOrder('first').reply(401)
  mockOrder('second').reply(201, { id: 'order-2' })
  const tokens = createTokenProvider({ environment, clientId: 'my-client', clientSecret: 'made-up-secret' })
  t.after(() => tokens.close())

  assert.equal(await placeOrder(tokens, 1200), 'order-2')
})

test('a rejected client fails with what the token endpoint says', async (t) => {
  nock('https://auth.test.example.com').post('/oauth/token').reply(401, { error: 'invalid_client' })
  const tokens = createTokenProvider({ environment, clientId: 'my-client', clientSecret: 'wrong-secret' })
  t.after(() => tokens.close())

  await assert.rejects(placeOrder(tokens, 1200), { code: 'ERR_TOKEN_STATUS', error: 'invalid_client' })
})

// Most tests need no token endpoint: a provider that has its token from the start.
test('an order is placed', async () => {
  const tokens = createStaticTokenProvider({ environment, value: 'static' })
  mockOrder('static').reply(201, { id: 'order-3' })

  assert.equal(await placeOrder(tokens, 1200), 'order-3')
})

test('a 401 is an error of the API where no other token can be had', async () => {
  const tokens = createStaticTokenProvider({ environment, value: 'static' })
  mockOrder('static').reply(401)

  await assert.rejects(placeOrder(tokens, 1200), { status: 401 })
})
