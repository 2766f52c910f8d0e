/** The sizes of the package next to their limits. */
import { join } from 'node:path'
import { measure } from './first-load.ts'
import { FIRST_LOADS, INSTALLED_PACKAGES, TARBALL_PACKED_BYTES, TARBALL_UNPACKED_BYTES } from './limits.ts'
import { entriesOf, installedPackages, type Packed, readManifest } from './packed.ts'

/** One line of the table. */
export interface Row {
  readonly what: string
  readonly measured: number
  readonly limit: number
  readonly 'not gzipped'?: number
  readonly 'loaded later'?: number
}

/** Measures a package that is installed in `folder`. */
export async function sizes(folder: string, packed: Packed): Promise<{ rows: Row[]; problems: string[] }> {
  const loads = await firstLoads(folder)
  const rows: Row[] = [
    ...loads.rows,
    { what: 'tarball, packed', measured: packed.packedBytes, limit: TARBALL_PACKED_BYTES },
    { what: 'tarball, unpacked', measured: packed.unpackedBytes, limit: TARBALL_UNPACKED_BYTES },
    { what: 'installed packages', measured: installedPackages(folder).length, limit: INSTALLED_PACKAGES },
  ]
  return { rows, problems: [...loads.problems, ...tooLarge(rows)] }
}

/** What is above its limit. */
export function tooLarge(rows: readonly Row[]): string[] {
  return rows
    .filter(({ measured, limit }) => !(measured <= limit))
    .map(({ what, measured, limit }) => `${what}: ${measured}, and the limit is ${limit} (limits.ts)`)
}

async function firstLoads(folder: string): Promise<{ rows: Row[]; problems: string[] }> {
  const manifest = readManifest(join(folder, 'node_modules/merchant-auth'))
  const entries = entriesOf(manifest)
  const external = Object.keys(manifest.peerDependencies ?? {})
  const rows: Row[] = []
  for (const { entries: wanted, required = false, limitBytes } of FIRST_LOADS) {
    if (!wanted.every((entry) => entries.includes(entry))) continue
    const specifiers = wanted.map((entry) => `${manifest.name}${entry.slice(1)}`)
    const { firstBytes, firstGzippedBytes, laterGzippedBytes } = await measure({
      folder,
      specifiers,
      required,
      external,
    })
    rows.push({
      what: `${specifiers.join(' + ')}${required ? ', CommonJS' : ''}`,
      measured: firstGzippedBytes,
      limit: limitBytes,
      'not gzipped': firstBytes,
      'loaded later': laterGzippedBytes,
    })
  }
  const limited = new Set(FIRST_LOADS.flatMap((load) => load.entries))
  const problems = entries.filter((entry) => !limited.has(entry)).map((entry) => `${entry} has no limit`)
  return { rows, problems }
}
