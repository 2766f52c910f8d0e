/** The encryption of store entries: AES-256-GCM of Node.js, with keys derived from a secret. */
import { Buffer } from 'node:buffer'
import { nodeCrypto } from '../../base/builtin-modules.ts'

const VERSION = 'v2'
const ALGORITHM = 'aes-256-gcm'
const KEY_BYTES = 32
/** NIST SP 800-38D §8.2.2: random, for far fewer than 2^32 entries of one key. */
const IV_BYTES = 12
/** Given when decrypting, too: otherwise Node.js accepts a tag of 4 bytes. */
const TAG_BYTES = 16

/** A key for the entries of one client, derived from a secret (HKDF-SHA-256, RFC 5869). */
export class EncryptionKey {
  /** Identifies the key without revealing anything about it. */
  readonly id: string
  readonly #key: Uint8Array

  /** `client` distinguishes clients that have the same secret. */
  constructor(secret: string, client: string) {
    const { hkdfSync } = nodeCrypto()
    const derive = (purpose: string, bytes: number): Uint8Array =>
      new Uint8Array(hkdfSync('sha256', secret, client, `merchant-auth ${VERSION} ${purpose}`, bytes))
    this.id = Buffer.from(derive('id', 12)).toString('base64url')
    this.#key = derive('entry', KEY_BYTES)
  }

  /** Encrypts a text, and binds it to the entry's key: `v2.<key id>.<iv, ciphertext and tag in base64url>`. */
  encrypt(entry: string, text: string): string {
    const { createCipheriv, randomBytes } = nodeCrypto()
    const iv = randomBytes(IV_BYTES)
    const cipher = createCipheriv(ALGORITHM, this.#key, iv, { authTagLength: TAG_BYTES })
    cipher.setAAD(Buffer.from(entry))
    const sealed = Buffer.concat([iv, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
    return `${VERSION}.${this.id}.${sealed.toString('base64url')}`
  }

  /** The text that was encrypted for this entry with this key; undefined for anything else. */
  decrypt(entry: string, encrypted: string): string | undefined {
    const [version, id, sealed = '', ...more] = encrypted.split('.')
    if (version !== VERSION || id !== this.id || more.length > 0) return undefined
    const { createDecipheriv } = nodeCrypto()
    const bytes = Buffer.from(sealed, 'base64url')
    try {
      const iv = bytes.subarray(0, IV_BYTES)
      const decipher = createDecipheriv(ALGORITHM, this.#key, iv, { authTagLength: TAG_BYTES })
      decipher.setAAD(Buffer.from(entry))
      decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
      const text = decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES))
      return Buffer.concat([text, decipher.final()]).toString('utf8')
    } catch {
      return undefined // altered, too short, or of another entry
    }
  }
}
