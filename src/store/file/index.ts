/**
 * One token for one machine: a token store in a directory of files, for all processes of one user.
 *
 * @module merchant-auth/file
 */
import { resolve } from 'node:path'
import { ConfigurationError } from '../../base/errors.ts'
import type { TokenStore } from '../token-store.ts'
import { requireDirectory, unusableDirectory } from './directory.ts'
import { storeOfFiles } from './entries.ts'

export type { TokenStore } from '../token-store.ts'

/**
 * Creates a store that all processes of one user on one machine share, and that survives restarts: a token request per
 * lifetime for cluster workers, cron jobs, terminals and `node --watch`. Nothing has to be installed or run.
 *
 * The directory (mode 0700) is created if it is missing, and contains one file for each entry (mode 0600), which a reader
 * sees complete or not at all. Files are not flushed: one that a power failure damages counts as absent. If the directory
 * cannot be used, no call fails: the provider continues without the store, and emits `store-failed`. The provider encrypts
 * what it writes.
 *
 * The directory must be on a local file system, outside of the folders that a tool watches for changes of the program: each
 * write would restart it. Times are those of the wall clock: if it is set back to before an entry was written, that entry
 * counts as absent. A directory of this user in which only a store's files are is made 0700 again if its mode was changed. On
 * Windows and on file systems without modes, keep the directory where only this user has access, such as below the user's
 * profile.
 *
 * @param directory its path, by default relative to the working directory; several stores and clients may share it
 * @returns a store for the option `store` of `createTokenProvider`
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) if the path is empty, or if other users can write the directory
 * @example
 * const tokens = createTokenProvider({ ...options, store: createFileTokenStore('/var/lib/my-service/tokens') })
 */
export function createFileTokenStore(directory: string): TokenStore {
  if (typeof directory !== 'string' || directory === '')
    throw unusableDirectory({ kind: 'missing', reason: 'must be the path of a directory' })
  const absolute = resolve(directory)
  try {
    requireDirectory(absolute)
  } catch (error) {
    if (error instanceof ConfigurationError) throw error
    // Its operations fail with the same error, which no call notices.
  }
  return storeOfFiles(absolute)
}
