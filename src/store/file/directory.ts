/** The directory of a file token store: only its owner may use it. */
import {
  chmodSync,
  closeSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  opendirSync,
  openSync,
  readdirSync,
  type Stats,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { nodeCrypto } from '../../base/builtin-modules.ts'
import { ConfigurationError, type Flaw } from '../../base/errors.ts'

export const OWNER_ONLY = 0o700
const OTHERS_WRITE = 0o022

const GITIGNORE = '.gitignore'
const IGNORE_ALL = '*\n'

const SHARED: Flaw = {
  kind: 'insecure',
  reason: 'must be a directory that only its owner can write: chmod 700, or name one that does not exist yet',
}

/** The name of a file that is renamed or removed at once, unless its process is killed. */
export function temporaryName(): string {
  return `${nodeCrypto().randomUUID()}.tmp`
}

export function isTemporary(name: string): boolean {
  return /^[0-9a-f-]{36}\.tmp$/.test(name)
}

/** Whether a name in the directory is that of an entry or of a key's folder. */
export function isOfStore(name: string): boolean {
  return /^[0-9a-f]{64}\.(?:entry|lock)$/.test(name)
}

/**
 * Creates the directory if it is missing. Returns what is wrong with one that other users can write. Windows and some other
 * file systems have no such modes.
 *
 * @throws the error of the file system if it cannot be created or read
 */
export function prepareDirectory(directory: string): Flaw | undefined {
  createDirectory(directory)
  if (isOpenToOthers(directory) && !isRestored(directory)) return SHARED
  if (isEmpty(directory)) ignoreInGit(directory)
  return undefined
}

/**
 * Creates the directory if it is missing.
 *
 * @throws ConfigurationError if other users can write it
 * @throws the error of the file system if it cannot be created or read
 */
export function requireDirectory(directory: string): void {
  const flaw = prepareDirectory(directory)
  if (flaw !== undefined) throw unusableDirectory({ ...flaw, reason: `${directory} ${flaw.reason}` })
}

export function unusableDirectory(flaw: Flaw): ConfigurationError {
  return new ConfigurationError('The file token store cannot be used', [{ option: 'directory', ...flaw }])
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

function isOpenToOthers(directory: string): boolean {
  return process.platform !== 'win32' && canOthersWrite(statSync(directory))
}

function canOthersWrite({ mode }: Stats): boolean {
  return (mode & OTHERS_WRITE) !== 0
}

/**
 * Whether a directory that others can write by its mode may be used all the same: it is on a file system without modes, or it
 * is this user's store. That one is made the owner's again: Kubernetes' `fsGroup` opens every directory of a volume to the
 * group, at each start of a pod.
 */
function isRestored(directory: string): boolean {
  try {
    const created = createdIn(directory)
    if (canOthersWrite(created)) return true
    if (created.uid !== statSync(directory).uid || !containsOnlyStore(directory)) return false
    chmodSync(directory, OWNER_ONLY)
    return !isOpenToOthers(directory)
  } catch {
    return false
  }
}

/**
 * What becomes of a file that this user creates for itself: whose it is, and its mode. A process cannot always ask who its user
 * is (Deno). The file is asked, not its path, which others could replace.
 */
function createdIn(directory: string): Stats {
  const path = join(directory, temporaryName())
  const file = openSync(path, 'wx', 0o600)
  try {
    return fstatSync(file)
  } finally {
    closeSync(file)
    unlinkSync(path)
  }
}

/** Whether a store has been here, and nobody else. */
function containsOnlyStore(directory: string): boolean {
  const names = readdirSync(directory)
  const isOwn = (name: string): boolean =>
    isOfStore(name) || isTemporary(name) || isGitignore(directory, name)
  return names.length > 0 && names.every(isOwn)
}

/** A user's own `.gitignore` has more in it than that of the store. */
function isGitignore(directory: string, name: string): boolean {
  return name === GITIGNORE && lstatSync(join(directory, name)).size === IGNORE_ALL.length
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
    writeFileSync(join(directory, GITIGNORE), IGNORE_ALL, { flag: 'wx', mode: 0o600 })
  } catch {
    // Another process was faster, or the disk is full: the store works without it.
  }
}
