/** The directory of a file token store: only its owner may use it. */
import { mkdirSync, opendirSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
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
  createDirectory(directory)
  if (process.platform !== 'win32' && (statSync(directory).mode & OTHERS_WRITE) !== 0) return SHARED
  if (isEmpty(directory)) ignoreInGit(directory)
  return undefined
}

/**
 * Creates a directory and its parents. Node.js does that, too, but never returns where a parent is in a file system such as
 * /proc.
 */
function createDirectory(directory: string): void {
  if (statSync(directory, { throwIfNoEntry: false }) !== undefined) return
  const parent = dirname(directory)
  if (parent !== directory) createDirectory(parent)
  try {
    mkdirSync(directory, OWNER_ONLY)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error // another process was faster
  }
}

/** Reads the first name only: there may be thousands of files, and a store for each of thousands of clients. */
function isEmpty(directory: string): boolean {
  const opened = opendirSync(directory)
  try {
    return opened.readSync() === null
  } finally {
    opened.closeSync()
  }
}

/** Tokens do not belong in a repository. A directory that has files already may be the user's own. */
function ignoreInGit(directory: string): void {
  try {
    writeFileSync(join(directory, '.gitignore'), '*\n', { flag: 'wx', mode: 0o600 })
  } catch {
    // Another process was faster, or the disk is full: the store works without it.
  }
}
