/** Removes the entries and the folders of keys that are no longer used, such as those of a former client secret. */
import { lstat, readdir, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { readContentFile, removeFile } from './content-file.ts'
import { isOfStore, isTemporary } from './directory.ts'
import { isAnyHeld, leaseNumbersIn } from './leases.ts'

const UNUSED_MS = 24 * 60 * 60 * 1_000
const LIST_EVERY_MS = 60 * 60 * 1_000
/** How long one call may take, because a caller waits for it. */
const LIMIT_MS = 10

/** The names in a directory that are still to be looked at, until (epoch ms) it is listed again. */
interface Listing {
  names: string[]
  readonly listAgainAt: number
}

/** By directory: a process may have thousands of stores in one. */
const listings = new Map<string, Listing>()

/**
 * Removes what has not been used for a day, for a few milliseconds; the next call continues. So nothing runs in the background,
 * which would delay the end of a script, and wait in a thread of its own where the disk hangs.
 *
 * If a client writes its entry at this moment, that is lost, and its next cold start requests a token.
 */
export async function removeUnused(directory: string): Promise<void> {
  const startedAt = Date.now()
  const { names } = await listingOf(directory, startedAt)
  while (names.length > 0 && Date.now() - startedAt < LIMIT_MS) {
    const path = join(directory, names.pop() ?? '')
    const remove = path.endsWith('.entry') ? removeEntry : removeFolder
    await remove(path, startedAt - UNUSED_MS).catch(() => {}) // what cannot be removed does no harm
  }
}

async function listingOf(directory: string, now: number): Promise<Listing> {
  const last = listings.get(directory)
  if (last !== undefined && now < last.listAgainAt) return last
  const listing: Listing = { names: [], listAgainAt: now + LIST_EVERY_MS }
  listings.set(directory, listing) // before it is listed: several calls may be under way
  const names = (await readdir(directory).catch(() => [])).filter(isOfStore)
  // Few writes in an hour do not come to the last name. Each listing begins somewhere else.
  const start = Math.floor(Math.random() * names.length)
  listing.names = [...names.slice(start), ...names.slice(0, start)]
  return listing
}

async function removeEntry(path: string, before: number): Promise<void> {
  const file = await readContentFile(path)
  if ((file?.content?.endsAt ?? 0) < before) await removeFile(path)
}

/**
 * Removes the folder of a key. Another process may be about to use it: if that is between its steps, its folder stays because
 * it is not empty, or it creates the folder again.
 */
async function removeFolder(path: string, before: number): Promise<void> {
  const found = await lstat(path)
  if (!found.isDirectory() || found.mtimeMs >= before) return
  const names = await readdir(path)
  if (await isAnyHeld(path, leaseNumbersIn(names))) return
  for (const name of names)
    if (leaseNumbersIn([name]).length > 0 || isTemporary(name)) await removeFile(join(path, name))
  await rmdir(path)
}
