/** The token in a header of another name, without a scheme; and a call with a header of the caller's own. */
import assert from 'node:assert/strict'
import axios from 'axios'
import { createAuthFetch, createTokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { startSandbox } from 'merchant-auth/testing'

const sandbox = await startSandbox()
sandbox.test.configure({ header: 'X-Access-Token', scheme: '' })
const { environment, clientId, clientSecret, merchantUrl } = sandbox.test

const reasons: string[] = []
const tokens = createTokenProvider({
  environment,
  clientId,
  clientSecret,
  onEvent: (event) => {
    if (event.type !== 'token-withheld') return
    reasons.push(event.reason)
    console.log(`  (no token put on: ${event.reason})`)
  },
})
const attach = { header: 'X-Access-Token', scheme: '' }
const authFetch = createAuthFetch(tokens, attach)
const api = axios.create({ baseURL: merchantUrl })
attachAuth(api, tokens, attach)

// The sandbox answers with what it received, and hides the token in it.
const response = await authFetch(`${merchantUrl}/orders`)
const { headers, jti } = (await response.json()) as { headers: Record<string, string>; jti: string }
console.log(`fetch: ${response.status}, x-access-token: ${headers['x-access-token']}`)
assert.equal(response.status, 200)
assert.equal(headers['x-access-token'], `[token ${jti}]`)
assert.equal(headers['authorization'], undefined)

const answer = await api.get('/orders')
console.log(`axios: ${answer.status}, x-access-token: ${answer.data.headers['x-access-token']}`)
assert.equal(answer.status, 200)
assert.equal(answer.data.headers['x-access-token'], `[token ${jti}]`)
assert.equal(answer.data.headers['authorization'], undefined)

const own = await authFetch(`${merchantUrl}/orders`, { headers: { 'X-Access-Token': 'mine' } })
console.log(`A header of one's own is left as it is: ${own.status}`)
assert.equal(own.status, 401)
assert.deepEqual(reasons, ['own-header'])
const { token: asked, merchant: received } = sandbox.test.counts
assert.deepEqual({ asked, received }, { asked: 1, received: 3 }) // the own header's 401 renewed nothing

await tokens.close()
await sandbox.close()
