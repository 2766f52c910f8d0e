/**
 * What a program loads at first from each entry, with all dependencies but the peers, minified and gzipped, and how much that
 * may be. Raise a limit only for something that users benefit from.
 */
import packageJson from './package.json' with { type: 'json' }

type Entry = Exclude<keyof typeof packageJson.exports, './package.json'>

const LIMITS: Readonly<Record<Entry, number>> = {
  '.': 47_000,
  './axios': 43_000,
  './undici': 15_200,
  './redis': 8_600,
  './file': 4_900,
  './opentelemetry': 3_800,
  './testing': 27_000,
}

/** Several at once, and from the CommonJS build, of which a bundle has everything at first. */
const TOGETHER = [
  limit(['.', './axios'], 51_000),
  limit(['.', './axios'], 55_200, 'cjs'),
  limit(['./testing'], 33_000, 'cjs'),
]

export default [
  ...Object.entries(LIMITS).map(([entry, bytes]) => limit([entry as Entry], bytes)),
  ...TOGETHER,
]

function limit(entries: readonly Entry[], bytes: number, extension: 'js' | 'cjs' = 'js') {
  const files = entries.map((entry) => packageJson.exports[entry]['module-sync'].replace(/js$/, extension))
  return {
    name: `${entries.map((entry) => packageJson.name + entry.slice(1)).join(' + ')} (${extension})`,
    path: files.map((file) => file.replace('./', '')),
    // Without `entry`, chunks that import() loads later would count, too.
    entry: files.map((file) => file.replace(/^.*\/|\.c?js$/g, '')),
    ignore: Object.keys(packageJson.peerDependencies),
    gzip: true,
    limit: `${bytes} B`,
    modifyRolldownConfig: (config: object): object => ({ ...config, platform: 'node' }),
  }
}
