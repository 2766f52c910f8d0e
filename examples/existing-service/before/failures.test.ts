import nock from 'nock'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { failureOf } from './failures.ts'
import { findOrder } from './orders.ts'

beforeAll(() => nock.disableNetConnect())
afterAll(() => nock.restore())

test('a token endpoint that rejects the client is a 50x for the callers of the service', async () => {
  nock('https://auth.test.example.com').post('/oauth/token').reply(400, { error: 'invalid_request' })
  const failure = await findOrder('order-1').then(() => undefined, failureOf)
  expect(failure?.status).toBe(502)
})
