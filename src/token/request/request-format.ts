/** What a token request contains (RFC 6749 §4.4.2): its fields, their format, and the proof of the client's identity. */
import { formEncoded } from '../../base/redact.ts'
import type { ResolvedOptions } from '../../options/options.ts'

/** RFC 7523 §2.2. */
const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

/** What fetch gets, without a signal. `value` is the client secret, or the assertion. */
export function tokenRequestInit(
  {
    bodyFormat,
    clientId,
    credential,
    environment,
    tokenEndpointAuthMethod,
    tokenParameters,
  }: ResolvedOptions,
  value: string,
): RequestInit & { readonly headers: Readonly<Record<string, string>> } {
  const { audience } = environment
  const isBasic = tokenEndpointAuthMethod === 'client_secret_basic'
  const proof =
    credential.option === 'clientSecret'
      ? { client_secret: value }
      : { client_assertion_type: ASSERTION_TYPE, client_assertion: value }
  const fields = {
    ...(!isBasic && { client_id: clientId, ...proof }),
    ...(audience !== undefined && { audience }),
    grant_type: 'client_credentials',
    ...tokenParameters,
  }
  const isJson = bodyFormat === 'json'
  return {
    method: 'POST',
    headers: {
      'content-type': isJson ? 'application/json' : 'application/x-www-form-urlencoded',
      accept: 'application/json',
      ...(isBasic && { authorization: `Basic ${btoa(`${formEncoded(clientId)}:${formEncoded(value)}`)}` }),
    },
    body: isJson ? JSON.stringify(fields) : new URLSearchParams(fields).toString(),
    redirect: 'manual', // a 307 would forward the secret to another host
    cache: 'no-store', // Next.js caches POSTs of its fetch
  }
}
