/** What the file store does where an operation of the file system fails: on Windows, what another process holds is tried again. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'

const disk = vi.hoisted(() => ({
  /** The operations so far, each with the name of its file. */
  done: [] as string[],
  handles: [] as FileHandle[],
  /** Throws if the operation is to fail. */
  before: (_operation: string, _path: string): void => {},
}))
vi.mock('node:fs/promises', async (original) => {
  const real = await original<typeof import('node:fs/promises')>()
  const perform = (operation: string, path: string): void => {
    disk.done.push(operation)
    disk.before(operation, path)
  }
  const open = async (path: string, ...rest: [string | number, number?]): Promise<FileHandle> => {
    perform('open', path)
    const handle = await real.open(path, ...rest)
    disk.handles.push(handle)
    const { writeFile } = handle
    handle.writeFile = async (...args) => {
      perform('write', path)
      return await writeFile.apply(handle, args)
    }
    return handle
  }
  const rename = async (from: string, to: string): Promise<void> => {
    perform('rename', to)
    await real.rename(from, to)
  }
  const unlink = async (path: string): Promise<void> => {
    perform('unlink', path)
    await real.unlink(path)
  }
  const mkdir = async (path: string, mode: number): Promise<void> => {
    perform('mkdir', path)
    await real.mkdir(path, mode)
  }
  return { ...real, open, rename, unlink, mkdir }
})
vi.resetModules() // in mutation tests another file may have loaded them
const { createFileTokenStore } = await import('merchant-auth/file')

const LONG_MS = 60_000
const { platform } = process
let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'file-faults-'))
})
afterEach(() => {
  rmSync(folder, { recursive: true })
  disk.before = () => {}
  Object.defineProperty(process, 'platform', { value: platform })
})

/** A store with one entry, and what it did since then. */
async function withEntry() {
  const store = createFileTokenStore(folder)
  await store.set('key', 'older', LONG_MS)
  disk.done.length = 0
  disk.handles.length = 0
  const valueNow = async (): Promise<string | undefined> => {
    disk.before = () => {}
    return (await store.get('key'))?.value
  }
  return { store, valueNow }
}

function onWindows(): void {
  Object.defineProperty(process, 'platform', { value: 'win32' })
}

function onLinux(): void {
  Object.defineProperty(process, 'platform', { value: 'linux' })
}

/** Lets the operation fail, as often as `times` says, with the code. */
function fail(operation: string, code: string, times = Number.POSITIVE_INFINITY): void {
  let left = times
  disk.before = (performed) => {
    if (performed !== operation || left-- <= 0) return
    throw Object.assign(new Error(code), { code })
  }
}

function countOf(operation: string): number {
  return disk.done.filter((one) => one === operation).length
}

function filesIn(directory: string): string[] {
  return readdirSync(directory, { recursive: true }).map(String)
}

const HELD = ['EPERM', 'EACCES', 'EBUSY']

describe('on Windows, a file that another process holds', () => {
  /** On a busy machine the tries may take longer than 0.6 s. */
  function stopTime(): void {
    vi.spyOn(performance, 'now').mockReturnValue(0)
    onTestFinished(() => void vi.restoreAllMocks())
  }

  it.each(HELD)('is read as soon as that ends: %s', async (code) => {
    const { store } = await withEntry()
    onWindows()
    stopTime()
    fail('open', code, 2)
    expect(await store.get('key')).toMatchObject({ value: 'older' })
    expect(countOf('open')).toBe(3)
  })

  it('is tried for 0.6 s before reading fails', async () => {
    const { store } = await withEntry()
    onWindows()
    fail('open', 'EPERM')
    const startedAt = performance.now()
    await expect(store.get('key')).rejects.toMatchObject({ code: 'EPERM' })
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(600)
    expect(countOf('open')).toBeGreaterThan(3)
  })

  it.each(HELD)('is replaced as soon as that ends: %s', async (code) => {
    const { store, valueNow } = await withEntry()
    onWindows()
    stopTime()
    fail('rename', code, 2)
    await store.set('key', 'newer', LONG_MS)
    expect([countOf('rename'), countOf('unlink')]).toEqual([3, 0])
    expect(await valueNow()).toBe('newer')
  })

  it('is removed after 0.6 s, so that the new one can take its place', async () => {
    const { store, valueNow } = await withEntry()
    onWindows()
    disk.before = (operation, path) => {
      if (operation === 'rename' && existsSync(path))
        throw Object.assign(new Error('EPERM'), { code: 'EPERM' })
    }
    const startedAt = performance.now()
    await store.set('key', 'newer', LONG_MS)
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(600)
    expect(countOf('rename')).toBeGreaterThan(3)
    expect(await valueNow()).toBe('newer')
  })

  it('fails the write if it cannot be removed either, and leaves no other file', async () => {
    const { store, valueNow } = await withEntry()
    onWindows()
    disk.before = (operation, path) => {
      if (operation === 'rename' || path.endsWith('.entry'))
        throw Object.assign(new Error('EPERM'), { code: 'EPERM' })
    }
    await expect(store.set('key', 'newer', LONG_MS)).rejects.toMatchObject({ code: 'EPERM' })
    expect(await valueNow()).toBe('older')
    expect(filesIn(folder).filter((name) => name.endsWith('.tmp'))).toEqual([])
  })

  it('is not tried again for another reason', async () => {
    const { store } = await withEntry()
    onWindows()
    fail('open', 'EIO')
    await expect(store.get('key')).rejects.toMatchObject({ code: 'EIO' })
    expect(countOf('open')).toBe(1)
  })
})

