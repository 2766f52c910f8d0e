/** The files of an unpacked package that can be reached by imports from the entries of its exports and its commands. */
import { existsSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { importsOf, packageOf } from './imports.ts'
import { entriesOf, readManifest } from './packed.ts'

export interface Reached {
  readonly files: ReadonlySet<string>
  /** Packages, each with a file that imports it. */
  readonly packages: ReadonlyMap<string, string>
  /** Files that are named and not there, each as a sentence. */
  readonly missing: readonly string[]
}

export function reachableFrom(folder: string): Reached {
  const { exports, bin = {} } = readManifest(folder)
  const files = new Set<string>()
  const packages = new Map<string, string>()
  const missing: string[] = []
  const waiting = entriesOf({ exports }).flatMap((entry) =>
    targetsOf(exports[entry]).map((target) => ({ path: posix.normalize(target), from: 'exports' })),
  )
  waiting.push(...Object.values(bin).map((target) => ({ path: posix.normalize(target), from: 'bin' })))
  for (const { path, from } of waiting) {
    if (files.has(path)) continue
    if (!existsSync(join(folder, path))) {
      missing.push(`${path} is missing, and ${from} names it`)
      continue
    }
    files.add(path)
    for (const specifier of importsOf(path, readFileSync(join(folder, path), 'utf8'))) {
      const name = packageOf(specifier)
      if (name !== undefined && !packages.has(name)) packages.set(name, path)
      if (specifier.startsWith('.')) waiting.push({ path: fileOf(specifier, path), from: path })
    }
  }
  return { files, packages, missing }
}

/** The file that a relative specifier means; between declarations `./a.js` and `./a.ts` both mean `./a.d.ts`. */
function fileOf(specifier: string, importer: string): string {
  const path = posix.join(posix.dirname(importer), specifier)
  return importer.endsWith('.d.ts') ? path.replace(/(?:\.d)?\.[jt]s$/, '.d.ts') : path
}

function targetsOf(target: string | Readonly<Record<string, string>> | undefined): string[] {
  return typeof target === 'object' ? Object.values(target) : target === undefined ? [] : [target]
}
