/** An undici dispatcher whose calls carry the token, below undici's own interceptors, and are made again after a 401. */
import assert from 'node:assert/strict'
import { createTokenProvider } from 'merchant-auth'
import { startSandbox } from 'merchant-auth/testing'
import { createAuthDispatch } from 'merchant-auth/undici'
import { Agent, interceptors } from 'undici'

const sandbox = await startSandbox()
const { environment, clientId, clientSecret, merchantUrl } = sandbox.test

const tokens = createTokenProvider({ environment, clientId, clientSecret })
const agent = new Agent().compose(createAuthDispatch(tokens), interceptors.retry({ minTimeout: 10 }))
const { origin, pathname } = new URL(merchantUrl)

const first = await agent.request({ origin, path: `${pathname}/orders/1`, method: 'GET' })
const { jti: before } = (await first.body.json()) as { jti: string }
console.log(`GET /orders/1 -> ${first.statusCode}, with token ${before}`)
assert.equal(first.statusCode, 200)

sandbox.test.revoke()
const body = JSON.stringify({ amount: 1200 })
const second = await agent.request({ origin, path: `${pathname}/orders`, method: 'POST', body })
const { jti: after } = (await second.body.json()) as { jti: string }
console.log(`POST /orders  -> ${second.statusCode}, with token ${after}: the first one was revoked`)
assert.equal(second.statusCode, 200)
assert.notEqual(after, before)
const { token: asked, merchant: received, unauthorized } = sandbox.test.counts
assert.deepEqual({ asked, received, unauthorized }, { asked: 2, received: 3, unauthorized: 1 })

sandbox.test.fail('merchant', { kind: 'status', status: 503 })
const third = await agent.request({ origin, path: `${pathname}/orders/2`, method: 'GET' })
await third.body.dump()
console.log(`GET /orders/2 -> ${third.statusCode}, after one 503 that undici's retry interceptor met`)
assert.equal(third.statusCode, 200)
const lastTwo = sandbox.test.requests('merchant').slice(-2)
assert.deepEqual(
  lastTwo.map(({ path, status, jti }) => ({ path, status, jti })),
  [503, 200].map((status) => ({ path: `${pathname}/orders/2`, status, jti: after })),
)

await agent.close()
await tokens.close()
await sandbox.close()
