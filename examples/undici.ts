/** An undici dispatcher whose calls carry the token, below undici's own interceptors, and are made again after a 401. */
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

sandbox.test.revoke()
const body = JSON.stringify({ amount: 1200 })
const second = await agent.request({ origin, path: `${pathname}/orders`, method: 'POST', body })
const { jti: after } = (await second.body.json()) as { jti: string }
console.log(`POST /orders  -> ${second.statusCode}, with token ${after}: the first one was revoked`)

sandbox.test.fail('merchant', { kind: 'status', status: 503 })
const third = await agent.request({ origin, path: `${pathname}/orders/2`, method: 'GET' })
await third.body.dump()
console.log(`GET /orders/2 -> ${third.statusCode}, after one 503 that undici's retry interceptor met`)

await agent.close()
await tokens.close()
await sandbox.close()
