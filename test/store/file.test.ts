/** The file store: its directory, its files, and what it does with those that it cannot use. */
import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { createFileTokenStore } from 'merchant-auth/file'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { isWindows } from '../support/platform.ts'
import { problemsIn } from '../support/problems.ts'
import { rejection } from '../token/harness.ts'
import { describeTokenStore } from './contract.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const LONG_MS = 60_000
const UUID = '2c70e12b-7a06-46f9-8279-f427c7b38e73'

const folders: string[] = []

/** A new folder, with mode 0700. */
function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'file-store-'))
  folders.push(folder)
  return folder
}

afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

/** The wall clock is set to a time from now; timers run as usual. */
function setClock(aheadMs: number): void {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + aheadMs })
}

/** The files and folders of the store, those in its folders included. */
const namesIn = (folder: string, pattern = /\.(?:entry|lock|lease|tmp)$/): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => pattern.test(name))
const pathIn = (folder: string, pattern: RegExp): string => join(folder, namesIn(folder, pattern)[0] ?? '')
const modeOf = (path: string): number => statSync(path).mode & 0o7777

/** A store with an entry, and the path of the entry's file. */
async function withEntry(ttlMs = LONG_MS) {
  const folder = newFolder()
  const store = createFileTokenStore(folder)
  await store.set('key', 'value', ttlMs)
  return { folder, store, path: pathIn(folder, /\.entry$/) }
}

const OF_THE_USER = 'of the user'

/** What may be in the place of a file of the store. */
const FOREIGN: [what: string, place: (path: string) => unknown][] = [
  ['an empty folder', (path) => mkdirSync(path)],
  [
    'a huge file',
    (path) => {
      writeFileSync(path, '{}')
      truncateSync(path, 8 * 1_024 ** 3)
    },
  ],
  ...(isWindows
    ? []
    : ([
        ['a FIFO', (path) => void execFileSync('mkfifo', [path])],
        ['a socket', socketAt],
        ['a symbolic link to a file', linkAt],
        ['a symbolic link to itself', (path) => symlinkSync(path, path)],
      ] satisfies [string, (path: string) => unknown][])),
]
if (process.platform === 'linux' && process.getuid?.() === 0)
  FOREIGN.push(['a device', (path) => void execFileSync('mknod', [path, 'c', '1', '5'])]) // like /dev/zero

/** Returns the file that the link leads to. */
function linkAt(path: string): string {
  const target = join(newFolder(), 'target')
  writeFileSync(target, OF_THE_USER)
  symlinkSync(target, path)
  return target
}

/** The socket stays when its process was killed. */
function socketAt(path: string): void {
  const code = `require('node:net').createServer().listen(${JSON.stringify(basename(path))}, () => process.kill(process.pid, 'SIGKILL'))`
  spawnSync(process.execPath, ['-e', code], { cwd: dirname(path) }) // a path of a socket is short
}

describe('the contract of a token store', () => {
  let folder: string
  describeTokenStore(async () => {
    if (!existsSync(folder ?? '')) folder = newFolder()
    return createFileTokenStore(folder)
  })
})

