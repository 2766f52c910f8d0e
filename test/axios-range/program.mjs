// What attachAuth must do with any version of axios: run by scripts/test-axios-range.ts where the package is installed.
import assert from 'node:assert/strict'
import { text } from 'node:stream/consumers'
import { inspect } from 'node:util'
import axios from 'axios'
import { createTokenProvider } from 'merchant-auth'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { startSandbox } from 'merchant-auth/testing'

const sandbox = await startSandbox()
const { merchantUrl: baseURL, options } = sandbox.test
const statuses = () => sandbox.test.requests('merchant').map(({ status, body }) => [status, body?.toString()])

try {
  for (const adapter of ['http', 'fetch']) {
    sandbox.test.clearRequests()
    sandbox.test.configure({ rejectAllTokens: false })
    const tokens = createTokenProvider(options)
    const api = axios.create({ baseURL, adapter })
    attachAuth(api, tokens)

    assert.equal((await api.get('/orders')).status, 200, adapter)
    sandbox.test.revoke()
    assert.equal((await api.post('/orders', { amount: 1200 })).status, 200, adapter)
    assert.deepEqual(
      statuses().slice(1),
      [401, 200].map((status) => [status, '{"amount":1200}']),
    )

    sandbox.test.revoke()
    const { data } = await api.get('/orders', { responseType: 'stream' })
    assert.equal(JSON.parse(await text(data)).path, '/merchant/orders', adapter)

    const canceled = await api.get('/orders', { signal: AbortSignal.abort() }).catch((error) => error)
    assert(axios.isCancel(canceled), adapter)

    sandbox.test.configure({ rejectAllTokens: true })
    const rejected = await api.get('/orders').catch((error) => error)
    assert(axios.isAxiosError(rejected), adapter)
    assert.equal((rejected.response ?? rejected.cause.response).status, 401, adapter)
    const { value } = await tokens.getToken()
    assert(!inspect(rejected, { depth: 20 }).includes(value), adapter)
    sandbox.test.configure({ rejectAllTokens: false })

    const plain = axios.create({ baseURL, adapter })
    plain.interceptors.request.use(createAuthInterceptor(tokens))
    assert.equal((await plain.get('/orders')).status, 200, adapter)
    await tokens.close()
  }
} finally {
  await sandbox.close()
}
