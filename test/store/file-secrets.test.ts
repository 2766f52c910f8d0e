/** What a reader of the file store's directory learns: every name and every byte that was ever written there is searched. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { ENVIRONMENT, granted, IN_STORE_URL, MERCHANT_URL, rig, SECRET, status } from '../token/harness.ts'

const CLIENT_ID = 'client-id-of-this-test'

const written = vi.hoisted((): string[] => [])
vi.mock('node:fs/promises', async (original) => {
  const real = await original<typeof import('node:fs/promises')>()
  const open: typeof real.open = async (path, ...rest) => {
    const file = await real.open(path, ...rest)
    const writeFile = file.writeFile.bind(file)
    file.writeFile = async (data, ...options) => {
      written.push(String(path), String(data))
      await writeFile(data, ...options)
    }
    return file
  }
  return { ...real, open }
})
vi.resetModules() // in mutation tests another file may have loaded it
const { createFileTokenStore } = await import('merchant-auth/file')

it('neither a token, nor the secret, nor the client is in what was ever written, and no file is used that is not of this client', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'file-secrets-'))
  const start = (options = {}) =>
    rig([], { clock: undefined, store: createFileTokenStore(folder), clientId: CLIENT_ID, ...options })
  try {
    const { provider, endpoint } = start()
    const first = await provider.getToken()
    const second = await provider.renewToken(first, { url: MERCHANT_URL })
    endpoint.answers.push(status(429, '', { 'retry-after': '5' }), granted())
    // Another API, which may renew at once: its 429 is written, too.
    await provider.renewToken(second ?? '', { url: IN_STORE_URL }).catch(() => {})
    await provider.close()

    expect(written.filter((text) => text.endsWith('.tmp')).length).toBeGreaterThan(2)
    const all = written.join('\n')
    for (const text of [
      first.value,
      String(second?.value),
      SECRET,
      CLIENT_ID,
      ENVIRONMENT.audience,
      ENVIRONMENT.authUrl,
    ]) {
      const [plain, ...encoded] = [
        text,
        ...['base64', 'base64url', 'hex'].map((form) => Buffer.from(text).toString(form as 'hex')),
      ]
      for (const form of [plain, ...encoded.map((each) => each.slice(0, -4))]) expect(all).not.toContain(form)
    }

    const other = start({ clientSecret: 'another-secret-of-the-client' })
    expect((await other.provider.getToken()).value).not.toBe(second?.value)
    await other.provider.close()
  } finally {
    rmSync(folder, { recursive: true })
  }
})