describe('the directory', () => {
  it('is created with its parents, for its owner only, and ignored by git', async () => {
    const folder = join(newFolder(), 'var', 'tokens')
    await createFileTokenStore(folder).set('key', 'value', LONG_MS)
    if (!isWindows) expect([modeOf(folder), modeOf(join(folder, '.gitignore'))]).toEqual([0o700, 0o600])
    expect(readFileSync(join(folder, '.gitignore'), 'utf8')).toBe('*\n')
  })

  it('gets no .gitignore where it has files already', async () => {
    const folder = newFolder()
    writeFileSync(join(folder, 'program.js'), '')
    await createFileTokenStore(folder).set('key', 'value', LONG_MS)
    expect(readdirSync(folder)).not.toContain('.gitignore')
  })

  it('stays the same when the working directory changes', async () => {
    const folder = newFolder()
    vi.spyOn(process, 'cwd').mockReturnValue(folder)
    const store = createFileTokenStore('tokens')
    vi.spyOn(process, 'cwd').mockReturnValue(newFolder())
    await store.set('key', 'value', LONG_MS)
    expect(namesIn(join(folder, 'tokens'), /\.entry$/)).toHaveLength(1)
  })

  describe.skipIf(isWindows)('that others can write (Windows has no modes)', () => {
    /** The directory is rejected, and stays as it is. */
    const expectRejection = (folder: string): void => {
      const [mode, names] = [modeOf(folder), readdirSync(folder)]
      expect(problemsIn(() => createFileTokenStore(folder))).toMatchObject([
        {
          option: 'directory',
          kind: 'insecure',
          reason: expect.stringMatching(/^\/.*only its owner.*chmod 700/),
        },
      ])
      expect([modeOf(folder), readdirSync(folder)]).toEqual([mode, names])
    }

    it.each(['777', '770', '702'])('is rejected where no store has been: mode %s', (mode) => {
      const folder = newFolder()
      chmodSync(folder, Number.parseInt(mode, 8))
      expectRejection(folder)
    })

    it.each(['2770', '777'])(
      "is made its owner's again where only a store has been: mode %s, as by the fsGroup of Kubernetes",
      async (mode) => {
        const folder = join(newFolder(), 'tokens')
        const store = createFileTokenStore(folder)
        await store.set('key', 'value', LONG_MS)
        await store.lease?.('key', LONG_MS)
        chmodSync(folder, Number.parseInt(mode, 8))
        expect(await createFileTokenStore(folder).get('key')).toMatchObject({ value: 'value' })
        expect(modeOf(folder)).toBe(0o700)
      },
    )

    it("is made its owner's again before it has an entry", () => {
      const folder = join(newFolder(), 'tokens')
      createFileTokenStore(folder)
      writeFileSync(join(folder, `${crypto.randomUUID()}.tmp`), '') // of a process that was killed when it looked at the modes
      chmodSync(folder, 0o2770)
      createFileTokenStore(folder)
      expect(modeOf(folder)).toBe(0o700)
    })

    it.each([
      ['another file', (folder: string) => writeFileSync(join(folder, 'notes'), '')],
      ['a .gitignore of the user', (folder: string) => writeFileSync(join(folder, '.gitignore'), 'dist\n')],
      ['a file as large as its .gitignore', (folder: string) => writeFileSync(join(folder, 'x'), '*\n')],
      ...[`x${'0'.repeat(64)}.entry`, `${'0'.repeat(64)}.entry.bak`, `x ${UUID}.tmp`, `${UUID}.tmp.bak`].map(
        (name): [string, (folder: string) => void] => [
          name,
          (folder) => writeFileSync(join(folder, name), ''),
        ],
      ),
    ])('is rejected where there is %s, too', async (_, place) => {
      const { folder } = await withEntry()
      place(folder)
      chmodSync(folder, 0o2770)
      expectRejection(folder)
    })

    it.runIf(process.getuid?.() === 0)("is rejected where it is another user's", async () => {
      const { folder } = await withEntry()
      chmodSync(folder, 0o2770)
      chownSync(folder, 65_534, 65_534)
      expectRejection(folder)
    })
  })

  it.skipIf(isWindows).each([0o755, 0o750])(
    'is accepted where others can only read it: mode %o (Windows has no modes)',
    async (mode) => {
      const folder = newFolder()
      chmodSync(folder, mode)
      await createFileTokenStore(folder).set('key', 'value', LONG_MS)
      expect(modeOf(pathIn(folder, /\.entry$/))).toBe(0o600)
      expect(modeOf(folder)).toBe(mode)
    },
  )

  it.each([[''], [undefined], [5], [{}]])('must be the path of one: %j', (path) => {
    expect(problemsIn(() => createFileTokenStore(path as string))).toEqual([
      { option: 'directory', kind: 'missing', reason: 'must be the path of a directory' },
    ])
    expect(() => createFileTokenStore(path as string)).toThrow('The file token store cannot be used')
  })

  it('is created again if it is removed while the process runs', async () => {
    const { folder, store } = await withEntry()
    const release = await store.lease?.('key', LONG_MS)
    rmSync(folder, { recursive: true })
    expect(await store.get('key')).toBeUndefined()
    await release?.()
    await store.set('key', 'newer', LONG_MS)
    expect(await store.get('key')).toMatchObject({ value: 'newer' })
    rmSync(folder, { recursive: true })
    expect(await store.lease?.('key', LONG_MS)).toBeTypeOf('function')
  })

  it.runIf(process.platform === 'linux')('fails at once where none can be created', async () => {
    const store = createFileTokenStore('/proc/tokens/of/this/test')
    expect(await store.get('key')).toBeUndefined()
    expect(await rejection(store.set('key', 'value', LONG_MS))).toMatchObject({ code: 'ENOENT' })
  })

  it('that is a file fails every operation, and no process', async () => {
    const path = join(newFolder(), 'file')
    writeFileSync(path, '')
    const store = createFileTokenStore(path)
    if (isWindows)
      expect(await store.get('key')).toBeUndefined() // the system says only that it is not there
    else expect(await rejection(store.get('key'))).toMatchObject({ code: 'ENOTDIR' })
    expect(await rejection(store.set('key', 'value', LONG_MS))).toHaveProperty('code')
    expect(await rejection(Promise.resolve(store.lease?.('key', LONG_MS)))).toHaveProperty('code')
    expect(readFileSync(path, 'utf8')).toBe('')
  })
})