describe('elsewhere, a file that cannot be opened or replaced', () => {
  it('fails at once, and stays', async () => {
    const { store, valueNow } = await withEntry()
    onLinux()
    fail('open', 'EACCES')
    await expect(store.get('key')).rejects.toMatchObject({ code: 'EACCES' })
    fail('rename', 'EACCES')
    await expect(store.set('key', 'newer', LONG_MS)).rejects.toMatchObject({ code: 'EACCES' })
    expect([countOf('open'), countOf('rename')]).toEqual([2, 1])
    expect(await valueNow()).toBe('older')
  })
})

it.each(['ELOOP', 'EMLINK', 'EFTYPE', 'ENXIO', 'EISDIR'])(
  'what systems say of a link or a socket in the place of an entry is a damaged entry: %s',
  async (code) => {
    const { store } = await withEntry()
    fail('open', code)
    await expect(store.get('key')).rejects.toMatchObject({ code: 'UNREADABLE' })
  },
)

it('a full disk fails the write with its own error, and nothing of it stays', async () => {
  const { store, valueNow } = await withEntry()
  fail('write', 'ENOSPC')
  await expect(store.set('key', 'newer', LONG_MS)).rejects.toMatchObject({ code: 'ENOSPC' })
  await expect(store.lease?.('key', LONG_MS)).rejects.toMatchObject({ code: 'ENOSPC' })
  expect(countOf('write')).toBe(2)
  expect(filesIn(folder).filter((name) => /\.(?:tmp|lease)$/.test(name))).toEqual([])
  expect(await valueNow()).toBe('older')
})

it('a folder that another process creates at the same moment is used', async () => {
  const store = createFileTokenStore(folder)
  disk.before = (operation, path) => {
    if (operation === 'mkdir') mkdirSync(path) // so that its own attempt fails with EEXIST
  }
  await store.set('key', 'value', LONG_MS)
  expect(await store.get('key')).toMatchObject({ value: 'value' })
})

it('a folder that cannot be created fails the write with its own error', async () => {
  const store = createFileTokenStore(folder)
  fail('mkdir', 'EACCES')
  await expect(store.set('key', 'value', LONG_MS)).rejects.toMatchObject({ code: 'EACCES' })
  expect(filesIn(folder).filter((name) => name !== '.gitignore')).toEqual([])
})

it('a lease that cannot be released says so, but not one whose file is gone', async () => {
  const { store } = await withEntry()
  const release = await store.lease?.('key', LONG_MS)
  fail('open', 'EIO')
  await expect(release?.()).rejects.toMatchObject({ code: 'EIO' })
  fail('open', 'ENOENT')
  await expect(release?.()).resolves.toBeUndefined()
})

it('every file is closed again', async () => {
  const { store } = await withEntry()
  await store.get('key')
  await store.set('key', 'newer', LONG_MS)
  const release = await store.lease?.('key', LONG_MS)
  await release?.()
  fail('write', 'ENOSPC', 1)
  await expect(store.set('key', 'newest', LONG_MS)).rejects.toMatchObject({ code: 'ENOSPC' })
  expect(disk.handles.length).toBeGreaterThan(4)
  expect(disk.handles.map(({ fd }) => fd)).toEqual(disk.handles.map(() => -1)) // -1: closed
})
