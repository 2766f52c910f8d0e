/** Jest without flags: it cannot require ES modules, so it gets the CommonJS build. */
const axios = require('axios')
const { createTokenProvider } = require('merchant-auth')
const { attachAuth } = require('merchant-auth/axios')
const { startSandbox } = require('merchant-auth/testing')

let sandbox
beforeAll(async () => {
  sandbox = await startSandbox()
})
afterAll(() => sandbox.close())

test('every entry resolves to the CommonJS build', () => {
  for (const entry of ['', '/axios', '/redis', '/file', '/undici', '/opentelemetry', '/testing'])
    expect(require.resolve(`merchant-auth${entry}`)).toMatch(/\.cjs$/)
})

test('a call after a revocation is repeated with a new token', async () => {
  const { environment, clientId, clientSecret, merchantUrl } = sandbox.test
  const tokens = createTokenProvider({ environment, clientId, clientSecret })
  const api = axios.create({ baseURL: merchantUrl })
  attachAuth(api, tokens)
  await expect(api.get('/orders')).resolves.toMatchObject({ status: 200 })
  sandbox.test.revoke()
  await expect(api.get('/orders')).resolves.toMatchObject({ status: 200 })
  sandbox.test.fail('merchant', { kind: 'hang' })
  await expect(api.get('/orders', { timeout: 50 })).rejects.toBeInstanceOf(axios.AxiosError)
  await tokens.close()
})
