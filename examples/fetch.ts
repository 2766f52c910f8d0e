/** A fetch whose calls carry the token, a hundred first calls that share one token request, and the same by hand. */
import assert from 'node:assert/strict'
import { createTokenProvider } from 'merchant-auth'
import { startSandbox } from 'merchant-auth/testing'
import { sendWithToken } from './recipes/parts/send-with-token.ts'

const sandbox = await startSandbox()
const { inStoreUrl } = sandbox.test
Object.assign(process.env, sandbox.test.variables)
const { authFetch, tokens } = await import('./recipes/parts/fetch-client.ts')

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
const { token: requested, unauthorized } = sandbox.test.counts
assert.deepEqual({ requested, unauthorized }, { requested: 2, unauthorized: 1 })

sandbox.test.configure({ apiLatencyMs: 5_000 })
const signal = AbortSignal.timeout(50)
const late: unknown = await authFetch(`${inStoreUrl}/slow`, { signal }).catch((reason: unknown) => reason)
console.log(`A call with AbortSignal.timeout(50) to a slow API ends with: ${late}`)
assert.equal(late, signal.reason)

const { production } = sandbox
const ownTokens = createTokenProvider(production.options)
const statusByHand = async (): Promise<number> => {
  const url = `${production.merchantUrl}/orders`
  return (await sendWithToken(ownTokens, url, (authorization) => fetch(url, { headers: { authorization } })))
    .status
}
assert.equal(await statusByHand(), 200)
production.revoke()
assert.equal(await statusByHand(), 200)
assert.deepEqual([production.counts.token, production.counts.merchant], [2, 3])
console.log('By hand: a revoked token was renewed.')

await Promise.all([tokens.close(), ownTokens.close()])
await sandbox.close()
