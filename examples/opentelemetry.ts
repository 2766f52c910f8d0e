/** Metrics for Prometheus: what a provider's events become, on a page that Prometheus would scrape. */
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { metrics } from '@opentelemetry/api'
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { createAuthFetch, createTokenProvider, TokenRequestError } from 'merchant-auth'
import { createTelemetry } from 'merchant-auth/opentelemetry'
import { startSandbox } from 'merchant-auth/testing'

// A service sets this up once, where it starts. `new PrometheusExporter()` alone listens on port 9464 of every address.
const exporter = new PrometheusExporter({ preventServerStart: true })
const page = createServer((request, response) => exporter.getMetricsRequestHandler(request, response))
await new Promise<void>((resolve) => page.listen(0, '127.0.0.1', resolve))
metrics.setGlobalMeterProvider(new MeterProvider({ readers: [exporter] }))

const sandbox = await startSandbox()
const { environment, clientId, clientSecret, merchantUrl } = sandbox.test
const onEvent = createTelemetry({ attributes: { merchant: 'm-1' } })
const tokens = createTokenProvider({ environment, clientId, clientSecret, onEvent })
const authFetch = createAuthFetch(tokens)

sandbox.test.fail('token', { kind: 'status', status: 503 })
await Promise.all(Array.from({ length: 10 }, (_, order) => authFetch(`${merchantUrl}/orders/${order}`)))
sandbox.test.revoke()
await authFetch(`${merchantUrl}/orders`) // refused, renewed, and sent once more
sandbox.test.revoke()
await authFetch(`${merchantUrl}/orders`) // refused again, too soon for another renewal
await authFetch(`${environment.authUrl}/health`) // not below apiUrls: goes without the token

const refused = createTokenProvider({
  environment,
  clientId,
  clientSecret: 'not-the-secret',
  onEvent: createTelemetry({ attributes: { merchant: 'm-2' } }), // each provider has a listener of its own
})
await refused.getToken().catch((error: unknown) => {
  if (!(error instanceof TokenRequestError)) throw error
})

const { port } = page.address() as AddressInfo
const scraped = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
const ours = scraped.split('\n').filter((line) => /^merchant_auth_/.test(line))
console.log(ours.filter((line) => !line.includes('_bucket')).join('\n'))

/** What a metric amounts to over all its lines that have a text in them. */
const amount = (name: string, text = ''): number =>
  ours
    .filter((line) => line.startsWith(`${name}{`) && line.includes(text))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf('}') + 1)), 0)

const m1 = 'merchant="m-1"'
const m2 = 'merchant="m-2"'
const expected = [
  ['merchant_auth_token_request_duration_count', m1, 3], // a 503, and two good answers
  ['merchant_auth_token_request_duration_count', m2, 1],
  ['merchant_auth_token_request_failures_total', 'http_response_status_code="503"', 1],
  ['merchant_auth_token_request_failures_total', 'merchant_auth_oauth_error="invalid_client"', 1],
  ['merchant_auth_token_acquisition_duration_count', m1, 2],
  ['merchant_auth_token_acquisition_duration_count', m2, 0],
  ['merchant_auth_token_rejections_total', m1, 2],
  ['merchant_auth_token_renewals_total', m1, 1],
  ['merchant_auth_token_suppressed_renewals_total', m1, 1],
  ['merchant_auth_token_withheld_total', 'merchant_auth_withheld_reason="destination"', 1],
] as const
assert.deepEqual(
  expected.map(([name, text]) => [name, text, amount(name, text)]),
  expected,
)
const remains = amount('merchant_auth_token_remaining_lifetime', m1)
assert.ok(remains > 3_500 && remains <= 3_600, `${remains} s remain of an hour`)

await Promise.all([tokens.close(), refused.close()])
await sandbox.close()
page.close()