describe('an entry', () => {
  it.skipIf(isWindows)(
    'is a file for its owner only, and so is a lease, in a folder for its owner only (Windows has no modes)',
    async () => {
      const { folder, store, path } = await withEntry()
      await store.lease?.('key', LONG_MS)
      expect(modeOf(path)).toBe(0o600)
      expect(modeOf(pathIn(folder, /\.lock$/))).toBe(0o700)
      expect(modeOf(pathIn(folder, /\.lease$/))).toBe(0o600)
      expect(namesIn(folder)).toHaveLength(3)
    },
  )

  it.each([['k'.repeat(300)], ['../../key'], ['CON'], ['Key: with "characters"\0']])(
    'may have any key: %j',
    async (key) => {
      const folder = newFolder()
      const store = createFileTokenStore(folder)
      await store.set(key, 'value', LONG_MS)
      expect(await store.get(key)).toMatchObject({ value: 'value' })
      expect(await store.lease?.(key, LONG_MS)).toBeTypeOf('function')
      expect(namesIn(folder)).toHaveLength(3)
    },
  )

  it('may have a mebibyte, and no more', async () => {
    const { store, path } = await withEntry()
    const content = readFileSync(path, 'utf8')
    writeFileSync(path, content.padEnd(2 ** 20))
    expect(await store.get('key')).toMatchObject({ value: 'value' })
    writeFileSync(path, content.padEnd(2 ** 20 + 1))
    expect(await rejection(store.get('key'))).toMatchObject({ code: 'UNREADABLE' })
  })

  it('is written by many at once', async () => {
    const { folder, store } = await withEntry()
    await Promise.all(Array.from({ length: 20 }, (_, nth) => store.set('key', `value ${nth}`, LONG_MS)))
    expect(namesIn(folder, /\.(?:entry|tmp)$/)).toHaveLength(1)
  })

  it.runIf(process.platform === 'linux')('is closed after it was read', async () => {
    const { folder, store } = await withEntry()
    const openFiles = () => readdirSync('/proc/self/fd').length
    const before = openFiles()
    for (let time = 0; time < 50; time += 1) {
      await store.get('key')
      chmodSync(folder, 0o2770)
      createFileTokenStore(folder)
    }
    expect(openFiles()).toBeLessThan(before + 25)
  })

  it('has the old value or the new one for its readers, however often it is replaced', async () => {
    const { folder, store } = await withEntry()
    const values = ['a'.repeat(4_000), 'b'.repeat(4_000)]
    await store.set('key', values[0] ?? '', LONG_MS)
    let isDone = false
    const writing = (async () => {
      for (let turn = 0; turn < 100; turn += 1) await store.set('key', values[turn % 2] ?? '', LONG_MS)
      isDone = true
    })()
    const reader = createFileTokenStore(folder)
    // Windows does not replace a file that a reader holds: the store removes it first, if it is held for too long.
    const possible = isWindows ? [...values, undefined] : values
    while (!isDone) expect(possible).toContain((await reader.get('key'))?.value)
    await writing
    expect(namesIn(folder, /\.(?:entry|tmp)$/)).toHaveLength(1)
  })

  it.each([
    ['truncated', (path: string) => truncateSync(path, 20)],
    ['empty', (path: string) => truncateSync(path, 0)],
    ...[
      '{"value":5,"writtenAt":1,"endsAt":2}',
      '{"value":"v","writtenAt":"1","endsAt":2}',
      '{"value":"v","writtenAt":1}',
    ].map((text): [string, (path: string) => void] => [
      `foreign (${text})`,
      (path) => writeFileSync(path, text),
    ]),
    ['not JSON', (path: string) => writeFileSync(path, Buffer.from([0xff, 0xfe, 0]))],
  ])('that is %s is UNREADABLE until it is replaced', async (_, damage) => {
    const { store, path } = await withEntry()
    damage(path)
    expect(await rejection(store.get('key'))).toMatchObject({
      code: 'UNREADABLE',
      message: expect.stringContaining('damaged'),
    })
    await store.set('key', 'newer', LONG_MS)
    expect(await store.get('key')).toMatchObject({ value: 'newer' })
  })

  it.each(FOREIGN)('that is %s is UNREADABLE until it is replaced', async (what, place) => {
    const { store, path } = await withEntry()
    rmSync(path)
    const target = place(path)
    expect(await rejection(store.get('key'))).toMatchObject({ code: 'UNREADABLE' })
    await store.set('key', 'newer', LONG_MS)
    expect(await store.get('key')).toMatchObject({ value: 'newer' })
    if (what.includes('link to a file')) expect(readFileSync(String(target), 'utf8')).toBe(OF_THE_USER)
  })

  it('that is a folder with files in it stays as it is', async () => {
    const { folder, store, path } = await withEntry()
    rmSync(path)
    mkdirSync(path)
    writeFileSync(join(path, 'file'), OF_THE_USER)
    expect(await rejection(store.get('key'))).toMatchObject({ code: 'UNREADABLE' })
    expect(await rejection(store.set('key', 'newer', LONG_MS))).toHaveProperty('code')
    expect(readFileSync(join(path, 'file'), 'utf8')).toBe(OF_THE_USER)
    expect(namesIn(folder, /\.tmp$/)).toEqual([])
  })

  it.skipIf(isWindows || process.getuid?.() === 0)(
    'fails with EACCES where the directory cannot be written (Windows has no modes)',
    async () => {
      const { folder, store } = await withEntry()
      chmodSync(folder, 0o500)
      expect(await store.get('key')).toMatchObject({ value: 'value' })
      expect(await rejection(store.set('key', 'newer', LONG_MS))).toMatchObject({ code: 'EACCES' })
      expect(await rejection(Promise.resolve(store.lease?.('new key', LONG_MS)))).toMatchObject({
        code: 'EACCES',
      })
      chmodSync(folder, 0o700)
    },
  )
})

