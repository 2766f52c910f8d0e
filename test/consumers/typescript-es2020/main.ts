/** A service whose `lib` is ES2020, as some years ago, and which checks the declarations that it imports. */
import assert from 'node:assert/strict'
import axios from 'axios'
import {
  type ConfigurationError,
  createTokenProvider,
  isMerchantAuthError,
  optionsFromEnv,
} from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import * as file from 'merchant-auth/file'
import * as redis from 'merchant-auth/redis'
import { startSandbox } from 'merchant-auth/testing'
import * as undici from 'merchant-auth/undici'

/** The variables that are missing. */
function missingVariables(): string[] {
  try {
    optionsFromEnv({})
    return []
  } catch (error) {
    if (!isMerchantAuthError(error) || error.code !== 'ERR_CONFIGURATION') throw error
    const { problems } = error as ConfigurationError
    return problems.filter(({ kind }) => kind === 'missing').map(({ option }) => option)
  }
}

async function main(): Promise<void> {
  assert.ok(missingVariables().includes('MERCHANT_AUTH_CLIENT_ID'))
  for (const entry of [file, redis, undici]) assert.ok(Object.keys(entry).length > 0)
  const sandbox = await startSandbox()
  const { environment, clientId, clientSecret, merchantUrl } = sandbox.test
  const tokens = createTokenProvider({ environment, clientId, clientSecret })
  const api = axios.create({ baseURL: merchantUrl })
  attachAuth(api, tokens)
  assert.equal((await api.get('/orders')).status, 200)
  await tokens.close()
  await sandbox.close()
}

main()
