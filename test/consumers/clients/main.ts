/** Generated clients, and a GraphQL client: after a revocation, their calls are repeated, unless the client sets the header itself. */
import assert from 'node:assert/strict'
import { ProviderClosedError } from 'merchant-auth'
import { startSandbox } from 'merchant-auth/testing'

async function main(): Promise<void> {
  const sandbox = await startSandbox()
  const { environment, clientId, clientSecret } = sandbox.test
  const { merchant, inStore } = environment.apiUrls
  Object.assign(process.env, {
    MERCHANT_AUTH_URL: environment.authUrl,
    MERCHANT_AUTH_AUDIENCE: environment.audience,
    MERCHANT_AUTH_API_URLS: `merchant=${merchant},inStore=${inStore}`,
    MERCHANT_AUTH_CLIENT_ID: clientId,
    MERCHANT_AUTH_CLIENT_SECRET: clientSecret,
  })
  const { calls, errors, mistakes } = await import('./calls.js')
  const { tokens } = await import('./tokens.js')

  const every = async (): Promise<unknown> =>
    Promise.all(Object.values(calls).map((call, index) => call(1200 + index)))
  const sent = (text: string): string[] =>
    sandbox.test
      .requests('merchant')
      .filter(({ body }) => String(body).includes(text))
      .map(({ status, body }) => `${status} ${body}`)
  await every()
  sandbox.test.revoke()
  sandbox.test.clearRequests()
  await every()
  for (const [index, name] of Object.keys(calls).entries()) {
    const [first, second, ...more] = sent(`${1200 + index}`)
    assert.match(String(first), /^401 \{.+\}$/, name)
    assert.equal(second, first?.replace('401', '200'), name)
    assert.equal(more.length, 0, name)
  }
  assert.equal(sandbox.test.counts.token, 2)

  sandbox.test.revoke()
  for (const [name, call] of Object.entries(mistakes)) {
    sandbox.test.clearRequests()
    await assert.rejects(call(), name)
    assert.deepEqual(
      sandbox.test.requests('merchant').map(({ status }) => status),
      [401],
      name,
    )
  }
  assert.equal(sandbox.test.counts.token, 2)

  await tokens.close()
  for (const [name, error] of Object.entries(errors))
    assert.ok((await error()) instanceof ProviderClosedError, name)
  await sandbox.close()
  console.log('done')
}

main()
