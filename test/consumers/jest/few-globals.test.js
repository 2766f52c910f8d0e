/**
 * Where web streams and text coders are not global, as in Jest's jsdom environment.
 *
 * @jest-environment ./few-globals.js
 */
const axios = require('axios')
const { createAuthFetch, createTokenProvider } = require('merchant-auth')
const { attachAuth } = require('merchant-auth/axios')
const { startSandbox } = require('merchant-auth/testing')

test.each(['fetch', 'axios'])('%s renews a rejected token', async (client) => {
  expect(typeof ReadableStream).toBe('undefined')
  const sandbox = await startSandbox()
  const { merchantUrl, options } = sandbox.test
  const tokens = createTokenProvider(options)
  const api = axios.create()
  attachAuth(api, tokens)
  const call =
    client === 'fetch' ? createAuthFetch(tokens) : (url) => api.get(url, { responseType: 'stream' })
  sandbox.test.fail('merchant', { kind: 'status', status: 401 })
  await expect(call(merchantUrl)).resolves.toMatchObject({ status: 200 })
  await tokens.close()
  await sandbox.close()
})
