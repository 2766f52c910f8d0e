/** The file token store: for each key an entry in the directory, and a folder for its leases and for what is being written. */
import { rename, rmdir, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { StoreQueue, shareQueue } from '../operation-queue.ts'
import { type TokenStore, UNREADABLE } from '../token-store.ts'
import {
  contentFor,
  createContentFile,
  HELD_MS,
  readContentFile,
  remainsMs,
  removeFile,
  sleepUntilFree,
} from './content-file.ts'
import { temporaryName } from './directory.ts'
import { inFolder, pathsOf } from './key-folder.ts'
import { acquireLease } from './leases.ts'
import { removeUnused } from './unused-files.ts'

/** One for the process: Node.js has four threads for files, and a disk that hangs leaves one of them free. */
const fileQueue = /* @__PURE__ */ new StoreQueue(3)

/**
 * The store of a directory.
 *
 * @param directory its absolute path. It is created again if it was removed while the process ran.
 */
export function storeOfFiles(directory: string): TokenStore {
  const store: TokenStore = {
    async get(key) {
      const file = await readContentFile(pathsOf(directory, key).entry)
      if (file === undefined) return undefined
      if (file.content === undefined) throw unreadable()
      const ttlMs = remainsMs(file.content)
      return ttlMs > 0 ? { value: file.content.value, ttlMs } : undefined
    },
    async set(key, value, ttlMs) {
      const { entry, folder } = pathsOf(directory, key)
      const content = contentFor(value, ttlMs)
      await inFolder(folder, async () => {
        const temporary = join(folder, temporaryName()) // stays if this process is killed, until the folder is unused for a day
        await createContentFile(temporary, content)
        // A process may have stopped, or been busy, for longer than a token lives.
        if (remainsMs(content) > 0) await replaceFile(entry, temporary)
        else await removeFile(temporary)
      })
      await removeUnused(directory)
    },
    async lease(key, ttlMs) {
      const { folder } = pathsOf(directory, key)
      return await inFolder(folder, () => acquireLease(folder, ttlMs))
    },
  }
  return shareQueue(store, fileQueue)
}

function unreadable(): Error {
  return Object.assign(new Error('The entry is damaged, or not an entry'), { code: UNREADABLE })
}

/**
 * Renames a file over another one, or over an empty folder. Windows fails while a process reads the other file, which is a
 * matter of milliseconds; at last the other file is removed first, because a moment without an entry is better than none written.
 */
async function replaceFile(path: string, temporary: string): Promise<void> {
  const isWindows = process.platform === 'win32'
  const endsAt = performance.now() + HELD_MS
  for (;;) {
    try {
      return await rename(temporary, path)
    } catch (error) {
      if (await succeeds(rmdir(path))) continue
      if (isWindows && performance.now() < endsAt) {
        await sleepUntilFree()
        continue
      }
      if (isWindows && (await succeeds(unlink(path).then(() => rename(temporary, path))))) return
      await removeFile(temporary)
      throw error
    }
  }
}

async function succeeds(act: Promise<unknown>): Promise<boolean> {
  return await act.then(
    () => true,
    () => false,
  )
}