describe('the time of an entry', () => {
  it('is over when the wall clock says so', async () => {
    const { store } = await withEntry()
    setClock(LONG_MS - 1_000)
    expect((await store.get('key'))?.ttlMs).toBeLessThanOrEqual(1_000)
    setClock(1_000)
    expect(await store.get('key')).toBeUndefined()
  })

  it.each([-HOUR_MS, -3_000])(
    'is over when the clock was set back to before it was written: by %d ms',
    async (ms) => {
      const { store } = await withEntry(DAY_MS)
      setClock(ms)
      expect(await store.get('key')).toBeUndefined()
    },
  )

  it('is not longer after the clock was set back a little', async () => {
    const { store } = await withEntry()
    setClock(-1_000)
    expect((await store.get('key'))?.ttlMs).toBeLessThanOrEqual(LONG_MS)
  })

  it('is over when the clock was set back by more than two seconds', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    const { store } = await withEntry()
    setClock(-2_000)
    expect(await store.get('key')).toBeDefined()
    setClock(-1)
    expect(await store.get('key')).toBeUndefined()
  })

  it.each([-DAY_MS, 0, DAY_MS])('does not depend on the time of its file: %d ms from now', async (ms) => {
    const { store, path } = await withEntry()
    setClock(LONG_MS - 1_000)
    const seconds = (Date.now() + ms) / 1_000
    utimesSync(path, seconds, seconds)
    expect((await store.get('key'))?.ttlMs).toBeGreaterThan(0)
    expect((await store.get('key'))?.ttlMs).toBeLessThanOrEqual(1_000)
  })

  it('that is over before it is written, by a process that had stopped, replaces no other one', async () => {
    const { folder, store } = await withEntry()
    const writing = store.set('key', 'older', 1_000)
    setClock(2_000)
    await writing
    expect((await store.get('key'))?.value).toBe('value')
    expect(namesIn(folder, /\.(?:entry|tmp)$/)).toHaveLength(1)
  })
})

