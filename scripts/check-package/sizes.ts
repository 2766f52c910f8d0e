/** The sizes of the package, and how large they may be. Raise a limit only for something that users benefit from. */
import { join } from 'node:path'
import { measure } from './first-load.ts'
import { entriesOf, installedPackages, type Packed, readManifest } from './packed.ts'

/** What a program loads at first: these entries with all dependencies but the peers, minified and gzipped. */
interface FirstLoad {
  readonly entries: readonly string[]
  /** Whether they come from the CommonJS build, of which a bundle has everything at first. */
  readonly required?: true
  readonly limitBytes: number
}

const FIRST_LOADS: readonly FirstLoad[] = [
  { entries: ['.'], limitBytes: 40_000 },
  { entries: ['./axios'], limitBytes: 36_400 },
  { entries: ['./undici'], limitBytes: 15_200 },
  { entries: ['./redis'], limitBytes: 9_900 },
  { entries: ['./file'], limitBytes: 5_100 },
  { entries: ['./opentelemetry'], limitBytes: 4_000 },
  { entries: ['./testing'], limitBytes: 27_300 },
  { entries: ['.', './axios'], limitBytes: 43_300 },
  { entries: ['.', './axios'], required: true, limitBytes: 47_400 },
  { entries: ['./testing'], required: true, limitBytes: 34_700 },
]

const TARBALL_PACKED_BYTES = 745_000
const TARBALL_UNPACKED_BYTES = 2_650_000

/** This package: it has no dependency but optional peers. */
const INSTALLED_PACKAGES = 1

interface Row {
  readonly what: string
  readonly measured: number
  readonly limit: number
}

/** Measures a package that is installed in `folder`. */
export async function sizes(folder: string, packed: Packed): Promise<{ rows: Row[]; problems: string[] }> {
  const manifest = readManifest(join(folder, 'node_modules/merchant-auth'))
  const external = Object.keys(manifest.peerDependencies ?? {})
  const rows: Row[] = [
    { what: 'tarball, packed', measured: packed.packedBytes, limit: TARBALL_PACKED_BYTES },
    { what: 'tarball, unpacked', measured: packed.unpackedBytes, limit: TARBALL_UNPACKED_BYTES },
    { what: 'installed packages', measured: installedPackages(folder).length, limit: INSTALLED_PACKAGES },
  ]
  for (const { entries, required = false, limitBytes } of FIRST_LOADS) {
    const specifiers = entries.map((entry) => `${manifest.name}${entry.slice(1)}`)
    const { firstGzippedBytes } = await measure({ folder, specifiers, required, external })
    const what = `${specifiers.join(' + ')}${required ? ', CommonJS' : ''}`
    rows.push({ what, measured: firstGzippedBytes, limit: limitBytes })
  }
  const limited = new Set(FIRST_LOADS.flatMap(({ entries }) => entries))
  const tooLarge = rows.filter(({ measured, limit }) => !(measured <= limit))
  return {
    rows,
    problems: [
      ...entriesOf(manifest).flatMap((entry) => (limited.has(entry) ? [] : `${entry} has no limit`)),
      ...tooLarge.map(({ what, measured, limit }) => `${what}: ${measured}, and the limit is ${limit}`),
    ],
  }
}
