/** The environment variables with which a service under test uses the sandbox. */
import type { Environment } from '../environment/environment.ts'
import type { SandboxClient } from './types.ts'

/** What `optionsFromEnv` reads as these options. */
export function variablesOf(
  { authUrl, audience, apiUrls, allowInsecureRequests }: Environment,
  { clientId, clientSecret }: SandboxClient,
): Readonly<Record<string, string>> {
  const namedUrls = Object.entries<string>(apiUrls).map((entry) => entry.join('='))
  return {
    MERCHANT_AUTH_URL: authUrl,
    MERCHANT_AUTH_AUDIENCE: audience,
    MERCHANT_AUTH_API_URLS: namedUrls.join(','),
    MERCHANT_AUTH_CLIENT_ID: clientId,
    MERCHANT_AUTH_CLIENT_SECRET: clientSecret,
    ...(allowInsecureRequests && { MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS: 'true' }),
  }
}
