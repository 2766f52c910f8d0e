// What attachAuth must do with any version of axios: run by scripts/test-axios-range.ts where the package is installed.
import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { text } from 'node:stream/consumers'
import { inspect } from 'node:util'
import axios from 'axios'
import { createTokenProvider } from 'merchant-auth'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { startSandbox } from 'merchant-auth/testing'

const sandbox = await startSandbox()
const { merchantUrl: baseURL, options } = sandbox.test

const MARK = 'an agent of the caller'
/** How many calls these agents got. */
let counted = 0
/** A config with an agent, for each adapter. */
const withAgent = {
  http: () => {
    const addRequest = (...request) => {
      counted += 1
      Agent.prototype.addRequest.apply(httpAgent, request)
    }
    const httpAgent = Object.assign(new Agent(), { addRequest, MARK })
    return { httpAgent }
  },
  fetch: () => {
    const dispatch = (...request) => {
      counted += 1
      return globalThis[Symbol.for('undici.globalDispatcher.1')].dispatch(...request)
    }
    return { fetchOptions: { dispatcher: { dispatch, MARK } } }
  },
}

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

    counted = 0
    sandbox.test.fail('merchant', { kind: 'status', status: 503 })
    const failed = await api.get('/orders', withAgent[adapter]()).catch((error) => error)
    assert(!inspect({ ...failed.config }, { depth: 20 }).includes(MARK), adapter)
    const again = await api.request(failed.config)
    await axios.request({ ...again.config, validateStatus: null })
    assert.equal(counted, 3, adapter)

    const plain = axios.create({ baseURL, adapter })
    plain.interceptors.request.use(createAuthInterceptor(tokens))
    assert.equal((await plain.get('/orders')).status, 200, adapter)
    await tokens.close()
  }
} finally {
  await sandbox.close()
}
