/** The directory of a file store where modes cannot be changed. */
import { mkdtempSync, rmSync, type Stats } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { isWindows } from '../support/platform.ts'

const fileSystem = vi.hoisted(() => ({
  /** Added to every mode. */
  modes: 0,
  chmod: (_path: string): void => {},
  mkdir: (_path: string): void => {},
}))
vi.mock('node:fs', async (original) => {
  const real = await original<typeof import('node:fs')>()
  const open = (stats: Stats | undefined): Stats | undefined => {
    if (stats !== undefined) stats.mode |= fileSystem.modes
    return stats
  }
  return {
    ...real,
    statSync: (path: string, options?: object) => open(real.statSync(path, options) as Stats | undefined),
    fstatSync: (file: number) => open(real.fstatSync(file)),
    chmodSync: (path: string) => fileSystem.chmod(path),
    mkdirSync: (path: string, mode: number) => {
      fileSystem.mkdir(path)
      return real.mkdirSync(path, mode)
    },
  }
})
vi.resetModules() // in mutation tests another file may have loaded them
const { createFileTokenStore } = await import('merchant-auth/file')
const { kindsOf } = await import('../support/problems.ts')

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'file-modes-'))
})
afterEach(() => {
  rmSync(folder, { recursive: true })
  fileSystem.modes = 0
  fileSystem.mkdir = () => {}
})

const LONG_MS = 60_000
const REFUSALS = [
  ['changes nothing', () => {}],
  [
    'is refused',
    () => {
      throw Object.assign(new Error('EPERM'), { code: 'EPERM' })
    },
  ],
] as const

describe.skipIf(isWindows).each(REFUSALS)('where chmod %s (Windows has no modes)', (_, chmod) => {
  beforeEach(() => {
    fileSystem.chmod = chmod
  })

  it("a file system on which each file is everybody's has no modes: its directory is used, also after a restart", async () => {
    fileSystem.modes = 0o777
    const directory = join(folder, 'tokens')
    for (const value of ['first', 'second']) {
      const store = createFileTokenStore(directory)
      await store.set('key', value, LONG_MS)
      expect(await store.get('key')).toMatchObject({ value })
    }
  })

  it('a directory that others can write is rejected on a file system with modes', async () => {
    await createFileTokenStore(folder).set('key', 'value', LONG_MS)
    const { chmodSync } = await vi.importActual<typeof import('node:fs')>('node:fs')
    chmodSync(folder, 0o770)
    expect(kindsOf(() => createFileTokenStore(folder))).toEqual([['directory', 'insecure']])
  })
})

describe('a directory that is created', () => {
  it('may be created by another process at the same moment', async () => {
    const { mkdirSync } = await vi.importActual<typeof import('node:fs')>('node:fs')
    fileSystem.mkdir = (path) => mkdirSync(path) // so that its own attempt fails with EEXIST
    const store = createFileTokenStore(join(folder, 'some', 'tokens'))
    await store.set('key', 'value', LONG_MS)
    expect(await store.get('key')).toMatchObject({ value: 'value' })
  })

  it('fails with the error of the file system if it cannot be', async () => {
    fileSystem.mkdir = () => {
      throw Object.assign(new Error('EROFS'), { code: 'EROFS' })
    }
    const store = createFileTokenStore(join(folder, 'tokens'))
    await expect(store.set('key', 'value', LONG_MS)).rejects.toMatchObject({ code: 'EROFS' })
  })
})

it('on Windows, which has no modes, a directory is used whatever its mode says', async () => {
  const { platform } = process
  Object.defineProperty(process, 'platform', { value: 'win32' })
  onTestFinished(() => void Object.defineProperty(process, 'platform', { value: platform }))
  const { chmodSync } = await vi.importActual<typeof import('node:fs')>('node:fs')
  chmodSync(folder, 0o770)
  const store = createFileTokenStore(folder)
  await store.set('key', 'value', LONG_MS)
  expect(await store.get('key')).toMatchObject({ value: 'value' })
})
