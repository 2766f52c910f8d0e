/** What a program that imports something has to load, bundled, minified and compressed. */
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'

export interface Bundled {
  readonly minified: number
  readonly gzipped: number
  /** Compressed, with what is imported later and perhaps never. */
  readonly gzippedInAll: number
}

/** Bundles one module of a user's. What the user has anyway is left out. */
export async function bundle(source: string): Promise<Bundled> {
  const { outputFiles, metafile } = await build({
    stdin: { contents: source, resolveDir: fileURLToPath(new URL('..', import.meta.url)), loader: 'js' },
    bundle: true,
    minify: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node22',
    legalComments: 'none',
    external: ['axios', 'undici'],
    outdir: 'out',
    write: false,
    metafile: true,
    logLevel: 'silent',
  })
  const byPath = new Map(
    outputFiles.map(({ path, contents }) => [path.split(/[\\/]/).at(-1) ?? '', contents]),
  )
  const name = (path: string): string => path.split('/').at(-1) ?? ''
  const first = new Set<string>()
  const load = (path: string): void => {
    if (first.has(name(path))) return
    first.add(name(path))
    for (const { path: imported, kind } of metafile.outputs[path]?.imports ?? [])
      if (kind === 'import-statement' && metafile.outputs[imported]) load(imported)
  }
  for (const [path, { entryPoint }] of Object.entries(metafile.outputs))
    if (entryPoint === '<stdin>') load(path)
  const sum = (names: Iterable<string>, size: (bytes: Uint8Array) => number): number =>
    [...names].reduce((total, one) => total + size(byPath.get(one) ?? new Uint8Array()), 0)
  const gzip = (bytes: Uint8Array): number => gzipSync(bytes, { level: 9 }).byteLength
  return {
    minified: sum(first, (bytes) => bytes.byteLength),
    gzipped: sum(first, gzip),
    gzippedInAll: sum(byPath.keys(), gzip),
  }
}
