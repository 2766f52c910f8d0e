/** The token request as it goes over the wire. */
import { tokenEndpoint } from '../environments.ts'
import type { ResolvedOptions } from '../options.ts'

/** Sends a token request (RFC 6749 §4.4.2), by default as the JSON that the service wants. */
export function postToken(
  { bodyFormat, clientId, environment, fetch }: ResolvedOptions,
  secret: string,
  signal: AbortSignal,
): Promise<Response> {
  const fields = {
    client_id: clientId,
    client_secret: secret,
    audience: environment.audience,
    grant_type: 'client_credentials',
  }
  const json = bodyFormat === 'json'
  return fetch(tokenEndpoint(environment), {
    method: 'POST',
    headers: {
      'content-type': json ? 'application/json' : 'application/x-www-form-urlencoded',
      accept: 'application/json',
    },
    body: json ? JSON.stringify(fields) : new URLSearchParams(fields).toString(),
    redirect: 'manual', // a 307 would send the secret on to another host
    signal,
  })
}
