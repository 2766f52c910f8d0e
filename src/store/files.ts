/** The entries and leases of a file token store: the files in its directory. */
import { createHash, randomUUID } from 'node:crypto'
import { closeSync, constants, openSync, renameSync, utimesSync, writeFileSync } from 'node:fs'
import { type FileHandle, open, readdir, rename, stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { storeErrorCode, type TokenStore, UNREADABLE } from './token-store.ts'

/** What an entry or a lease contains, as JSON. */
interface Content {
  readonly value: string
  readonly ttlMs: number
  readonly endsAt: number
}

/** A file as it was read; without content if that is damaged, or of others. */
interface ReadFile {
  readonly content: Content | undefined
  readonly isEmpty: boolean
  /** When it was written, by the writer's wall clock: the time of the file itself. */
  readonly writtenAt: number
}

/** Links are not followed. Windows has no such flag. */
const NO_FOLLOW = constants.O_NOFOLLOW ?? 0

/** A clock that is set back by more than this makes entries useless. File systems may round times to 2 s. */
const CLOCK_TOLERANCE_MS = 2_000
/** A lease has its content this soon after it was created, or nobody holds it. */
const CREATION_MS = 1_000
/** What a writer that was killed left: operations of a store may take 2 s. */
const LEFTOVER_MS = 10_000
/** Entries and leases of a client that is not used any more. */
const UNUSED_MS = 24 * 60 * 60 * 1_000
const CLEAN_EVERY_MS = 60 * 60 * 1_000

const FILE_MODE = 0o600
const RELEASED = 'released'
const TEMPORARY = '.tmp'

/**
 * The store of a directory. `optionsFromEnv` loads this module when it is needed, so it imports little that the main entry has,
 * too: bundlers would move that to chunks of their own.
 *
 * @param folder its absolute path
 * @param prepare creates the directory again if it was removed while the process ran
 */
export function storeOfFiles(folder: string, prepare: () => void): TokenStore {
  const pathOf = (name: string): string => join(folder, name)
  const leases = new Leases(folder)
  return {
    async get(key) {
      const file = await read(pathOf(entryName(key)))
      if (file === undefined) return undefined
      if (file.content === undefined) throw unreadable()
      const ttlMs = remainsMs(file)
      return ttlMs > 0 ? { value: file.content.value, ttlMs } : undefined
    },
    async set(key, value, ttlMs) {
      const path = pathOf(entryName(key))
      const temporaryPath = (): string => pathOf(`${hashOf(key)}.${randomUUID()}${TEMPORARY}`)
      const content = contentFor(value, ttlMs)
      const isDone = finishAtExit(() => writeNow(path, temporaryPath(), content))
      try {
        await prepared(prepare, async () => {
          const temporary = temporaryPath()
          await create(temporary, content, { isFlushed: true })
          if (isOver(content)) await remove(temporary)
          else await replace(path, temporary)
        })
      } finally {
        isDone()
      }
      removeUnused(folder).catch(() => {}) // it takes time, and nobody waits for it
    },
    async lease(key, ttlMs) {
      return await prepared(prepare, () => leases.acquire(hashOf(key), ttlMs))
    },
  }
}

/** Runs an operation; once more if the directory was removed while the process ran. */
async function prepared<T>(prepare: () => void, act: () => Promise<T>): Promise<T> {
  try {
    return await act()
  } catch (error) {
    if (storeErrorCode(error) !== 'ENOENT') throw error
    prepare()
    return await act()
  }
}

function unreadable(): Error {
  return Object.assign(new Error('The entry is damaged, or not an entry'), { code: UNREADABLE })
}

/**
 * Leases by exclusive creation: the files of one key have numbers, and whoever creates the next one has the lease. A number is
 * never used twice, so that no process removes or releases the lease of another one, however late it wakes: the highest one
 * stays when it is released.
 */
class Leases {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  async acquire(name: string, ttlMs: number): Promise<(() => Promise<void>) | undefined> {
    const seen = numbersIn(await readdir(this.#folder), name)
    if (await this.#isHeld(name, seen)) return undefined
    const number = Math.max(0, ...seen) + 1
    const path = this.#pathOf(name, number)
    try {
      await create(path, contentFor('', ttlMs), { isFlushed: false })
    } catch (error) {
      if (storeErrorCode(error) === 'EEXIST') return undefined
      throw error
    }
    // This process may have been late: others created higher numbers, and removed this one. Each creates first and looks then,
    // so that of two processes at least one sees the other.
    const files = await readdir(this.#folder)
    const others = numbersIn(files, name).filter((other) => other !== number)
    if (others.some((other) => other > number) || (await this.#isHeld(name, others))) {
      await remove(path)
      return undefined
    }
    const isDone = finishAtExit(() => releaseNow(path))
    for (const earlier of others) await remove(this.#pathOf(name, earlier))
    const temporary = files.filter((file) => file.startsWith(name) && file.endsWith(TEMPORARY))
    for (const left of temporary.map((file) => join(this.#folder, file)))
      if (await isOlder(left, Date.now() - LEFTOVER_MS)) await remove(left)
    return () => release(path).finally(isDone)
  }

  #pathOf(name: string, number: number): string {
    return join(this.#folder, `${name}.${number}.lease`)
  }

  async #isHeld(name: string, numbers: readonly number[]): Promise<boolean> {
    const files = await Promise.all(numbers.map((number) => read(this.#pathOf(name, number))))
    return files.some((file) => {
      if (file === undefined) return false
      if (file.isEmpty) return Math.abs(Date.now() - file.writtenAt) < CREATION_MS
      return remainsMs(file) > 0
    })
  }
}

/** The numbers of a key's leases. */
function numbersIn(files: readonly string[], name: string): number[] {
  return files
    .filter((file) => file.startsWith(name))
    .flatMap((file) => /^\.(\d+)\.lease$/.exec(file.slice(name.length))?.[1] ?? [])
    .map(Number)
}

const OWN = /^[0-9a-f]{64}\.(?:\d+\.lease|entry|[0-9a-f-]{36}\.tmp)$/

/** When (epoch ms) this process may look for unused files in a directory again: it may have thousands of stores there. */
const cleanAgainAt = new Map<string, number>()

/**
 * Removes the files of clients that are not used any more. If one of them writes its entry at this moment, that is lost, and its
 * next cold start requests a token.
 */
async function removeUnused(folder: string): Promise<void> {
  const now = Date.now()
  if (now < (cleanAgainAt.get(folder) ?? 0)) return
  cleanAgainAt.set(folder, now + CLEAN_EVERY_MS)
  const files = await readdir(folder)
  for (const path of files.filter((file) => OWN.test(file)).map((file) => join(folder, file)))
    if (await isUnused(path, now - UNUSED_MS)) await remove(path)
}

/** The name of a key's files. It has a fixed length, whatever the key, and file systems that ignore case may have it. */
function hashOf(key: string): string {
  return createHash('sha256').update(key).digest('hex')
}

function entryName(key: string): string {
  return `${hashOf(key)}.entry`
}

/** What remains of the time (ms): the least of what the content and the time of the file say; 0 after the clock was set back. */
function remainsMs({ content, writtenAt }: ReadFile): number {
  const ageMs = Date.now() - writtenAt
  if (content === undefined || ageMs < -CLOCK_TOLERANCE_MS) return 0
  const { ttlMs, endsAt } = content
  return Math.floor(Math.min(ttlMs, ttlMs - ageMs, endsAt - Date.now()))
}

/** Resolves with undefined if there is no such file. */
async function read(path: string): Promise<ReadFile | undefined> {
  let file: FileHandle | undefined
  try {
    file = await open(path, constants.O_RDONLY | NO_FOLLOW)
    const { mtimeMs } = await file.stat()
    const text = await file.readFile('utf8')
    return { content: contentOf(text), isEmpty: text === '', writtenAt: mtimeMs }
  } catch (error) {
    const code = storeErrorCode(error)
    if (code === 'ENOENT') return undefined
    if (code === 'ELOOP') return { content: undefined, isEmpty: false, writtenAt: 0 }
    throw error
  } finally {
    await file?.close()
  }
}

function contentOf(text: string): Content | undefined {
  try {
    const { value, ttlMs, endsAt } = JSON.parse(text) as { readonly [Name in keyof Content]?: unknown }
    if (typeof value !== 'string' || typeof ttlMs !== 'number' || typeof endsAt !== 'number') return undefined
    return { value, ttlMs, endsAt }
  } catch {
    return undefined
  }
}

function contentFor(value: string, ttlMs: number): Content {
  return { value, ttlMs, endsAt: Date.now() + ttlMs }
}

/** A process may have stopped, or been busy, for longer than a token lives. */
function isOver({ endsAt }: Content): boolean {
  return Date.now() >= endsAt
}

/** The time of a file. The clock of its file system may differ, for example where a container shares one with its host. */
function writtenAtSeconds({ endsAt, ttlMs }: Content): number {
  return (endsAt - ttlMs) / 1_000
}

/** Creates a file that does not exist yet, and removes it again if that fails. `isFlushed`: it survives a power failure. */
async function create(
  path: string,
  content: Content,
  { isFlushed }: { readonly isFlushed: boolean },
): Promise<void> {
  const file = await open(path, 'wx', FILE_MODE)
  try {
    await file.writeFile(JSON.stringify(content))
    const seconds = writtenAtSeconds(content)
    await file.utimes(seconds, seconds)
    if (isFlushed) await file.sync()
    await file.close()
  } catch (error) {
    await file.close().catch(() => {})
    await remove(path)
    throw error
  }
}

/** Renames a file over another one. Windows fails while a process reads that one, which is a matter of milliseconds. */
async function replace(path: string, temporary: string): Promise<void> {
  for (let pauseMs = 10; ; pauseMs *= 2) {
    try {
      return await rename(temporary, path)
    } catch (error) {
      if (process.platform !== 'win32' || pauseMs > 160) {
        await remove(temporary)
        throw error
      }
      await sleep(pauseMs)
    }
  }
}

/** Makes the content of a lease invalid. */
async function release(path: string): Promise<void> {
  try {
    const file = await open(path, constants.O_WRONLY | NO_FOLLOW)
    await file.writeFile(RELEASED).finally(() => file.close())
  } catch (error) {
    if (storeErrorCode(error) !== 'ENOENT') throw error
  }
}

/** What is under way in this process. */
const unfinished = new Set<() => void>()

/**
 * Finishes an operation at once if the process exits before the returned function is called, as scripts do as soon as they have
 * the token.
 */
function finishAtExit(finish: () => void): () => void {
  if (unfinished.size === 0) process.on('exit', finishAll)
  unfinished.add(finish)
  return () => {
    if (unfinished.delete(finish) && unfinished.size === 0) process.off('exit', finishAll)
  }
}

/** The last one first: an entry is written before its lease is released. */
function finishAll(): void {
  for (const finish of [...unfinished].reverse()) {
    try {
      finish()
    } catch {
      // The store is not needed any more.
    }
  }
}

function writeNow(path: string, temporary: string, content: Content): void {
  if (isOver(content)) return
  writeFileSync(temporary, JSON.stringify(content), { flag: 'wx', mode: FILE_MODE, flush: true })
  const seconds = writtenAtSeconds(content)
  utimesSync(temporary, seconds, seconds)
  renameSync(temporary, path)
}

function releaseNow(path: string): void {
  const file = openSync(path, constants.O_WRONLY | NO_FOLLOW)
  writeFileSync(file, RELEASED)
  closeSync(file)
}

/** Removes a file, if it is there. */
async function remove(path: string): Promise<void> {
  await unlink(path).catch(() => {})
}

/** Whether a file that is still there was written before a time. */
async function isOlder(path: string, before: number): Promise<boolean> {
  const written = await stat(path).catch(() => undefined)
  return written !== undefined && written.mtimeMs < before
}

/** Whether a file was written, and has ended, before a time. */
async function isUnused(path: string, before: number): Promise<boolean> {
  if (!(await isOlder(path, before))) return false
  const file = await read(path).catch(() => undefined)
  return (file?.content?.endsAt ?? 0) < before
}
