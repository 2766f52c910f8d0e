/** What a provider's events become: metrics for Prometheus, on the page that it would scrape, and lines of a log. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { mock } from 'node:test'
import { createAuthFetch, createTokenProvider } from 'merchant-auth'
import { createTelemetry } from 'merchant-auth/opentelemetry'
import { startSandbox } from 'merchant-auth/testing'
import { explainFailure } from './recipes/parts/explain-failure.ts'

// The exporter needs a port: one that is free now.
const listener = createServer().listen(0, '127.0.0.1')
await once(listener, 'listening')
const { port } = listener.address() as AddressInfo
await new Promise((resolve) => listener.close(resolve))

const sandbox = await startSandbox({ quota: '10/h' })
const { environment, clientId, merchantUrl } = sandbox.test
Object.assign(process.env, sandbox.test.variables, {
  METRICS_HOST: '127.0.0.1',
  METRICS_PORT: String(port),
})
const { tokens } = await import('./recipes/parts/telemetry.ts')
await import('./recipes/parts/log-events.ts')
const authFetch = createAuthFetch(tokens)
const logged = [mock.method(console, 'warn'), mock.method(console, 'log')]

sandbox.test.fail('token', { kind: 'status', status: 503 })
await Promise.all(Array.from({ length: 10 }, (_, order) => authFetch(`${merchantUrl}/orders/${order}`)))
sandbox.test.revoke()
await authFetch(`${merchantUrl}/orders`) // rejected, renewed, and repeated
const ofOtherStore = `${merchantUrl}/stores/7` // a store that the account does not have: its calls get a 401 of their own
sandbox.test.fail(
  'merchant',
  { kind: 'status', status: 401 },
  { path: '/merchant/stores/7', times: Infinity },
)
await authFetch(ofOtherStore) // renewed, which does not help
sandbox.test.configure({ rejectAllTokens: true })
await authFetch(`${merchantUrl}/orders`) // too soon for another renewal
sandbox.test.configure({ rejectAllTokens: false })
await authFetch(`${merchantUrl}/orders`) // accepted with this token
await authFetch(ofOtherStore) // so the 401 is about the call
await authFetch(`${environment.authUrl}/health`) // not below apiUrls: goes without the token

const rejected = createTokenProvider({
  environment,
  clientId,
  clientSecret: 'not-the-secret',
  onEvent: createTelemetry({ attributes: { client: 'rejected' } }), // each provider has a listener of its own
})
assert.match(await rejected.getToken().then(String, explainFailure), /^ERR_TOKEN_STATUS: .*invalid_client/)

sandbox.production.fail('token', { kind: 'status', status: 503 })
const unlucky = createTokenProvider({ ...sandbox.production.options, retries: 0 })
assert.match(await unlucky.getToken().then(String, explainFailure), /^Retry in \d+ ms$/)

const lines = logged.flatMap((method) => method.mock.calls.map(({ arguments: words }) => words.join(' ')))
assert.deepEqual(lines, [
  'token request failed: ERR_TOKEN_STATUS 503',
  'token requests left: per_hour 8',
  'token requests left: per_hour 7',
  'token requests left: per_hour 6',
  `token not renewed (every call): GET ${merchantUrl}/orders`,
  `token not renewed (one call): GET ${ofOtherStore}`,
  `sent without the token: ${environment.authUrl}/health destination`,
  'token request failed: ERR_TOKEN_STATUS 401 test',
  'token request failed: ERR_TOKEN_STATUS 503 production',
])

const scraped = await (await fetch(`http://localhost:${port}/metrics`)).text()
const ours = scraped.split('\n').filter((line) => /^merchant_auth_/.test(line))
console.log(ours.filter((line) => !line.includes('_bucket')).join('\n'))

/** What a metric amounts to over all its lines that a pattern matches. */
const amount = (name: string, pattern: RegExp): number =>
  ours
    .filter((line) => line.startsWith(`${name}{`) && pattern.test(line))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf('}') + 1)), 0)

const REJECTED = /client="rejected"/
const OTHER = /^(?!.*client=)/
const expected = [
  ['merchant_auth_token_request_duration_count', OTHER, 4], // a 503, and three good answers
  ['merchant_auth_token_request_duration_count', REJECTED, 1],
  ['merchant_auth_token_request_failures_total', /http_response_status_code="503"/, 1],
  ['merchant_auth_token_request_failures_total', /merchant_auth_oauth_error="invalid_client"/, 1],
  ['merchant_auth_token_acquisition_duration_count', OTHER, 3],
  ['merchant_auth_token_acquisition_duration_count', REJECTED, 0],
  ['merchant_auth_token_rejections_total', OTHER, 4],
  ['merchant_auth_token_renewals_total', OTHER, 2],
  ['merchant_auth_token_suppressed_renewals_total', /merchant_auth_suppressed_reason="accepted"/, 1],
  ['merchant_auth_token_suppressed_renewals_total', /merchant_auth_suppressed_reason="limited"/, 1],
  ['merchant_auth_token_withheld_total', /merchant_auth_withheld_reason="destination"/, 1],
] as const
assert.deepEqual(
  expected.map(([name, pattern]) => [name, pattern, amount(name, pattern)]),
  expected,
)
const remains = amount('merchant_auth_token_remaining_lifetime', OTHER)
assert.ok(remains > 3_500 && remains <= 3_600, `${remains} s remain of an hour`)

await Promise.all([tokens.close(), rejected.close(), unlucky.close()])
await sandbox.close()
