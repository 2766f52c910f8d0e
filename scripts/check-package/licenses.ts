/** The licenses of packages that are bundled into dist: they have to be published with the code. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { importsAtRuntimeOf, packageOf } from './imports.ts'
import { filesOf, type Manifest, readManifest, root } from './packed.ts'

/** Packages whose code is in dist: what src imports and the package does not name, and all that they depend on. */
export function bundledPackages(manifest: Manifest, sources: ReadonlyMap<string, string>): string[] {
  const named = { ...manifest.dependencies, ...manifest.peerDependencies }
  const bundled = new Set<string>()
  const waiting = [...sources].flatMap(([path, code]) => importsAtRuntimeOf(path, code).map(packageOf))
  for (const name of waiting) {
    if (name === undefined || Object.hasOwn(named, name) || bundled.has(name)) continue
    bundled.add(name)
    waiting.push(...Object.keys(readManifest(join(root, 'node_modules', name)).dependencies ?? {}))
  }
  return [...bundled].sort()
}

/** Bundled packages that no license text in the package names. */
export function licenseProblems(folder: string, bundled: readonly string[]): string[] {
  const texts = filesOf(folder)
    .filter((path) => /^(?:LICENSE|THIRD-PARTY-LICENSES)/.test(path))
    .map((path) => readFileSync(join(folder, path), 'utf8'))
  return bundled
    .filter((name) => !texts.some((text) => text.includes(name)))
    .map((name) => `${name} is bundled into dist, and no packed licence names it (THIRD-PARTY-LICENSES.md)`)
}

/** The modules of src with their code. */
export function sources(): Map<string, string> {
  const src = join(root, 'src')
  return new Map(filesOf(src).map((path) => [path, readFileSync(join(src, path), 'utf8')]))
}
