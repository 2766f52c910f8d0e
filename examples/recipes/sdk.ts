/** An SDK that takes a token once: the fetch below it replaces its header, so that a revoked token is renewed. */
import assert from 'node:assert/strict'
import { startSandbox } from 'merchant-auth/testing'

/** As SDKs do it. */
function createSdk(token: string, send: typeof fetch) {
  return {
    orders: (url: string) =>
      send(url, { headers: { Authorization: `Bearer ${token}`, 'x-api-key': 'key-1' } }),
  }
}

const sandbox = await startSandbox()
Object.assign(process.env, sandbox.test.variables)
const { sdkFetch } = await import('./parts/sdk-fetch.ts')
const { tokens } = await import('./parts/tokens.ts')

try {
  const sdk = createSdk('any text', sdkFetch)
  for (const what of ['with the first token', 'with a new one, after a revocation']) {
    const response = await sdk.orders(`${sandbox.test.merchantUrl}/orders`)
    const seen = (await response.json()) as { headers: Record<string, string> }
    assert.deepEqual([response.status, seen.headers['x-api-key']], [200, 'key-1'])
    console.log(`GET /orders: accepted ${what}`)
    sandbox.test.revoke()
  }
} finally {
  await tokens.close()
  await sandbox.close()
}
