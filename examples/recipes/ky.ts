/** ky on a fetch that carries the token: ky retries a 503, the fetch below it renews the token after a 401. */
import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import { isHTTPError } from 'ky'
import { type SandboxTarget, startSandbox } from 'merchant-auth/testing'

const sandbox = await startSandbox()
const { inStoreUrl } = sandbox.test
Object.assign(process.env, sandbox.test.variables)
const { api } = await import('./parts/ky-client.ts')
const { tokens } = await import('./parts/tokens.ts')

try {
  const first = await api.get('orders/1').json<{ jti: string }>()
  console.log(`GET /orders/1: the API saw token ${first.jti}`)

  // A POST, which ky by itself never sends twice.
  sandbox.test.revoke()
  sandbox.test.clearRequests()
  const second = await api.post('orders', { json: { amount: 1200 } }).json<{ jti: string; body: string }>()
  const posts = sandbox.test.requests('merchant')
  assert.deepEqual(
    posts.map(({ status, body }) => [status, body?.toString()]),
    [
      [401, '{"amount":1200}'],
      [200, '{"amount":1200}'],
    ],
  )
  assert.notEqual(second.jti, first.jti)
  console.log(`POST /orders after a revocation: the same body again, with token ${second.jti}`)

  sandbox.test.fail('merchant', { kind: 'status', status: 503 })
  sandbox.test.clearRequests()
  await api.get('orders/2')
  assert.deepEqual(statuses('merchant'), [503, 200])
  console.log('GET /orders/2: a 503, and ky tried again')

  // An API that rejects every token: the token before, one renewal, and no retry of ky's on top.
  sandbox.test.configure({ rejectAllTokens: ['in-store'] })
  const rejected = api.get('sales/1', { prefix: inStoreUrl })
  const error: unknown = await rejected.catch((reason: unknown) => reason)
  assert(isHTTPError(error))
  assert.deepEqual(statuses('in-store'), [401, 401, 401])
  console.log(`GET /sales/1, rejected for good: three sends, and the caller gets a ${error.response.status}`)

  // The token is attached below ky: ky's own Request, which its errors show, never has it.
  const { value } = await tokens.getToken()
  assert.equal(error.request.headers.has('authorization'), false)
  assert.equal(inspect(error, { depth: 10, showHidden: true }).includes(value), false)
  console.log("ky's error does not show the token")
} finally {
  await tokens.close()
  await sandbox.close()
}

function statuses(target: SandboxTarget): (number | undefined)[] {
  return sandbox.test.requests(target).map(({ status }) => status)
}
