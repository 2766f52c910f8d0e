/**
 * Leases by exclusive creation: the files in the folder of a key have numbers, and whoever creates the next one has the lease.
 * While the folder is in use, a number is never used twice, so that no process removes or releases the lease of another one,
 * however late it wakes: the highest one stays when it is released.
 */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { storeErrorCode } from '../token-store.ts'
import {
  contentFor,
  createContentFile,
  invalidateFile,
  readContentFile,
  remainsMs,
  removeFile,
} from './content-file.ts'

/** A lease has its content this soon after it was created, or nobody holds it. */
const CREATION_MS = 1_000

/**
 * Acquires the lease of a folder, and removes those before it. Resolves with a function that releases it, or with undefined if
 * another process holds it.
 */
export async function acquireLease(
  folder: string,
  ttlMs: number,
): Promise<(() => Promise<void>) | undefined> {
  const before = leaseNumbersIn(await readdir(folder))
  if (await isAnyHeld(folder, before)) return undefined
  const number = Math.max(0, ...before) + 1
  const path = pathOf(folder, number)
  const content = contentFor('', ttlMs)
  try {
    await createContentFile(path, content)
  } catch (error) {
    if (storeErrorCode(error) === 'EEXIST') return undefined
    throw error
  }
  // This process may have been late: others created higher numbers, and removed this one. Each creates first and looks then,
  // so that of two processes at least one sees the other.
  const numbers = leaseNumbersIn(await readdir(folder))
  const others = numbers.filter((other) => other !== number)
  const isLate = !numbers.includes(number) || others.some((other) => other > number)
  if (isLate || (await isAnyHeld(folder, others))) {
    await removeFile(path)
    return undefined
  }
  for (const earlier of others) await removeFile(pathOf(folder, earlier))
  return async () => {
    // A lease whose time has passed is left alone: a day later another process may have a lease of the same name.
    if (remainsMs(content) > 0) await invalidateFile(path)
  }
}

/** Whether a process holds one of these leases. */
export async function isAnyHeld(folder: string, numbers: readonly number[]): Promise<boolean> {
  const files = await Promise.all(numbers.map((number) => readContentFile(pathOf(folder, number))))
  return files.some((file) => {
    if (file === undefined) return false
    if (file.isEmpty) return Math.abs(Date.now() - file.changedAt) < CREATION_MS
    return file.content !== undefined && remainsMs(file.content) > 0
  })
}

/** The numbers of the leases among the names in a folder. */
export function leaseNumbersIn(names: readonly string[]): number[] {
  return names.flatMap((name) => /^(\d{1,15})\.lease$/.exec(name)?.[1] ?? []).map(Number)
}

function pathOf(folder: string, number: number): string {
  return join(folder, `${number}.lease`)
}
