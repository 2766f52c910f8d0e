/** A function for `clientAssertion` that signs with a private key: here from a file in PEM format. */
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { importPKCS8, SignJWT } from 'jose'
import type { AssertionEndpoint } from 'merchant-auth'

/** Signs with the key in a file, which is read each time. A new key needs a new `keyId`. */
export function signedWith(file: string, keyId: string) {
  return async ({ url, clientId }: AssertionEndpoint): Promise<string> => {
    const key = await importPKCS8(await readFile(file, 'utf8'), 'ES256')
    return await new SignJWT({ jti: randomUUID() }) // an assertion is accepted once
      .setProtectedHeader({ alg: 'ES256', kid: keyId })
      .setIssuer(clientId)
      .setSubject(clientId)
      .setAudience(url)
      .setIssuedAt(Math.floor(Date.now() / 1000) - 10) // the clock of the token endpoint may be behind
      .setExpirationTime('1 min')
      .sign(key)
  }
}
