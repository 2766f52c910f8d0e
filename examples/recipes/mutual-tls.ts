/**
 * A service that wants a client certificate (mutual TLS, RFC 8705 §2), at the token endpoint and at the API: undici's
 * Agent for fetch, httpsAgent for axios.
 */
import assert from 'node:assert/strict'
import { Agent as HttpsAgent } from 'node:https'
import axios, { isAxiosError } from 'axios'
import { createAuthFetch, createTokenProvider, TokenRequestError } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { startSandbox } from 'merchant-auth/testing'
import { Agent, type RequestInit, fetch as undiciFetch } from 'undici'
import { createAuthority } from './support/certificates.ts'
import { startTlsFront } from './support/relays.ts'
import { rootCause } from './support/root-cause.ts'

// In production: key and certificate from files or a vault. `ca` only where the service's certificate is a private one.
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

function fetchBy(dispatcher: Agent): typeof fetch {
  // An Agent goes with the fetch of the same undici: Node.js' own fetch has another one inside.
  const sent = (input: string | URL, init?: RequestInit) => undiciFetch(input, { ...init, dispatcher })
  return sent as typeof fetch
}

// With the certificate.
const agent = new Agent({ connect: { key, cert, ca } })
const tokens = createTokenProvider({ environment, clientId, clientSecret, fetch: fetchBy(agent) })
const api = axios.create({ baseURL: `${url}/merchant`, httpsAgent: new HttpsAgent({ key, cert, ca }) })
attachAuth(api, tokens)
const order = await api.get('/orders/1')
const sale = await createAuthFetch(tokens, { fetch: fetchBy(agent) })(`${url}/merchant/sales`)
assert.deepEqual([order.status, sale.status, sandbox.test.counts.token], [200, 200, 1])
console.log(`With a client certificate: axios ${order.status}, fetch ${sale.status}, one token request`)

// Without it, the token request does not come through ...
const bare = new Agent({ connect: { ca } })
const other = createTokenProvider({ environment, clientId, clientSecret, fetch: fetchBy(bare), retries: 0 })
const refused: unknown = await other.getToken().catch((reason: unknown) => reason)
assert.ok(refused instanceof TokenRequestError)
assert.deepEqual([refused.code, sandbox.test.counts.token], ['ERR_TOKEN_NETWORK', 1])
console.log(`Without one, the token request: ${refused.code}, ${refused.message}`)
console.log(`  The root cause: ${rootCause(refused)}`)

// ... and so does the call to the API.
const bareApi = axios.create({ baseURL: `${url}/merchant`, httpsAgent: new HttpsAgent({ ca }) })
attachAuth(bareApi, tokens)
const failed: unknown = await bareApi.get('/orders/2').catch((reason: unknown) => reason)
assert.ok(isAxiosError(failed) && failed.response === undefined)
assert.equal(sandbox.test.counts.merchant, 2)
console.log(`Without one, the API call: ${failed.code}, ${failed.message}`)

await Promise.all([agent.close(), bare.close(), tokens.close(), other.close()])
