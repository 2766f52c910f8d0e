/** Programs of users, in ESM and in CommonJS: what they import, and what they do with it. */

export const IMPORTS = {
  esm: `
    import { createAuthFetch, createTokenProvider } from 'merchant-auth'
    import { startSandbox } from 'merchant-auth/testing'
  `,
  commonjs: `
    const { createAuthFetch, createTokenProvider } = require('merchant-auth')
    const { startSandbox } = require('merchant-auth/testing')
  `,
}

export const FETCH_CALL = `
  async function main() {
    const sandbox = await startSandbox()
    const { environment, clientId, clientSecret, merchantUrl } = sandbox.test
    const tokens = createTokenProvider({ environment, clientId, clientSecret })
    const response = await createAuthFetch(tokens)(merchantUrl + '/orders')
    const { path, jti } = await response.json()
    console.log(response.status, path, typeof jti, sandbox.test.counts.token)
    await tokens.close()
    await sandbox.close()
  }
  main()
`

export const REDIS_IMPORT = {
  esm: "import { createRedisTokenStore } from 'merchant-auth/redis'",
  commonjs: "const { createRedisTokenStore } = require('merchant-auth/redis')",
}

/** Two processes share a token by a client that is no more than the shape of one. */
export const REDIS_CALL = `
  const entries = new Map()
  const client = {
    isOpen: true,
    sendCommand() {},
    async eval(script, { keys: [key], arguments: args }) {
      if (script.includes("'NX'")) return 1 // the lease
      const value = args.find((arg) => arg.startsWith('ey'))
      if (value !== undefined) entries.set(key, value)
      return [entries.get(key) ?? null, 60_000]
    },
  }
  async function main() {
    const sandbox = await startSandbox()
    const { environment, clientId, clientSecret } = sandbox.test
    const values = []
    for (let time = 0; time < 2; time += 1) {
      const store = createRedisTokenStore(client)
      const tokens = createTokenProvider({ environment, clientId, clientSecret, store })
      values.push((await tokens.getToken()).value)
      await tokens.close()
    }
    const [key] = entries.keys()
    console.log(values[0] === values[1], sandbox.test.counts.token, key.startsWith('merchant-auth:{v1.token.'))
    await sandbox.close()
  }
  main()
`

/**
 * What is loaded by a token request without a store, and then by one with it: whether the package itself, the library that
 * encrypts, node:crypto and any client were; and whether a store loads more of the package than there was before.
 */
const LOADED = (load: string) => `
  const loaded = []
  registerHooks({
    load(url, context, next) {
      loaded.push(url)
      return next(url, context)
    },
  })
  const own = () => loaded.filter((url) => url.includes('/merchant-auth/dist/')).length
  const ofStores = () => [
    loaded.some((url) => url.includes('/node_modules/jose/')),
    loaded.includes('node:crypto'),
    loaded.some((url) => /\\/node_modules\\/(?:@?redis|ioredis|axios|undici)\\//.test(url)),
  ]
  async function main() {
    const { createTokenProvider } = ${load}
    const environment = { authUrl: 'https://a.example', audience: 'b', apiUrls: ['https://c.example'] }
    const answer = { access_token: 'a.b.c', expires_in: 60, token_type: 'Bearer' }
    const options = { environment, clientId: 'id', clientSecret: 'swordfish', fetch: async () => Response.json(answer) }
    const alone = createTokenProvider(options)
    await alone.renewToken(await alone.getToken())
    const before = own()
    console.log(before > 0, ...ofStores())
    const store = { get: async () => undefined, set: async () => {}, delete: async () => {} }
    const shared = createTokenProvider({ ...options, store })
    await shared.getToken()
    await shared.close()
    console.log(own() > before, ...ofStores())
  }
  main()
`
export const LOADED_BY = {
  esm: `import { registerHooks } from 'node:module'\n${LOADED("await import('merchant-auth')")}`,
  commonjs: `const { registerHooks } = require('node:module')\n${LOADED("require('merchant-auth')")}`,
}

export const AXIOS_IMPORTS = {
  esm: `
    import axios, { AxiosError } from 'axios'
    import { attachAuth } from 'merchant-auth/axios'
  `,
  commonjs: `
    const axios = require('axios')
    const { AxiosError } = axios
    const { attachAuth } = require('merchant-auth/axios')
  `,
}

export const AXIOS_CALLS = `
  async function main() {
    const sandbox = await startSandbox()
    const { environment, clientId, clientSecret, merchantUrl } = sandbox.test
    const tokens = createTokenProvider({ environment, clientId, clientSecret })
    const api = axios.create({ baseURL: merchantUrl })
    attachAuth(api, tokens)
    console.log((await api.get('/orders')).status)
    sandbox.test.fail('merchant', { kind: 'status', status: 500 })
    const failed = await api.get('/orders').catch((error) => error)
    console.log(failed instanceof AxiosError, failed.response.status)
    sandbox.test.fail('merchant', { kind: 'hang' })
    const late = await api.get('/orders', { timeout: 50 }).catch((error) => error)
    console.log(late instanceof AxiosError, late.code)
    sandbox.test.configure({ tokenLatencyMs: 60_000, rejectAllTokens: true })
    const waiting = await api.get('/orders', { timeout: 200 }).catch((error) => error)
    console.log(waiting instanceof AxiosError, waiting.code)
    await tokens.close()
    await sandbox.close()
  }
  main()
`
