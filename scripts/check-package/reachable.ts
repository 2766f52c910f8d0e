/** Which files of an unpacked package can be reached along the imports, from its exports and its commands. */
import { existsSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { importsOf, packageOf } from './imports.ts'
import { entriesOf, readManifest, type Target } from './packed.ts'

export interface Reached {
  readonly files: ReadonlySet<string>
  /** Packages, each with a file that imports it. */
  readonly packages: ReadonlyMap<string, string>
  /** Files that are named and not there, each as a sentence. */
  readonly missing: readonly string[]
}

export function reachableFrom(folder: string): Reached {
  const { exports, main, types, typesVersions = {}, bin = {} } = readManifest(folder)
  const files = new Set<string>()
  const packages = new Map<string, string>()
  const missing: string[] = []
  const named = {
    exports: entriesOf({ exports }).flatMap((entry) => targetsOf(exports[entry])),
    main: targetsOf(main),
    types: targetsOf(types),
    typesVersions: Object.values(typesVersions).flatMap((paths) => Object.values(paths).flat()),
    bin: Object.values(bin),
  }
  const waiting = Object.entries(named).flatMap(([from, targets]) =>
    targets.map((target) => ({ path: posix.normalize(target), from })),
  )
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

/** The file of a relative specifier; in declarations `./a.js` and `./a.ts` both refer to `./a.d.ts`, `./a.cjs` to `./a.d.cts`. */
function fileOf(specifier: string, importer: string): string {
  const path = posix.join(posix.dirname(importer), specifier)
  return /\.d\.c?ts$/.test(importer) ? path.replace(/(?:\.d)?\.(c?)[jt]s$/, '.d.$1ts') : path
}

function targetsOf(target: Target | undefined): string[] {
  return typeof target === 'object'
    ? Object.values(target).flatMap(targetsOf)
    : target === undefined
      ? []
      : [target]
}
