/** An axios instance whose calls carry the token, are made again after a 401, and show no secret when they fail. */
import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import axios from 'axios'
import { createTokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { startSandbox } from 'merchant-auth/testing'

const sandbox = await startSandbox()
const { environment, clientId, clientSecret, merchantUrl } = sandbox.test

const tokens = createTokenProvider({ environment, clientId, clientSecret })
const api = axios.create({ baseURL: merchantUrl })
attachAuth(api, tokens)

const first = await api.get('/orders/1')
console.log(`GET /orders/1 -> ${first.status}, with token ${first.data.jti}`)
assert.equal(first.status, 200)

sandbox.test.revoke()
const second = await api.post('/orders', { amount: 1200 })
console.log(`POST /orders  -> ${second.status}, with token ${second.data.jti}: the first one was revoked`)
assert.equal(second.status, 200)
assert.notEqual(second.data.jti, first.data.jti)
console.log(`The API answered ${sandbox.test.counts.unauthorized} call with 401; its caller saw none.`)
const { token: asked, merchant: received, unauthorized } = sandbox.test.counts
assert.deepEqual({ asked, received, unauthorized }, { asked: 2, received: 3, unauthorized: 1 })

sandbox.test.fail('merchant', { kind: 'status', status: 500 })
const error: unknown = await api.get('/orders/2').catch((reason: unknown) => reason)
const token = (await tokens.getToken()).value
assert.ok(axios.isAxiosError(error))
assert.equal(error.response?.status, 500)
console.log(`GET /orders/2 -> ${error.message}`)
const shown = inspect(error, { depth: 10 }).includes(token)
assert.equal(shown, false)
assert.equal(
  sandbox.test.requests('merchant').at(-1)?.headers['authorization'],
  `Bearer [token ${second.data.jti}]`,
)
console.log(`Is the token in a print of that error? ${shown}`)

await tokens.close()
await sandbox.close()
