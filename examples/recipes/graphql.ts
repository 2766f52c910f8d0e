/** A GraphQL server that rejects a token with a 200 and an error: the token is renewed, and the mutation sent again. */
import assert from 'node:assert/strict'
import { startSandbox } from 'merchant-auth/testing'

const sandbox = await startSandbox()
Object.assign(process.env, sandbox.test.variables)
const { graphqlFetch } = await import('./parts/graphql-fetch.ts')
const { tokens } = await import('./parts/tokens.ts')

/** Sends a mutation, and returns what the server received since the last one. */
async function received(amount: number): Promise<(string | undefined)[]> {
  sandbox.test.clearRequests()
  const body = JSON.stringify({ query: `mutation { createOrder(amount: ${amount}) { id } }` })
  await graphqlFetch(`${sandbox.test.merchantUrl}/graphql`, { method: 'POST', body })
  return sandbox.test.requests('merchant').map((request) => request.body?.toString())
}

try {
  assert.equal((await received(1200)).length, 1)
  const errors = [{ message: 'expired', extensions: { code: 'UNAUTHENTICATED' } }]
  sandbox.test.fail('merchant', { kind: 'json', body: { data: null, errors } })
  const [rejected, repeated, ...more] = await received(1300)
  assert.match(String(rejected), /1300/)
  assert.equal(repeated, rejected)
  assert.deepEqual([more.length, sandbox.test.counts.token], [0, 2])
  console.log('A mutation was rejected with a 200, and sent again with a new token')
} finally {
  await tokens.close()
  await sandbox.close()
}
