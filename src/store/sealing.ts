/** Sealing: what goes to a store is encrypted and bound to the name that it is kept under (JWE, RFC 7516). */
import { hkdfSync } from 'node:crypto'
// These two alone: the whole of jose takes four times as long to load.
import { compactDecrypt } from 'jose/jwe/compact/decrypt'
import { CompactEncrypt } from 'jose/jwe/compact/encrypt'

const JWE_HEADER = { alg: 'dir', enc: 'A256GCM' } as const
const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** A secret to seal with. Each name gets a key of its own, derived from it (HKDF-SHA-256, RFC 5869). */
export class SealingKey {
  /** Tells keys apart, and says nothing about them. */
  readonly id: string
  readonly #secret: string
  readonly #salt: string

  /** `salt` tells clients apart that have the same secret. */
  constructor(secret: string, salt: string) {
    this.#secret = secret
    this.#salt = salt
    this.id = Buffer.from(this.#derive('id', 12)).toString('base64url')
  }

  async seal(name: string, content: unknown): Promise<string> {
    return await new CompactEncrypt(encoder.encode(JSON.stringify(content)))
      .setProtectedHeader({ ...JWE_HEADER, kid: this.id })
      .encrypt(this.#keyFor(name))
  }

  /** What was sealed for this name with this key; undefined for everything else. */
  async open(name: string, sealed: string): Promise<unknown> {
    try {
      const { plaintext } = await compactDecrypt(sealed, this.#keyFor(name), {
        keyManagementAlgorithms: [JWE_HEADER.alg],
        contentEncryptionAlgorithms: [JWE_HEADER.enc],
      })
      return JSON.parse(decoder.decode(plaintext))
    } catch {
      return undefined
    }
  }

  #keyFor(name: string): Uint8Array {
    return this.#derive(`entry ${name}`, 32)
  }

  #derive(purpose: string, bytes: number): Uint8Array {
    return new Uint8Array(hkdfSync('sha256', this.#secret, this.#salt, `merchant-auth v1 ${purpose}`, bytes))
  }
}
