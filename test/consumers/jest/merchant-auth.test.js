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

test('the token in a store is encrypted with the bundled jose', async () => {
  const { environment, clientId, clientSecret } = sandbox.test
  const entries = new Map()
  const store = {
    get: async (key) => (entries.has(key) ? { value: entries.get(key), ttlMs: 60_000 } : undefined),
    set: async (key, value) => void entries.set(key, value),
  }
  const values = []
  for (let time = 0; time < 2; time += 1) {
    const tokens = createTokenProvider({ environment, clientId, clientSecret, store })
    values.push((await tokens.getToken()).value)
    await tokens.close()
  }
  expect(values[0]).toBe(values[1])
  expect([...entries.values()].join()).not.toContain(values[0])
})
