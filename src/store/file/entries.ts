/** The file token store: for each key an entry in the directory, and a folder for its leases and for what is being written. */
import { rename, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { StoreQueue, shareQueue } from '../operation-queue.ts'
import { type TokenStore, UNREADABLE } from '../token-store.ts'
import { contentFor, createContentFile, readContentFile, remainsMs, removeFile } from './content-file.ts'
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
 * matter of milliseconds.
 */
async function replaceFile(path: string, temporary: string): Promise<void> {
  for (let pauseMs = 10; ; pauseMs *= 2) {
    try {
      return await rename(temporary, path)
    } catch (error) {
      const isRemoved = await rmdir(path).then(
        () => true,
        () => false,
      )
      if (!isRemoved && (process.platform !== 'win32' || pauseMs > 160)) {
        await removeFile(temporary)
        throw error
      }
      if (!isRemoved) await sleep(pauseMs)
    }
  }
}
