/** Production and test side by side: each provider has its own token, and no call gets the other's. */
import assert from 'node:assert/strict'
import { ConfigurationError, createAuthFetch, createTokenProvider, defineEnvironments } from 'merchant-auth'
import { startSandbox } from 'merchant-auth/testing'

const sandbox = await startSandbox({ sharedApiUrl: true })

// In a service of yours the URLs stand here. What is set up wrong is said here, all at once.
const environments = defineEnvironments({
  production: sandbox.production.environment,
  test: sandbox.test.environment,
})

for (const name of ['production', 'test'] as const) {
  const { clientId, clientSecret } = sandbox[name]
  const tokens = createTokenProvider({
    environment: environments[name],
    clientId,
    clientSecret,
    onEvent: (event) => console.log(`  [${event.environment}] ${event.type}`),
  })
  const authFetch = createAuthFetch(tokens)
  for (const target of ['production', 'test'] as const) {
    const { status } = await authFetch(`${sandbox[target].merchantUrl}/orders`)
    console.log(`The ${name} provider calls the ${target} API: ${status}`)
    assert.equal(status, name === target ? 200 : 401)
    const sent = sandbox[target].requests('merchant').at(-1)
    assert.equal(sent?.headers['authorization'] === undefined, name !== target)
  }
  await tokens.close()
}
assert.deepEqual([sandbox.production.counts.token, sandbox.test.counts.token], [1, 1])

assert.throws(
  () => defineEnvironments({ production: sandbox.test.environment, test: sandbox.test.environment }),
  (error: unknown) => {
    console.log(`The same environment twice is rejected. ${error}`)
    return error instanceof ConfigurationError
  },
)

await sandbox.close()
