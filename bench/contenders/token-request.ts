/** The token request as it is written by hand, for contenders that leave it to their users. */
import type { Service } from '../contender.ts'

export interface TokenAnswer {
  readonly access_token: string
  readonly expires_in: number
}

export async function requestToken(service: Service): Promise<TokenAnswer> {
  const response = await fetch(`${service.authUrl}/oauth/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      client_id: service.clientId,
      client_secret: service.clientSecret,
      audience: service.audience,
      grant_type: 'client_credentials',
    }),
  })
  if (!response.ok) throw new Error(`The token endpoint answered ${response.status}`)
  return (await response.json()) as TokenAnswer
}
