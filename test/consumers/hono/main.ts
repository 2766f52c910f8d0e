/** A Hono application, whose handlers call the API with the token. */
import assert from 'node:assert/strict'
import { startSandbox } from 'merchant-auth/testing'
import { app } from './app.js'

const sandbox = await startSandbox()
const { environment, clientId, clientSecret, merchantUrl } = sandbox.test
Object.assign(process.env, {
  MERCHANT_AUTH_URL: environment.authUrl,
  MERCHANT_AUTH_AUDIENCE: environment.audience,
  MERCHANT_AUTH_API_URLS: `merchant=${merchantUrl}`,
  MERCHANT_AUTH_CLIENT_ID: clientId,
  MERCHANT_AUTH_CLIENT_SECRET: clientSecret,
})
async function orderPath(): Promise<[number, unknown]> {
  const response = await app.request('/orders/1')
  return [response.status, ((await response.json()) as { path?: unknown }).path]
}

assert.deepEqual(await orderPath(), [200, '/merchant/orders/1'])
sandbox.test.revoke()
assert.deepEqual(await orderPath(), [200, '/merchant/orders/1'])
assert.deepEqual([sandbox.test.counts.token, sandbox.test.counts.merchant], [2, 3])

sandbox.test.fail('merchant', { kind: 'status', status: 404 })
assert.equal((await app.request('/orders/2')).status, 502)
await sandbox.close()
console.log('done')
