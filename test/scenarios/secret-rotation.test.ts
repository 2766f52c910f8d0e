/** The client secret is rotated under load: no call fails. */
import { writeSync } from 'node:fs'
import { mkdir, mkdtemp, open, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { optionsFromEnv } from 'merchant-auth'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { isWindows } from '../support/platform.ts'
import { noteSecret } from '../support/recorded.ts'
import { IN_WINDOW_MS, LIFETIME_MS, startRig, startWithVault } from './rotating-service.ts'

const NEW_SECRET = 'the secret that comes next'
/** Longer than the pause after a background renewal that failed 20 s before its token ends. */
const LONGEST_PAUSE_MS = 6_500

beforeEach(() => noteSecret(NEW_SECRET))

describe('the rotation of a client secret in the vault under load', () => {
  it('needs one token request per renewal, none rejected, while both secrets are accepted', async () => {
    const { service, rig, vault } = await startWithVault()
    service.acceptSecrets(service.clientSecret, NEW_SECRET)
    await rig.renewal() // the vault still returns the old secret
    vault.secret = NEW_SECRET
    await rig.renewal()
    service.acceptSecrets(NEW_SECRET)
    await rig.callsContinue()
    await rig.renewal()
    expect(rig.requests).toEqual({ sent: 4, rejected: 0 })
  })

  it.each([
    ['in the background', IN_WINDOW_MS, 'token-renewed'],
    ['that every call waits for', LIFETIME_MS, 'token-acquired'],
  ] as const)(
    'repeats the token request once if the old secret is revoked during a token request %s',
    async (_, aheadMs, type) => {
      const { service, rig, vault } = await startWithVault()
      rig.onEvent = (event) => {
        if (event.type !== 'token-requested') return
        vault.secret = NEW_SECRET // the request already carries the old secret
        service.acceptSecrets(NEW_SECRET)
      }
      rig.clock.advance(aheadMs)
      await rig.emitted(type, type === 'token-acquired' ? 2 : 1)
      await rig.callsContinue()
      expect(rig.requests).toEqual({ sent: 3, rejected: 1 })
      await rig.renewal()
      expect(rig.requests).toEqual({ sent: 4, rejected: 1 })
    },
  )

  it('fails no call while the vault returns the revoked secret, and retries the renewal after each pause', async () => {
    const { service, rig, vault } = await startWithVault()
    service.acceptSecrets(NEW_SECRET)
    rig.clock.advance(IN_WINDOW_MS)
    await rig.emitted('token-request-failed', 1)
    await rig.callsContinue()
    expect(rig.requests).toEqual({ sent: 2, rejected: 1 })
    rig.clock.advance(LONGEST_PAUSE_MS)
    await rig.emitted('token-request-failed', 2)
    await rig.callsContinue()
    expect(rig.requests).toEqual({ sent: 3, rejected: 2 })
    vault.secret = NEW_SECRET
    rig.clock.advance(LONGEST_PAUSE_MS)
    await rig.emitted('token-renewed', 1)
    await rig.renewal() // past the expiry of the first token
    expect(rig.requests).toEqual({ sent: 5, rejected: 2 })
  })
})

describe('the rotation of a client secret in MERCHANT_AUTH_CLIENT_SECRET_FILE under load', () => {
  const startWithFile = async (fileOf: (folder: string, secret: string) => Promise<string>) => {
    const folder = await mkdtemp(join(tmpdir(), 'merchant-auth-rotation-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    let file = ''
    const started = await startRig(async ({ environment, clientId, clientSecret }) => {
      file = await fileOf(folder, clientSecret)
      return optionsFromEnv({
        MERCHANT_AUTH_URL: environment.authUrl,
        MERCHANT_AUTH_AUDIENCE: environment.audience,
        MERCHANT_AUTH_API_URLS: Object.values(environment.apiUrls).join(),
        MERCHANT_AUTH_CLIENT_ID: clientId,
        MERCHANT_AUTH_CLIENT_SECRET_FILE: file,
      })
    })
    return { ...started, folder, file }
  }
  it.skipIf(isWindows)(
    'works through a symbolic link, as in Kubernetes (Windows needs a right for links)',
    async () => {
      const version = async (folder: string, name: string, secret: string): Promise<void> => {
        await mkdir(join(folder, name))
        await writeFile(join(folder, name, 'client-secret'), secret)
        await symlink(name, join(folder, '..data.new'))
        await rename(join(folder, '..data.new'), join(folder, '..data'))
      }
      const { service, rig, folder } = await startWithFile(async (mounted, secret) => {
        await version(mounted, '..version-1', secret)
        await symlink('..data/client-secret', join(mounted, 'client-secret'))
        return join(mounted, 'client-secret')
      })
      await version(folder, '..version-2', NEW_SECRET)
      service.acceptSecrets(NEW_SECRET)
      await rig.renewal()
      expect(rig.requests).toEqual({ sent: 2, rejected: 0 })
    },
  )

  it('sends no token request while the file is empty during a rewrite, and renews the token later', async () => {
    const { service, rig, file } = await startWithFile(async (folder, secret) => {
      await writeFile(join(folder, 'client-secret'), `${secret}\n`)
      return join(folder, 'client-secret')
    })
    service.acceptSecrets(NEW_SECRET)
    const writing = await open(file, 'w') // empty now
    onTestFinished(() => writing.close())
    const codes: string[] = []
    rig.onEvent = (event) => {
      if (event.type !== 'token-request-failed') return
      if (codes.length === 0) writeSync(writing.fd, NEW_SECRET)
      codes.push(event.code)
    }
    rig.clock.advance(IN_WINDOW_MS)
    await rig.emitted('token-request-failed', 1)
    await rig.callsContinue()
    rig.clock.advance(LONGEST_PAUSE_MS)
    await rig.emitted('token-renewed', 1)
    expect(codes).toEqual(['ERR_CLIENT_SECRET'])
    expect(rig.requests).toEqual({ sent: 2, rejected: 0 })
  })
})
