/** A function for `clientAssertion` whose private key never leaves a key management service. */
import { randomUUID } from 'node:crypto'
import type { AssertionEndpoint } from 'merchant-auth'

/** What a key management service offers: the ES256 signature of a message, as 64 bytes (`r` and `s`). */
type Sign = (message: Buffer) => Promise<Buffer>

export function signedBy(sign: Sign, keyId: string) {
  return async ({ url, clientId }: AssertionEndpoint): Promise<string> => {
    const now = Math.floor(Date.now() / 1000)
    const times = { iat: now - 10, exp: now + 60 } // the clock of the token endpoint may be behind
    const claims = { iss: clientId, sub: clientId, aud: url, jti: randomUUID(), ...times }
    const encoded = [{ alg: 'ES256', kid: keyId }, claims]
      .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
      .join('.')
    const signature = await sign(Buffer.from(encoded))
    return `${encoded}.${signature.toString('base64url')}`
  }
}
