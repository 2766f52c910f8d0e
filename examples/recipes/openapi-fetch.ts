/** A typed client by openapi-fetch, on a fetch that carries the token and renews it after a 401. */
import assert from 'node:assert/strict'
import { startSandbox } from 'merchant-auth/testing'

const sandbox = await startSandbox()
Object.assign(process.env, sandbox.test.variables)
const { api } = await import('./parts/openapi-client.ts')
const { tokens } = await import('./parts/tokens.ts')

try {
  const first = await api.GET('/orders/{id}', { params: { path: { id: '1' } } })
  assert.equal(first.data?.path, '/merchant/orders/1')
  console.log(`GET ${first.data.path}: the API saw token ${first.data.jti}`)

  sandbox.test.revoke()
  sandbox.test.clearRequests()
  const second = await api.POST('/orders', { body: { amount: 1200, currency: 'EUR' } })
  assert.deepEqual(
    sandbox.test.requests('merchant').map(({ method, status, body }) => [method, status, String(body)]),
    [
      ['POST', 401, '{"amount":1200,"currency":"EUR"}'],
      ['POST', 200, '{"amount":1200,"currency":"EUR"}'],
    ],
  )
  assert.notEqual(second.data?.jti, first.data.jti)
  console.log(`POST /orders after a revocation: the same body again, with token ${second.data?.jti}`)

  // Where the second answer is a 401, too, it is a result like any other: typed, in `error`.
  sandbox.test.configure({ rejectAllTokens: true })
  const rejected = await api.GET('/orders/{id}', { params: { path: { id: '2' } } })
  assert.equal(rejected.response.status, 401)
  assert.equal(rejected.error?.error, 'invalid_token')
  console.log(`GET /orders/2, rejected for good: ${rejected.response.status}, ${rejected.error.error}`)
} finally {
  await tokens.close()
  await sandbox.close()
}
