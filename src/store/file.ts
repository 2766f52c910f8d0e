/**
 * One token for one machine: a token store in a directory of files, for all processes of one user.
 *
 * @module merchant-auth/file
 */
import { resolve } from 'node:path'
import { ConfigurationError, type Flaw } from '../errors.ts'
import { prepareDirectory } from './directory.ts'
import { storeOfFiles } from './files.ts'
import type { TokenStore } from './token-store.ts'

export type { TokenStore } from './token-store.ts'

const MISSING: Flaw = { kind: 'missing', reason: 'must be the path of a directory' }

/**
 * Creates a store that all processes of one user on one machine share, and that survives restarts: a token request per
 * lifetime for cluster workers, cron jobs, terminals and `node --watch`. Nothing has to be installed or run.
 *
 * The directory (mode 0700) is created if it is missing, and contains one file for each entry (mode 0600), which a reader
 * sees complete or not at all, also after a power failure. If it cannot be used, no call fails: the provider continues
 * without the store, and emits `store-failed`. The provider encrypts what it writes.
 *
 * The directory must be on a local file system. Times are those of the wall clock: if it is set back to before an entry was
 * written, that entry counts as absent. On Windows, which has no modes, keep the directory below the user's profile.
 *
 * @param directory its path, by default relative to the working directory; several stores and clients may share it
 * @returns a store for the option `store` of `createTokenProvider`
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) if the path is empty, or if other users can write the directory
 * @example
 * const tokens = createTokenProvider({ ...options, store: createFileTokenStore('.tokens') })
 */
export function createFileTokenStore(directory: string): TokenStore {
  if (typeof directory !== 'string' || directory === '') throw unusable(MISSING)
  const folder = resolve(directory)
  try {
    prepare(folder)
  } catch (error) {
    if (error instanceof ConfigurationError) throw error
    // Its operations fail with the same error, which no call notices.
  }
  return storeOfFiles(folder, () => prepare(folder))
}

/** Creates the directory if it is missing. */
function prepare(folder: string): void {
  const flaw = prepareDirectory(folder)
  if (flaw !== undefined) throw unusable({ ...flaw, reason: `${folder} ${flaw.reason}` })
}

function unusable(flaw: Flaw): ConfigurationError {
  return new ConfigurationError('The file token store cannot be used', [{ option: 'directory', ...flaw }])
}
