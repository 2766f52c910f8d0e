/** axios-retry beside attachAuth, in both orders: it retries what fails for a moment, and never sees a stale token. */
import assert from 'node:assert/strict'
import axios, { type AxiosInstance, isAxiosError } from 'axios'
import axiosRetry from 'axios-retry'
import { createTokenProvider, type TokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { type SandboxEnvironment, startSandbox } from 'merchant-auth/testing'

const sandbox = await startSandbox()

try {
  Object.assign(process.env, sandbox.test.variables)
  const { api } = await import('./parts/axios-retry-client.ts')
  const { tokens } = await import('./parts/tokens.ts')
  console.log('attachAuth, then axiosRetry:')
  await check(sandbox.test, api, tokens)

  const otherTokens = createTokenProvider(sandbox.production.options)
  const other = axios.create({ baseURL: sandbox.production.merchantUrl })
  axiosRetry(other, { retries: 2, retryDelay: () => 10 })
  attachAuth(other, otherTokens)
  console.log('axiosRetry, then attachAuth:')
  await check(sandbox.production, other, otherTokens)
} finally {
  await sandbox.close()
}

async function check(service: SandboxEnvironment, api: AxiosInstance, tokens: TokenProvider): Promise<void> {
  // The token is revoked between a 503 and its retry: the retry is rejected, renewed and sent once more.
  const { jti: before } = (await api.get('/orders/1')).data
  service.clearRequests()
  service.fail('merchant', { kind: 'status', status: 503 })
  const { data, config } = await api.get('/orders/2', {
    'axios-retry': { onRetry: () => void service.revoke() },
  })
  assert.deepEqual(sends(service), [`503 ${before}`, `401 ${before}`, `200 ${data.jti}`])
  assert.notEqual(data.jti, before)
  assert.equal(config['axios-retry']?.retryCount, 1, 'the 401 is no retry of axios-retry')
  console.log('  a 503, a revocation, a 401: the caller sees a 200, and axios-retry counts one retry')

  // Each retry takes the token that is current by then.
  service.clearRequests()
  service.fail('merchant', { kind: 'status', status: 503 })
  const renewed = await api.get('/orders/3', {
    'axios-retry': { onRetry: async () => void (await tokens.renewToken(await tokens.getToken())) },
  })
  assert.deepEqual(sends(service), [`503 ${data.jti}`, `200 ${renewed.data.jti}`])
  assert.notEqual(renewed.data.jti, data.jti)
  console.log('  a 503, a renewal: the retry has the new token')

  // A POST is not axios-retry's to send again. After a 401 attachAuth does: the API has not taken it. (An API that has accepted
  // no call with the current token gets the one before it first.)
  await api.get(`${service.inStoreUrl}/sales`)
  service.revoke()
  service.clearRequests()
  const posted = await api.post(`${service.inStoreUrl}/sales`, { amount: 1200 })
  assert.deepEqual(
    service.requests('in-store').map(({ status, body }) => `${status} ${body}`),
    ['401 {"amount":1200}', '200 {"amount":1200}'],
  )
  assert.equal(posted.config['axios-retry']?.retryCount, 0)
  console.log('  a POST with a revoked token: sent once more with the same body')

  // What fails for good ends as axios-retry has it: three sends, and the last error.
  service.clearRequests()
  service.fail('merchant', { kind: 'status', status: 503 }, { times: 3 })
  const error: unknown = await api.get('/orders/4').catch((reason: unknown) => reason)
  assert.ok(isAxiosError(error) && error.response?.status === 503)
  assert.equal(sends(service).length, 3)
  console.log('  503 for good: three sends, and the caller gets it')
  await tokens.close()
}

/** Each send that arrived: the answer's status, and the token that it carried. */
function sends(service: SandboxEnvironment): string[] {
  return service.requests('merchant').map(({ status, jti }) => `${status} ${jti}`)
}