describe('a lease', () => {
  const leaseIn = (folder: string): string => pathIn(folder, /\.lease$/)

  it('of a killed holder ends with its time, whatever the clock was set to', async () => {
    const { store } = await withEntry()
    await store.lease?.('key', LONG_MS)
    setClock(-HOUR_MS)
    expect(await store.lease?.('key', LONG_MS)).toBeTypeOf('function')
    setClock(LONG_MS)
    expect(await store.lease?.('key', LONG_MS)).toBeTypeOf('function')
  })

  it('that has no content yet is held for a second, and one with damaged content is not', async () => {
    const { folder, store } = await withEntry()
    await store.lease?.('key', LONG_MS)
    truncateSync(leaseIn(folder), 0)
    expect(await store.lease?.('key', LONG_MS)).toBeUndefined()
    setClock(1_500)
    expect(await store.lease?.('key', LONG_MS)).toBeTypeOf('function')
    for (const name of namesIn(folder, /\.lease$/)) writeFileSync(join(folder, name), 'foreign')
    expect(await store.lease?.('key', LONG_MS)).toBeTypeOf('function')
  })

  it.each(FOREIGN)('that is %s is not held by anybody', async (what, place) => {
    const { folder, store } = await withEntry()
    const release = await store.lease?.('key', LONG_MS)
    const path = leaseIn(folder)
    rmSync(path)
    const target = place(path)
    await release?.().catch(() => {})
    const next = await store.lease?.('key', LONG_MS)
    expect(next).toBeTypeOf('function')
    expect(await store.lease?.('key', LONG_MS)).toBeUndefined()
    await next?.()
    if (what.includes('link to a file')) expect(readFileSync(String(target), 'utf8')).toBe(OF_THE_USER)
  })

  it.each(FOREIGN)('has a folder of its own in the place of %s', async (what, place) => {
    const { folder, store } = await withEntry()
    const path = pathIn(folder, /\.lock$/)
    rmSync(path, { recursive: true })
    const target = place(path)
    expect(await store.lease?.('key', LONG_MS)).toBeTypeOf('function')
    await store.set('key', 'newer', LONG_MS)
    expect(namesIn(path)).toHaveLength(1)
    if (what.includes('link to a file')) expect(readFileSync(String(target), 'utf8')).toBe(OF_THE_USER)
  })

  it('has a number that the store gave it, whatever else has one', async () => {
    const { folder, store } = await withEntry()
    writeFileSync(join(pathIn(folder, /\.lock$/), `${'9'.repeat(30)}.lease`), '')
    setClock(LONG_MS)
    const release = await store.lease?.('key', LONG_MS)
    expect(namesIn(folder, /\D1\.lease$/)).toHaveLength(1)
    await release?.()
    expect(await store.lease?.('key', LONG_MS)).toBeTypeOf('function')
  })

  it.skipIf(isWindows)(
    'is not in the folder that a link in the place of its own leads to (Windows needs a right for links)',
    async () => {
      const { folder, store } = await withEntry()
      const path = pathIn(folder, /\.lock$/)
      const target = newFolder()
      rmSync(path, { recursive: true })
      symlinkSync(target, path)
      expect(await store.lease?.('key', LONG_MS)).toBeTypeOf('function')
      expect(readdirSync(target)).toEqual([])
      expect(namesIn(path)).toHaveLength(1)
    },
  )

  it('is not disturbed by the release of a former holder that slept for days, whatever its number', async () => {
    const { folder, store } = await withEntry()
    const release = await store.lease?.('key', LONG_MS)
    setClock(2 * DAY_MS)
    await createFileTokenStore(folder).set('another key', 'value', LONG_MS) // removes what is unused
    expect(namesIn(folder, /\.lease$/)).toEqual([])
    expect(await store.lease?.('key', LONG_MS)).toBeTypeOf('function')
    await release?.()
    expect(await store.lease?.('key', LONG_MS)).toBeUndefined()
  })
})

