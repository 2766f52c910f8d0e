/** The variables of a service that uses the sandbox. */
import type { SandboxEnvironment } from 'merchant-auth/testing'

/** @param url where the environment is reached, if not at its own address */
export function serviceEnv(
  { environment, clientId, clientSecret }: SandboxEnvironment,
  url: string = environment.authUrl,
): Record<string, string> {
  const apiUrls = Object.entries(environment.apiUrls).map(
    ([name, apiUrl]) => `${name}=${apiUrl.replace(environment.authUrl, url)}`,
  )
  return {
    MERCHANT_AUTH_URL: url,
    MERCHANT_AUTH_AUDIENCE: environment.audience,
    MERCHANT_AUTH_API_URLS: apiUrls.join(','),
    MERCHANT_AUTH_CLIENT_ID: clientId,
    MERCHANT_AUTH_CLIENT_SECRET: clientSecret,
  }
}
