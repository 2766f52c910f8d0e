/** The token in a header of another name, without a scheme; and a call with a header of the caller's own. */
import assert from 'node:assert/strict'
import { subscribe } from 'node:diagnostics_channel'
import type { AuthEvent } from 'merchant-auth'
import { startSandbox } from 'merchant-auth/testing'

const sandbox = await startSandbox()
sandbox.test.configure({ header: 'X-Auth-Token', scheme: '' })
const { merchantUrl } = sandbox.test
Object.assign(process.env, sandbox.test.variables)
const { api, authFetch } = await import('./recipes/parts/custom-header-clients.ts')
const { tokens } = await import('./recipes/parts/tokens.ts')

const reasons: string[] = []
subscribe('merchant-auth', (message) => {
  const event = message as AuthEvent
  if (event.type === 'token-withheld') reasons.push(event.reason)
})

// The sandbox answers with what it received, and hides the token in it.
const response = await authFetch(`${merchantUrl}/orders`)
const { headers, jti } = (await response.json()) as { headers: Record<string, string>; jti: string }
console.log(`fetch: ${response.status}, x-auth-token: ${headers['x-auth-token']}`)
assert.equal(response.status, 200)
assert.equal(headers['x-auth-token'], `[token ${jti}]`)
assert.equal(headers['authorization'], undefined)

const answer = await api.get('/orders')
console.log(`axios: ${answer.status}, x-auth-token: ${answer.data.headers['x-auth-token']}`)
assert.equal(answer.status, 200)
assert.equal(answer.data.headers['x-auth-token'], `[token ${jti}]`)
assert.equal(answer.data.headers['authorization'], undefined)

const own = await authFetch(`${merchantUrl}/orders`, { headers: { 'X-Auth-Token': 'mine' } })
console.log(`A header that the caller set stays unchanged: ${own.status} (token-withheld: ${reasons})`)
assert.equal(own.status, 401)
assert.deepEqual(reasons, ['own-header'])
const { token: requested, merchant: received } = sandbox.test.counts
assert.deepEqual({ requested, received }, { requested: 1, received: 3 }) // the own header's 401 renewed nothing

await tokens.close()
await sandbox.close()
