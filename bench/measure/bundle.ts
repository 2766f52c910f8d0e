/** What a program that imports something has to load, bundled, minified and compressed. */
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build, type Plugin } from 'esbuild'

export interface Bundled {
  readonly minified: number
  readonly gzipped: number
  /** Compressed, with what is imported later and perhaps never. */
  readonly gzippedInAll: number
}

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))

/** Bundles one module of a user's. What the user has anyway is left out. */
export async function bundle(source: string, plugins: Plugin[] = []): Promise<Bundled> {
  const { outputFiles, metafile } = await build({
    stdin: { contents: source, resolveDir: here('..'), loader: 'js' },
    plugins,
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

/** Of what this package's bundle for axios consists (gzipped bytes): the packages that are part of it, and its own code. */
export async function sharesOf(packages: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const source = `export { createTokenProvider } from '${here('../../src/index.ts')}'
    export { attachAuth } from '${here('../../src/attach/axios.ts')}'`
  const sizeWithout = async (names: readonly string[]): Promise<number> =>
    (await bundle(source, [leavingOut(names)])).gzipped
  const all = await sizeWithout([])
  const shares = new Map<string, number>()
  for (const name of packages) shares.set(name, all - (await sizeWithout([name])))
  return shares.set('code of its own', await sizeWithout(packages))
}

/** Puts an empty module in the place of each of these packages. */
function leavingOut(names: readonly string[]): Plugin {
  return {
    name: 'leaving-out',
    setup({ onLoad, onResolve }) {
      if (names.length === 0) return
      onResolve({ filter: new RegExp(`^(?:${names.join('|')})(?:/|$)`) }, ({ path }) => ({
        path,
        namespace: 'empty',
      }))
      onLoad({ filter: /^/, namespace: 'empty' }, () => ({ contents: 'module.exports = {}', loader: 'js' }))
    },
  }
}
