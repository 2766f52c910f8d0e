/** Encryption in the model: at once and under the schedule's hand, or the real one, waited for. */
import type { CompactDecryptResult, CompactEncrypt } from 'jose'

type Encrypt = typeof import('jose/jwe/compact/encrypt')
type Decrypt = typeof import('jose/jwe/compact/decrypt')

export const sealing = {
  /** Whether to encrypt as in production. */
  real: false,
  /** How many operations of the real one run, in threads of their own. */
  running: 0,
  /** What comes between a content and its encrypted form. */
  before: async (_content: unknown): Promise<void> => {},
  /** What was encrypted, by its encrypted form. */
  contents: new Map<string, unknown>(),
}

/** What stands in for jose's encryption. It is still bound to the key, which is derived from the entry's name. */
export function watchedEncrypt({ CompactEncrypt: Real }: Encrypt): { CompactEncrypt: unknown } {
  class Watched {
    readonly #plaintext: Uint8Array
    #header: Parameters<CompactEncrypt['setProtectedHeader']>[0] = { alg: 'dir', enc: 'A256GCM' }

    constructor(plaintext: Uint8Array) {
      this.#plaintext = plaintext
    }

    setProtectedHeader(header: Parameters<CompactEncrypt['setProtectedHeader']>[0]): this {
      this.#header = header
      return this
    }

    async encrypt(key: Uint8Array): Promise<string> {
      const text = new TextDecoder().decode(this.#plaintext)
      const content: unknown = JSON.parse(text)
      await sealing.before(content)
      const encrypted = sealing.real
        ? await counted(new Real(this.#plaintext).setProtectedHeader(this.#header).encrypt(key))
        : JSON.stringify([Buffer.from(key).toString('hex'), text])
      sealing.contents.set(encrypted, content)
      return encrypted
    }
  }
  return { CompactEncrypt: Watched }
}

/** What stands in for jose's decryption. */
export function watchedDecrypt({ compactDecrypt }: Decrypt): { compactDecrypt: unknown } {
  const decrypt = async (
    encrypted: string,
    key: Uint8Array,
    options: object,
  ): Promise<Pick<CompactDecryptResult, 'plaintext'>> => {
    if (sealing.real) return await counted(compactDecrypt(encrypted, key, options))
    const [usedKey, text] = JSON.parse(encrypted) as [string, string]
    if (usedKey !== Buffer.from(key).toString('hex')) throw new Error('decryption operation failed')
    return { plaintext: new TextEncoder().encode(text) }
  }
  return { compactDecrypt: decrypt }
}

async function counted<T>(operation: Promise<T>): Promise<T> {
  sealing.running += 1
  try {
    return await operation
  } finally {
    sealing.running -= 1
  }
}
