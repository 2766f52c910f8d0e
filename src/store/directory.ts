/** The directory of a file token store: only its owner may use it. */
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Flaw } from '../errors.ts'

const OWNER_ONLY = 0o700
const OTHERS_WRITE = 0o022

const SHARED: Flaw = {
  kind: 'insecure',
  reason: 'must be a directory that only its owner can write: chmod 700, or name one that does not exist yet',
}

/**
 * Creates the directory if it is missing. Returns what is wrong with one that other users can write; Windows has no such
 * modes.
 *
 * @throws the error of the file system if it cannot be created or read
 */
export function prepareDirectory(directory: string): Flaw | undefined {
  mkdirSync(directory, { recursive: true, mode: OWNER_ONLY })
  if (process.platform !== 'win32' && (statSync(directory).mode & OTHERS_WRITE) !== 0) return SHARED
  if (readdirSync(directory).length === 0) ignoreInGit(directory)
  return undefined
}

/** Tokens do not belong in a repository. A directory that has files already may be the user's own. */
function ignoreInGit(directory: string): void {
  try {
    writeFileSync(join(directory, '.gitignore'), '*\n', { flag: 'wx', mode: 0o600 })
  } catch {
    // Another process was faster, or the disk is full: the store works without it.
  }
}
