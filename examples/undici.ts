/** An undici dispatcher whose calls carry the token, above undici's retry interceptor, and are repeated after a 401. */
import assert from 'node:assert/strict'
import { startSandbox } from 'merchant-auth/testing'
import { request } from 'undici'

const sandbox = await startSandbox()
const { merchantUrl } = sandbox.test
Object.assign(process.env, sandbox.test.variables)
const { createOrder, dispatcher } = await import('./recipes/parts/undici-client.ts')
const { tokens } = await import('./recipes/parts/tokens.ts')

const first = await request(`${merchantUrl}/orders/1`, { dispatcher })
const { jti: before } = (await first.body.json()) as { jti: string }
console.log(`GET /orders/1 -> ${first.statusCode}, with token ${before}`)
assert.equal(first.statusCode, 200)

sandbox.test.revoke()
const second = await createOrder('{"amount":1200}')
const { jti: after } = (await second.body.json()) as { jti: string }
console.log(`POST /orders  -> ${second.statusCode}, with token ${after}: the first one was revoked`)
assert.equal(second.statusCode, 200)
assert.notEqual(after, before)
const { token: requested, merchant: received, unauthorized } = sandbox.test.counts
assert.deepEqual({ requested, received, unauthorized }, { requested: 2, received: 3, unauthorized: 1 })

sandbox.test.fail('merchant', { kind: 'status', status: 503 })
const third = await request(`${merchantUrl}/orders/2`, { dispatcher })
await third.body.dump()
console.log(`GET /orders/2 -> ${third.statusCode}, after undici's retry interceptor got one 503`)
assert.equal(third.statusCode, 200)
const lastTwo = sandbox.test.requests('merchant').slice(-2)
assert.deepEqual(
  lastTwo.map(({ path, status, jti }) => ({ path, status, jti })),
  [503, 200].map((status) => ({ path: '/merchant/orders/2', status, jti: after })),
)

await dispatcher.close()
await tokens.close()
await sandbox.close()
