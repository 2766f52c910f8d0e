/** The folder of a key in a file token store: for its leases, and for the entries that are being written. */
import { lstat, mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { nodeCrypto } from '../../base/builtin-modules.ts'
import { storeErrorCode } from '../token-store.ts'
import { removeFile } from './content-file.ts'
import { OWNER_ONLY, requireDirectory } from './directory.ts'

/** What belongs to a key in the directory of a store. */
interface KeyPaths {
  readonly entry: string
  readonly folder: string
}

/** The paths of a key. Names have a fixed length, whatever the key, and file systems that ignore case may have them. */
export function pathsOf(directory: string, key: string): KeyPaths {
  const path = join(directory, nodeCrypto().createHash('sha256').update(key).digest('hex'))
  return { entry: `${path}.entry`, folder: `${path}.lock` }
}

/**
 * Runs an operation in a folder, which is created if it is missing; once more if that was removed meanwhile, by a process that
 * found it unused or by the user.
 */
export async function inFolder<T>(folder: string, act: () => Promise<T>): Promise<T> {
  await createFolder(folder)
  try {
    return await act()
  } catch (error) {
    if (storeErrorCode(error) !== 'ENOENT') throw error
    await createFolder(folder)
    return await act()
  }
}

async function createFolder(folder: string): Promise<void> {
  const found = await lstat(folder).catch(undefinedIfMissing)
  if (found?.isDirectory()) return
  if (found !== undefined) await removeFile(folder) // a link would lead to the files of others
  try {
    await makeFolder(folder)
  } catch (error) {
    undefinedIfMissing(error)
    requireDirectory(dirname(folder))
    await makeFolder(folder)
  }
}

async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, OWNER_ONLY)
  } catch (error) {
    if (storeErrorCode(error) !== 'EEXIST') throw error // another process was faster
  }
}

function undefinedIfMissing(error: unknown): undefined {
  if (storeErrorCode(error) !== 'ENOENT') throw error
}
