/** A TypeScript program with `module: commonjs`, which implies `moduleResolution: node10`. */
import assert from 'node:assert/strict'
import axios, { AxiosError } from 'axios'
import { type AuthEvent, createAuthFetch, createTokenProvider, isMerchantAuthError } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { createRedisTokenStore } from 'merchant-auth/redis'
import { type Sandbox, startSandbox } from 'merchant-auth/testing'
import { createAuthDispatch } from 'merchant-auth/undici'

export async function callsBoth(sandbox: Sandbox): Promise<AuthEvent['type'][]> {
  const { environment, clientId, clientSecret, merchantUrl, inStoreUrl } = sandbox.test
  const types: AuthEvent['type'][] = []
  const onEvent = ({ type }: AuthEvent) => types.push(type)
  const tokens = createTokenProvider({ environment, clientId, clientSecret, onEvent })
  const api = axios.create({ baseURL: merchantUrl })
  attachAuth(api, tokens)
  assert.equal((await api.get('/orders')).status, 200)
  sandbox.test.revoke()
  assert.equal((await createAuthFetch(tokens)(`${inStoreUrl}/orders`)).status, 200)
  sandbox.test.fail('merchant', { kind: 'status', status: 404 })
  await assert.rejects(api.get('/orders'), (error) => error instanceof AxiosError && error.status === 404)
  await tokens.close()
  await assert.rejects(tokens.getToken(), (error) => isMerchantAuthError(error))
  assert.equal(typeof createRedisTokenStore, typeof createAuthDispatch)
  return types
}

async function main(): Promise<void> {
  const sandbox = await startSandbox()
  const types = await callsBoth(sandbox)
  assert.deepEqual(
    types.filter((type) => type !== 'token-requested'),
    ['token-acquired', 'token-rejected', 'token-acquired', 'token-renewed'],
  )
  await sandbox.close()
  console.log('done')
}

if (require.main === module) main()
