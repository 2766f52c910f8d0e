/** An axios instance whose calls carry the token, are repeated after a 401, and show no secret when they fail. */
import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import axios from 'axios'
import { startSandbox } from 'merchant-auth/testing'

const sandbox = await startSandbox({ sharedApiUrl: true }) // as at services that have one address for both APIs
Object.assign(process.env, sandbox.test.variables)
const { api, tokens } = await import('./recipes/parts/axios-client.ts')

const first = await api.get('/orders/1')
console.log(`GET /orders/1 -> ${first.status}, with token ${first.data.jti}`)
assert.equal(first.status, 200)

sandbox.test.revoke()
const second = await api.post('/orders', { amount: 1200 })
console.log(`POST /orders  -> ${second.status}, with token ${second.data.jti}: the first one was revoked`)
assert.equal(second.status, 200)
assert.notEqual(second.data.jti, first.data.jti)
console.log(`The API answered ${sandbox.test.counts.unauthorized} call with 401; its caller saw none.`)
const { token: requested, merchant: received, unauthorized } = sandbox.test.counts
assert.deepEqual({ requested, received, unauthorized }, { requested: 2, received: 3, unauthorized: 1 })

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
console.log(`Does the log output of that error show the token? ${shown}`)

const { api: plain } = await import('./recipes/parts/plain-interceptor.ts')
const { tokens: otherTokens } = await import('./recipes/parts/tokens.ts')
assert.equal((await plain.get('/orders/3')).status, 200)
sandbox.test.revoke()
await assert.rejects(plain.get('/orders/4'), { status: 401 })
console.log('GET /orders/4 -> 401 after a revocation: the plain interceptor only attaches the token')

await Promise.all([tokens.close(), otherTokens.close()])
await sandbox.close()
