/** The environment variables with which a service under test uses the sandbox. */
import type { Environment } from '../environment/environment.ts'
import type { SandboxClient } from './types.ts'

/** What `optionsFromEnv` reads as these options. */
export function variablesOf(
  { authUrl, tokenPath, audience, apiUrls, allowInsecureRequests }: Environment,
  { clientId, clientSecret }: SandboxClient,
  tokenEndpointAuthMethod?: string,
): Readonly<Record<string, string>> {
  const namedUrls = Object.entries<string>(apiUrls).map((entry) => entry.join('='))
  return {
    MERCHANT_AUTH_URL: authUrl,
    ...(tokenPath !== undefined && { MERCHANT_AUTH_TOKEN_PATH: tokenPath }),
    ...(audience !== undefined && { MERCHANT_AUTH_AUDIENCE: audience }),
    MERCHANT_AUTH_API_URLS: namedUrls.join(','),
    MERCHANT_AUTH_CLIENT_ID: clientId,
    MERCHANT_AUTH_CLIENT_SECRET: clientSecret,
    ...(tokenEndpointAuthMethod && {
      MERCHANT_AUTH_TOKEN_ENDPOINT_AUTH_METHOD: tokenEndpointAuthMethod,
    }),
    ...(allowInsecureRequests && { MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS: 'true' }),
  }
}
