/**
 * A service that wants a client certificate (mutual TLS, RFC 8705 §2), at the token endpoint and at the API: undici's
 * Agent for fetch, httpsAgent for axios.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent as HttpsAgent } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import axios, { isAxiosError } from 'axios'
import { createTokenProvider, TokenRequestError } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { startSandbox } from 'merchant-auth/testing'
import { Agent } from 'undici'
import { fetchWith } from './parts/fetch-with.ts'
import { createAuthority } from './support/certificates.ts'
import { startTlsFront } from './support/relays.ts'
import { rootCause } from './support/root-cause.ts'
import { variablesAt } from './support/variables-at.ts'

const authority = await createAuthority()
const { key, cert } = await authority.issue('merchant-service')
const ca = authority.cert

await using sandbox = await startSandbox()
const { environment: plain, clientId, clientSecret } = sandbox.test
await using front = await startTlsFront(Number(new URL(plain.authUrl).port), {
  ...(await authority.issue('localhost')),
  ca,
  requestCert: true,
  rejectUnauthorized: true,
})
const url = `https://localhost:${front.port}`
const environment = { ...plain, authUrl: url, apiUrls: [`${url}/merchant`] }

// With the certificate, in the files that the service reads.
setDefaultCACertificates([...getCACertificates(), ca]) // a service with a public certificate does not need this
const folder = mkdtempSync(join(tmpdir(), 'certificate-'))
writeFileSync(join(folder, 'client.key'), key)
writeFileSync(join(folder, 'client.crt'), cert)
process.chdir(folder)
Object.assign(process.env, variablesAt(sandbox.test, url))
const { api, authFetch, tokens } = await import('./parts/certified-client.ts')
process.chdir('/')
rmSync(folder, { recursive: true })
const order = await api.get('/orders/1')
const sale = await authFetch(`${url}/merchant/sales`)
assert.deepEqual([order.status, sale.status, sandbox.test.counts.token], [200, 200, 1])
console.log(`With a client certificate: axios ${order.status}, fetch ${sale.status}, one token request`)

// Without it, the token request does not come through ...
const bare = new Agent()
const other = createTokenProvider({ environment, clientId, clientSecret, fetch: fetchWith(bare), retries: 0 })
const refused: unknown = await other.getToken().catch((reason: unknown) => reason)
assert.ok(refused instanceof TokenRequestError)
assert.deepEqual([refused.code, sandbox.test.counts.token], ['ERR_TOKEN_NETWORK', 1])
console.log(`Without one, the token request: ${refused.code}, ${refused.message}`)
console.log(`  The root cause: ${rootCause(refused)}`)

// ... and so does the call to the API.
const bareApi = axios.create({ baseURL: `${url}/merchant`, httpsAgent: new HttpsAgent() })
attachAuth(bareApi, tokens)
const failed: unknown = await bareApi.get('/orders/2').catch((reason: unknown) => reason)
assert.ok(isAxiosError(failed) && failed.response === undefined)
assert.equal(sandbox.test.counts.merchant, 2)
console.log(`Without one, the API call: ${failed.code}, ${failed.message}`)

await Promise.all([bare.close(), tokens.close(), other.close()])
