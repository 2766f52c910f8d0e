import { createAuthFetch, createTokenProvider } from 'merchant-auth'

const { AUTH_URL: authUrl = '', AUDIENCE: audience = '', MERCHANT_URL: merchant = '' } = process.env
const { CLIENT_ID: clientId = '', SECRET_ID: secretId = '' } = process.env

/** Asked for before each token request. The extension "AWS Parameters and Secrets" caches it. */
async function clientSecret(): Promise<string> {
  const port = process.env.PARAMETERS_SECRETS_EXTENSION_HTTP_PORT ?? '2773'
  const url = `http://localhost:${port}/secretsmanager/get?secretId=${encodeURIComponent(secretId)}`
  const headers = { 'X-Aws-Parameters-Secrets-Token': process.env.AWS_SESSION_TOKEN ?? '' }
  const response = await fetch(url, { headers })
  if (!response.ok) throw new Error(`The secrets extension returned ${response.status}`)
  return ((await response.json()) as { SecretString: string }).SecretString
}

// Outside of the handler: once for each execution environment, not for each invocation.
const tokens = createTokenProvider({
  environment: { authUrl, audience, apiUrls: { merchant } },
  clientId,
  clientSecret,
  timeoutMs: 2_000, // less than the time-out of the function
})
const authFetch = createAuthFetch(tokens)

export async function handler(event: { orderId: string }): Promise<{ statusCode: number; body: string }> {
  const response = await authFetch(`${merchant}/orders/${encodeURIComponent(event.orderId)}`)
  return { statusCode: response.status, body: await response.text() }
}
