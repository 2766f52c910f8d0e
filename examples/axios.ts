/** An axios instance whose calls carry the token, are made again after a 401, and show no secret when they fail. */
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

sandbox.test.revoke()
const second = await api.post('/orders', { amount: 1200 })
console.log(`POST /orders  -> ${second.status}, with token ${second.data.jti}: the first one was revoked`)
console.log(`The API answered ${sandbox.test.counts.unauthorized} call with 401; its caller saw none.`)

sandbox.test.fail('merchant', { kind: 'status', status: 500 })
const error: unknown = await api.get('/orders/2').catch((reason: unknown) => reason)
const token = (await tokens.getToken()).value
console.log(`GET /orders/2 -> ${axios.isAxiosError(error) ? error.message : 'no AxiosError'}`)
console.log(`Is the token in a print of that error? ${inspect(error, { depth: 10 }).includes(token)}`)

await tokens.close()
await sandbox.close()
