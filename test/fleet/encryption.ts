/** Fake encryption for the model: entries stay readable, and no other thread is involved. */
import { vi } from 'vitest'
import { createTokenProvider, type TokenStore } from '../../src/index.ts'

const TAG_BYTES = 16

/** A hook that can delay the encryption of an entry. */
export const encryption = {
  before: async (_content: { value?: string }): Promise<void> => {},
}

/** Makes WebCrypto return its input. The key does not matter: entries with different keys have different names. */
export async function fakeEncryption(): Promise<void> {
  const { subtle } = crypto
  const someKey = await subtle.importKey('raw', new Uint8Array(32), 'AES-GCM', false, ['encrypt', 'decrypt'])
  vi.spyOn(subtle, 'importKey').mockImplementation(async () => someKey)
  vi.spyOn(subtle, 'encrypt').mockImplementation(async (_algorithm, _key, data) => {
    const bytes = new Uint8Array(data as Uint8Array<ArrayBuffer>)
    await encryption.before(JSON.parse(new TextDecoder().decode(bytes)))
    const encrypted = new Uint8Array(bytes.length + TAG_BYTES)
    encrypted.set(bytes)
    return encrypted.buffer
  })
  vi.spyOn(subtle, 'decrypt').mockImplementation(
    async (_algorithm, _key, data) =>
      new Uint8Array(data as Uint8Array<ArrayBuffer>).slice(0, -TAG_BYTES).buffer,
  )
}

/** Loads the modules that a provider imports on first use: simulated time does not wait for imports. */
export async function loadProvider(): Promise<void> {
  const kept = new Map<string, { value: string; ttlMs: number }>()
  const store: TokenStore = {
    get: async (key) => kept.get(key),
    set: async (key, value, ttlMs) => void kept.set(key, { value, ttlMs }),
    delete: async () => {},
  }
  for (const clientId of ['client-1', 'client-1']) {
    const tokens = createTokenProvider({
      environment: {
        authUrl: 'https://auth.test.example',
        audience: 'a',
        apiUrls: ['https://api.test.example'],
      },
      clientId,
      clientSecret: 'swordfish',
      store,
      fetch: async () => Response.json({ access_token: 'token-0', expires_in: 60, token_type: 'Bearer' }),
    })
    await tokens.getToken()
    await tokens.close()
  }
}

/** The content of an entry; undefined if it is not an entry. */
export function contentOf(entry: unknown): { value?: string } | undefined {
  const [, , , encrypted] = typeof entry === 'string' ? entry.split('.') : []
  return encrypted === undefined ? undefined : JSON.parse(Buffer.from(encrypted, 'base64url').toString())
}
