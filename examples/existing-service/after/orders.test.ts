import { createStaticTokenProvider } from 'merchant-auth/testing'
import nock from 'nock'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { findOrder, placeOrder } from './orders.ts'

vi.mock(import('./tokens.ts'), async (importOriginal) => {
  const { environment } = (await importOriginal()).tokens
  return { tokens: createStaticTokenProvider({ environment, value: 'test-token' }) }
})

const api = nock('https://api.test.example.com/merchant', {
  reqheaders: { authorization: 'Bearer test-token', 'x-request-id': /^[\w-]{36}$/ },
})

beforeAll(() => nock.disableNetConnect())
afterEach(() => {
  expect(nock.pendingMocks()).toEqual([])
  nock.cleanAll()
})
afterAll(() => nock.restore())

test('an order is placed', async () => {
  api.post('/orders', { amount: 1200 }).reply(201, { id: 'order-1', amount: 1200 })
  expect(await placeOrder(1200)).toEqual({ id: 'order-1', amount: 1200 })
})

test('a call is repeated when the API is down for a moment, and each failure is logged', async () => {
  const warn = vi.spyOn(console, 'warn').mockReturnValue()
  api.get('/orders/order-1').reply(503)
  api.get('/orders/order-1').reply(200, { id: 'order-1', amount: 1200 })
  expect(await findOrder('order-1')).toMatchObject({ id: 'order-1' })
  expect(warn.mock.calls).toEqual([['GET /orders/order-1: 503']])
})
