/** A client without a secret: it proves its identity by assertions that it signs, with a key in a file or in a service. */
import assert from 'node:assert/strict'
import { generateKeyPairSync, sign } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createAuthFetch, createTokenProvider } from 'merchant-auth'
import { startSandbox } from 'merchant-auth/testing'
import { signedWith } from './parts/signed-assertion.ts'
import { signedBy } from './parts/signed-by-service.ts'

const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
await using sandbox = await startSandbox({
  assertionKey: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
  tokenParameters: ['organization'],
})
const { environment, clientId, merchantUrl } = sandbox.test
const folder = await mkdtemp(join(tmpdir(), 'merchant-auth-assertion-'))
try {
  const file = join(folder, 'client.key')
  await writeFile(file, privateKey.export({ type: 'pkcs8', format: 'pem' }))
  // What would be a call of the service that has the key.
  const service = async (message: Buffer): Promise<Buffer> =>
    sign('sha256', message, { key: privateKey, dsaEncoding: 'ieee-p1363' })
  for (const clientAssertion of [signedWith(file, 'key-1'), signedBy(service, 'key-1')]) {
    sandbox.test.fail('token', { kind: 'status', status: 503 })
    await using tokens = createTokenProvider({
      environment,
      clientId,
      clientAssertion,
      tokenParameters: { organization: 'org_1' },
    })
    const response = await createAuthFetch(tokens)(`${merchantUrl}/orders`)
    assert.equal(response.status, 200)
    // An endpoint whose clock is some seconds behind accepts it, too.
    const [, claims = ''] = (await clientAssertion({ url: environment.authUrl, clientId })).split('.')
    const { iat } = JSON.parse(Buffer.from(claims, 'base64url').toString())
    assert.ok(iat <= Date.now() / 1_000 - 5)
  }
} finally {
  await rm(folder, { recursive: true })
}
const requests = sandbox.test.requests('token')
console.log(`${requests.length} token requests with a new assertion each, and without a secret`)
assert.deepEqual(
  requests.map(({ status }) => status),
  [503, 200, 503, 200],
)
assert.ok(requests.every(({ fields }) => fields?.['client_secret'] === undefined))
