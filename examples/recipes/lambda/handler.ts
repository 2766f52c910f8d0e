/** AWS Lambda, with the secret from AWS Secrets Manager, whose name is in `SECRET_ID`. Named in docs/frameworks.md. */
import { createAuthFetch, createTokenProvider, optionsFromEnv } from 'merchant-auth'

const options = optionsFromEnv(
  { ...process.env, MERCHANT_AUTH_CLIENT_SECRET: 'not used' }, // required there, replaced below
  { apis: ['merchant'] },
)

/** Called before each token request. The extension "AWS Parameters and Secrets" caches the secret. */
async function clientSecret(): Promise<string> {
  const port = process.env['PARAMETERS_SECRETS_EXTENSION_HTTP_PORT'] ?? '2773'
  const secretId = encodeURIComponent(process.env['SECRET_ID'] ?? '')
  const url = `http://localhost:${port}/secretsmanager/get?secretId=${secretId}`
  const headers = { 'X-Aws-Parameters-Secrets-Token': process.env['AWS_SESSION_TOKEN'] ?? '' }
  const response = await fetch(url, { headers })
  if (!response.ok)
    throw new Error(`The secrets extension returned ${response.status}: ${await response.text()}`)
  return ((await response.json()) as { SecretString: string }).SecretString
}

// Outside of the handler: once for each execution environment, not for each invocation.
const tokens = createTokenProvider({
  timeoutMs: 5_000, // MERCHANT_AUTH_TIMEOUT_MS replaces it
  ...options,
  clientSecret,
  clientAssertion: undefined, // the type of the options allows it instead of a secret
})
const authFetch = createAuthFetch(tokens)

export async function handler(event: { orderId: string }): Promise<{ statusCode: number; body: string }> {
  const response = await authFetch(
    `${options.environment.apiUrls.merchant}/orders/${encodeURIComponent(event.orderId)}`,
  )
  return { statusCode: response.status, body: await response.text() }
}
