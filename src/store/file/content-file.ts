/** One file of a file token store: a value and its time. It is created whole, and read without following links. */
import { constants } from 'node:fs'
import { type FileHandle, open, unlink } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { storeErrorCode } from '../token-store.ts'

/** What a file contains, as JSON. The times (epoch ms) are those of the writer's wall clock. */
export interface Content {
  readonly value: string
  readonly writtenAt: number
  readonly endsAt: number
}

/** A file as it was read; without content if it is damaged, or not a file of a store. */
export interface ReadFile {
  readonly content: Content | undefined
  readonly isEmpty: boolean
  /** When it was changed (epoch ms), by the clock of the file system. */
  readonly changedAt: number
}

/** A clock that is set back by more than this ends what was written before. Time synchronization makes smaller steps. */
const CLOCK_TOLERANCE_MS = 2_000
/** Values are a few kilobytes. */
const MAX_BYTES = 1_024 * 1_024
const FILE_MODE = 0o600

/** Links are not followed, and nothing that blocks (a FIFO, some devices) is waited for. Windows has no such flags. */
const onlyFiles = (): number => (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0)
/** What opening a link or a socket fails with; on the BSDs, EMLINK and EFTYPE for a link. */
const FOREIGN = ['ELOOP', 'EMLINK', 'EFTYPE', 'ENXIO', 'EISDIR']

/** How long (ms) a file is tried again that another process has: less than the time limit of a store's operation. */
export const HELD_MS = 600
/** What Windows fails with while another process replaces or removes a file. */
const HELD = ['EPERM', 'EACCES', 'EBUSY']

/** A pause between two tries, at random, because several processes may try. */
export async function sleepUntilFree(): Promise<void> {
  await sleep(5 + Math.random() * 20)
}

/** Opens a file; on Windows, also one that another process holds for a moment. */
async function openFile(path: string, flags: number): Promise<FileHandle> {
  for (const endsAt = performance.now() + HELD_MS; ; ) {
    try {
      return await open(path, flags | onlyFiles())
    } catch (error) {
      const isHeld = process.platform === 'win32' && HELD.includes(storeErrorCode(error) ?? '')
      if (!isHeld || performance.now() >= endsAt) throw error
      await sleepUntilFree()
    }
  }
}

/** The content for a value that is written now. */
export function contentFor(value: string, ttlMs: number): Content {
  const writtenAt = Date.now()
  return { value, writtenAt, endsAt: writtenAt + ttlMs }
}

/** What remains of the time (ms); 0 after the clock was set back to before it began. */
export function remainsMs({ writtenAt, endsAt }: Content): number {
  const now = Date.now()
  if (now < writtenAt - CLOCK_TOLERANCE_MS) return 0
  return Math.max(0, Math.floor(Math.min(endsAt - now, endsAt - writtenAt)))
}

/** Reads a file. Resolves with undefined if there is none. */
export async function readContentFile(path: string): Promise<ReadFile | undefined> {
  let file: FileHandle | undefined
  try {
    file = await openFile(path, constants.O_RDONLY)
    const found = await file.stat()
    const isForeign = !found.isFile() || found.size > MAX_BYTES
    const text = isForeign ? undefined : await file.readFile('utf8')
    return { content: contentOf(text), isEmpty: text === '', changedAt: found.mtimeMs }
  } catch (error) {
    const code = storeErrorCode(error) ?? ''
    if (code === 'ENOENT') return undefined
    if (FOREIGN.includes(code)) return { content: undefined, isEmpty: false, changedAt: 0 }
    throw error
  } finally {
    await file?.close()
  }
}

function contentOf(text = ''): Content | undefined {
  try {
    const { value, writtenAt, endsAt } = JSON.parse(text) as { readonly [Name in keyof Content]?: unknown }
    if (typeof value !== 'string' || typeof writtenAt !== 'number' || typeof endsAt !== 'number')
      return undefined
    return { value, writtenAt, endsAt }
  } catch {
    return undefined
  }
}

/** Creates a file that does not exist yet, and removes it again if that fails. */
export async function createContentFile(path: string, content: Content): Promise<void> {
  const file = await open(path, 'wx', FILE_MODE)
  try {
    await file.writeFile(JSON.stringify(content))
    await file.close()
  } catch (error) {
    await file.close().catch(() => {})
    await removeFile(path)
    throw error
  }
}

/** Makes the content of a file invalid. The file stays. */
export async function invalidateFile(path: string): Promise<void> {
  try {
    const file = await openFile(path, constants.O_WRONLY)
    await file.writeFile('released').finally(() => file.close())
  } catch (error) {
    if (storeErrorCode(error) !== 'ENOENT') throw error
  }
}

/** Removes a file, if it is there. */
export async function removeFile(path: string): Promise<void> {
  await unlink(path).catch(() => {})
}
