/** The packages whose code was bundled into dist, and whether the package names them everywhere. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { filesOf, type Lock, readLock, readManifest, root } from './packed.ts'

/** Bundled packages that the SBOM, `inlinedDependencies` or a license text does not name, and those that are too many there. */
export function bundledProblems(folder: string, lock: Lock = readLock(root)): string[] {
  const bundled = bundledPackages(folder, lock)
  const { inlinedDependencies = {} } = readManifest(folder)
  const sbom = join(folder, 'dist/sbom.cdx.json')
  const { components = [] } = existsSync(sbom) ? JSON.parse(readFileSync(sbom, 'utf8')) : {}
  const lists = {
    'package.json: inlinedDependencies': Object.entries(inlinedDependencies).map((one) => one.join('@')),
    'dist/sbom.cdx.json': (components as { purl: string }[]).map(({ purl }) =>
      decodeURIComponent(purl.replace('pkg:npm/', '')),
    ),
  }
  const licenses = filesOf(folder)
    .filter((path) => /^(?:LICENSE|THIRD-PARTY-LICENSES)/.test(path))
    .map((path) => readFileSync(join(folder, path), 'utf8'))
    .join('\n')
  return [
    ...Object.entries(lists)
      .filter(([, listed]) => listed.sort().join() !== bundled.join())
      .map(([list, listed]) => `${list}: ${listed.join(', ')}; but dist holds ${bundled.join(', ')}`),
    ...bundled
      .filter((one) => !licenses.includes(`## ${one.replace(/@([^@]*)$/, ' $1')}`))
      .map((one) => `${one} is bundled into dist, and no packed license names it (THIRD-PARTY-LICENSES.md)`),
  ]
}

/** Each as `name@version`: the bundler writes the path of every module before its code. */
function bundledPackages(folder: string, lock: Lock): string[] {
  const code = filesOf(folder).filter((path) => /^dist\/.+\.c?js$/.test(path))
  const folders = code.flatMap((path) =>
    [
      ...readFileSync(join(folder, path), 'utf8').matchAll(
        /^\/\/ (.*node_modules\/(?:@[^/\n]+\/)?[^/\n]+)\//gm,
      ),
    ].map(({ 1: found = '' }) => found),
  )
  return [...new Set(folders)]
    .map((path) => `${path.replace(/^.*node_modules\//, '')}@${lock[path]?.version ?? '?'}`)
    .sort()
}
