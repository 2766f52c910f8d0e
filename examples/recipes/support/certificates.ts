/** Certificates for the recipes, made at run time and kept in memory. */
import { generate } from 'selfsigned'

/** A key and its certificate (PEM). */
export interface Identity {
  readonly key: string
  readonly cert: string
}

/** A certificate authority of one run: who trusts `cert` trusts whatever it issues. */
export interface Authority {
  readonly cert: string
  /** A certificate of the authority for one server or client. */
  issue(commonName: string): Promise<Identity>
}

/** Makes a certificate authority. */
export async function createAuthority(): Promise<Authority> {
  const { private: key, cert } = await generate([{ name: 'commonName', value: 'Authority of this recipe' }], {
    keyType: 'ec',
    algorithm: 'sha256',
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, critical: true },
    ],
  })
  return {
    cert,
    async issue(commonName) {
      const issued = await generate([{ name: 'commonName', value: commonName }], {
        keyType: 'ec',
        algorithm: 'sha256',
        ca: { key, cert },
        extensions: [{ name: 'subjectAltName', altNames: [{ type: 2, value: 'localhost' }] }],
      })
      return { key: issued.private, cert: issued.cert }
    },
  }
}
