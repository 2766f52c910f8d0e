/** A program that is bundled with all of its imports. */
import assert from 'node:assert/strict'
import axios, { AxiosError } from 'axios'
import { createTokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { startSandbox } from 'merchant-auth/testing'

async function main() {
  const sandbox = await startSandbox()
  const { environment, clientId, clientSecret, merchantUrl } = sandbox.test
  const tokens = createTokenProvider({ environment, clientId, clientSecret })
  const api = axios.create({ baseURL: merchantUrl })
  attachAuth(api, tokens)
  assert.equal((await api.get('/orders')).status, 200)
  sandbox.test.revoke()
  assert.equal((await api.get('/orders')).status, 200)
  sandbox.test.fail('merchant', { kind: 'hang' })
  await assert.rejects(api.get('/orders', { timeout: 50 }), (error) => error instanceof AxiosError)
  await tokens.close()
  await sandbox.close()
  console.log('done')
}

main()