describe('what is not needed any more', () => {
  const acquireAndRelease = async (store: ReturnType<typeof createFileTokenStore>, key = 'key') => {
    const release = await store.lease?.(key, LONG_MS)
    await release?.()
  }

  it('is one file for each entry and one for its lease, however often both are used', async () => {
    const { folder, store } = await withEntry()
    for (let turn = 0; turn < 10; turn += 1) {
      await acquireAndRelease(store)
      await store.set('key', `value ${turn}`, LONG_MS)
    }
    expect(namesIn(folder)).toHaveLength(3)
  })

  it('is removed after a day: entries, leases, and what killed writers left', async () => {
    const { folder, store } = await withEntry()
    await acquireAndRelease(store)
    const left = join(pathIn(folder, /\.lock$/), `${crypto.randomUUID()}.tmp`)
    writeFileSync(left, readFileSync(pathIn(folder, /\.entry$/))) // it was killed before the renaming
    setClock(DAY_MS + LONG_MS)
    await createFileTokenStore(folder).set('another key', 'value', LONG_MS)
    expect(namesIn(folder, /\.entry$/)).toHaveLength(1)
    expect(existsSync(dirname(left))).toBe(false)
  })

  it('stays for a day, and is looked for once an hour', async () => {
    const { folder, store } = await withEntry()
    const left = async () => {
      await store.set('another key', 'value', LONG_MS)
      return namesIn(folder, /\.entry$/).length - 1
    }
    setClock(DAY_MS - LONG_MS)
    expect(await left()).toBe(1)
    setClock(59 * LONG_MS) // by now it could be removed
    expect(await left()).toBe(1)
    setClock(2 * LONG_MS)
    expect(await left()).toBe(0)
  })

  it('leaves the files of others alone', async () => {
    const { folder, store } = await withEntry()
    const others = ['notes.tmp', 'data.entry', '1.lease', join('data.lock', '1.lease')]
    mkdirSync(join(folder, 'data.lock'))
    for (const name of others) writeFileSync(join(folder, name), '')
    const inLock = ['notes', 'my1.lease', '1.leases', 'x.lease']
    const lock = pathIn(folder, /[0-9a-f]{64}\.lock$/)
    for (const name of [...inLock, '12.lease']) writeFileSync(join(lock, name), '')
    setClock(30 * DAY_MS)
    await store.set('another key', 'value', LONG_MS)
    const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    expect(names).toEqual(expect.arrayContaining(others))
    expect(readdirSync(lock).sort()).toEqual(inLock.sort())
    expect(namesIn(folder, /[0-9a-f]{64}\.entry$/)).toHaveLength(1) // the old one is gone
  })

  it('includes entries whose time is not over yet, although they were written long ago: they stay', async () => {
    const { folder, store } = await withEntry(10 * DAY_MS)
    await createFileTokenStore(folder).set('short', 'value', 1)
    setClock(5 * DAY_MS)
    await store.set('another key', 'value', LONG_MS)
    expect(namesIn(folder, /\.entry$/)).toHaveLength(2) // the short one is gone
    expect(await store.get('key')).toMatchObject({ value: 'value' })
  })

  it('is removed for some milliseconds at a time, as a caller waits, until nothing is left', async () => {
    const { folder, store } = await withEntry()
    for (let count = 0; count < 20; count += 1) await store.set(`key ${count}`, 'value', LONG_MS)
    let now = Date.now() + 2 * DAY_MS
    vi.spyOn(Date, 'now').mockImplementation(() => {
      now += 4
      return now
    })
    await store.set('key', 'newer', LONG_MS)
    expect(namesIn(folder, /\.entry$/).length).toBeGreaterThan(15)
    for (let turn = 0; turn < 50; turn += 1) await store.set('key', 'newer', LONG_MS)
    expect(namesIn(folder, /\.entry$/)).toHaveLength(1)
  })
})
