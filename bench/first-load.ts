/**
 * How much code a program loads at first, and how much later: bundled, minified, gzipped. size-limit compares with a limit,
 * and reports one figure.
 */
import { gzipSync } from 'node:zlib'
import { type OutputChunk, rolldown } from 'rolldown'

interface Loaded {
  readonly firstBytes: number
  readonly firstGzippedBytes: number
  /** What `import()` loads later. */
  readonly laterGzippedBytes: number
}

const ENTRY = 'entry.js'

interface Program {
  /** The folder that has the packages installed. */
  readonly folder: string
  readonly code: string
  /** Packages that the program has anyway. */
  readonly external: readonly string[]
}

/** Bundles what a module with this code imports. */
export async function firstLoad({ folder, code, external }: Program): Promise<Loaded> {
  const entry = `${folder}/${ENTRY}`
  const bundle = await rolldown({
    input: entry,
    cwd: folder,
    platform: 'node',
    external: external.flatMap((name) => [name, new RegExp(`^${name}/`)]),
    plugins: [
      {
        name: 'entry',
        resolveId: (id) => (id === entry ? id : undefined),
        load: (id) => (id === entry ? code : undefined),
      },
    ],
    onLog: (_level, { message }) => {
      throw new Error(message)
    },
  })
  try {
    const { output } = await bundle.generate({ format: 'esm', minify: true, comments: false })
    return sum(output.filter((part) => part.type === 'chunk'))
  } finally {
    await bundle.close()
  }
}

function sum(chunks: readonly OutputChunk[]): Loaded {
  const first = new Set(chunks.filter(({ isEntry }) => isEntry))
  for (const chunk of first) {
    for (const other of chunks) if (chunk.imports.includes(other.fileName)) first.add(other)
  }
  const all = (some: readonly OutputChunk[], size: (code: string) => number): number =>
    some.reduce((bytes, { code }) => bytes + size(code), 0)
  return {
    firstBytes: all([...first], (code) => Buffer.byteLength(code)),
    firstGzippedBytes: all([...first], gzipped),
    laterGzippedBytes: all(
      chunks.filter((chunk) => !first.has(chunk)),
      gzipped,
    ),
  }
}

const gzipped = (code: string): number => gzipSync(code, { level: 9 }).byteLength
