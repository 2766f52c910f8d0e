/** A fetch whose calls carry the token, and a hundred first calls that share one token request. */
import assert from 'node:assert/strict'
import { createAuthFetch, createTokenProvider } from 'merchant-auth'
import { startSandbox } from 'merchant-auth/testing'

const sandbox = await startSandbox()
const { environment, clientId, clientSecret, inStoreUrl } = sandbox.test

const tokens = createTokenProvider({ environment, clientId, clientSecret })
const authFetch = createAuthFetch(tokens)

const responses = await Promise.all(
  Array.from({ length: 100 }, (_, index) => authFetch(`${inStoreUrl}/sales/${index}`)),
)
const [used] = (await Promise.all(responses.map((response) => response.json()))) as { jti: string }[]
const good = responses.filter(({ ok }) => ok).length
console.log(
  `${good} of ${responses.length} calls at once went well, with ${sandbox.test.counts.token} token request.`,
)
assert.deepEqual([good, sandbox.test.counts.token], [100, 1])

sandbox.test.revoke()
const again = await authFetch(`${inStoreUrl}/sales`, {
  method: 'POST',
  body: JSON.stringify({ amount: 1200 }),
})
const { body, jti } = (await again.json()) as { body: string; jti: string }
console.log(`After a revocation: ${again.status}, body ${body}, with the new token ${jti}.`)
assert.deepEqual([again.status, body], [200, '{"amount":1200}'])
assert.notEqual(jti, used?.jti)
const { token: asked, unauthorized } = sandbox.test.counts
assert.deepEqual({ asked, unauthorized }, { asked: 2, unauthorized: 1 })

sandbox.test.configure({ apiLatencyMs: 5_000 })
const signal = AbortSignal.timeout(50)
const late: unknown = await authFetch(`${inStoreUrl}/slow`, { signal }).catch((reason: unknown) => reason)
console.log(`A call with AbortSignal.timeout(50) to a slow API ends with: ${late}`)
assert.equal(late, signal.reason)

await tokens.close()
await sandbox.close()
