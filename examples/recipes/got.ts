/** got, which has its own HTTP stack, with `withToken`: its calls get the token, and a 401 renews it. */
import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import got, { HTTPError } from 'got'
import { createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { type SandboxTarget, startSandbox } from 'merchant-auth/testing'
import { withToken } from './parts/with-token.ts'

const sandbox = await startSandbox()
const { environment, inStoreUrl } = sandbox.test
Object.assign(process.env, sandbox.test.variables)
const { tokens } = await import('./parts/tokens.ts')
const { api: client } = await import('./parts/got-client.ts')
const api = client.extend({
  retry: { calculateDelay: ({ computedValue }) => Math.min(computedValue, 10) }, // without it, the first is after 1 s
})

interface Echo {
  readonly jti: string
  readonly body: string
}

try {
  const first = await api.get('orders/1').json<Echo>()
  console.log(`GET /orders/1: the API saw token ${first.jti}`)

  sandbox.test.revoke()
  sandbox.test.clearRequests()
  const second = await api.post('orders', { json: { amount: 1200 } }).json<Echo>()
  assert.deepEqual(sends(), ['401 {"amount":1200}', '200 {"amount":1200}'])
  assert.notEqual(second.jti, first.jti)
  console.log(`POST /orders after a revocation: the same body again, with token ${second.jti}`)

  sandbox.test.fail('merchant', { kind: 'status', status: 503 })
  sandbox.test.clearRequests()
  await api.get('orders/2')
  assert.deepEqual(sends(), ['503 ', '200 '])
  console.log('GET /orders/2: a 503, and got tried again')

  // A redirect to another origin, and one on the same origin that leads out of the APIs, go without the token.
  for (const location of [`${sandbox.production.merchantUrl}/orders`, `${environment.authUrl}/elsewhere`]) {
    sandbox.test.fail('merchant', { kind: 'redirect', location })
    await api.get('orders/3', { throwHttpErrors: false })
  }
  const arrived = [sandbox.production.requests().at(-1), sandbox.test.requests().at(-1)]
  assert.deepEqual(
    arrived.map((request) => [request?.path, request?.headers['authorization']]),
    [
      ['/merchant/orders', undefined],
      ['/elsewhere', undefined],
    ],
  )
  console.log('Redirects out of the APIs went without the token')

  sandbox.test.clearRequests()
  await api.get('orders/4', { headers: { authorization: 'Bearer mine' }, throwHttpErrors: false })
  assert.deepEqual(sends(), ['401 '])
  console.log('A header that the caller set stays unchanged, and its 401 renews nothing')

  sandbox.test.configure({ rejectAllTokens: ['in-store'] })
  const rejected = api.get('sales/1', { prefixUrl: inStoreUrl })
  const error: unknown = await rejected.catch((reason: unknown) => reason)
  assert.ok(error instanceof HTTPError)
  assert.deepEqual(sends('in-store'), ['401 ', '401 '])
  const { value } = await tokens.getToken()
  assert.equal(inspect(error, { depth: 10 }).includes(value), false)
  assert.equal(JSON.stringify(error.options).includes(value), false)
  console.log(`GET /sales/1, rejected for good: two sends, and a ${error.name} that does not show the token`)

  await using uploading = createTokenProvider(optionsFromEnv())
  const uploads = got.extend(withToken(uploading), { prefixUrl: environment.apiUrls.merchant })
  const upload = async (): Promise<number | undefined> => {
    const form = new FormData()
    form.set('name', 'invoice')
    await uploads.post('invoices', { body: form, throwHttpErrors: false })
    return sandbox.test.requests('merchant').at(-1)?.status
  }
  assert.equal(await upload(), 200)
  sandbox.test.revoke()
  assert.deepEqual([await upload(), await upload()], [401, 200])
  console.log(
    'FormData, a stream in got, after a revocation: sent once, and the next upload has the new token',
  )
} finally {
  await tokens.close()
  await sandbox.close()
}

/** What an API received: the answer's status, and the body that came with the request. */
function sends(target: SandboxTarget = 'merchant'): string[] {
  return sandbox.test.requests(target).map(({ status, body }) => `${status} ${body}`)
}
