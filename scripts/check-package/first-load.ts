/** How much code a program loads at first: bundled from the installed package, minified, gzipped. */
import { gzipSync } from 'node:zlib'
import { type OutputChunk, rolldown } from 'rolldown'

export interface Loaded {
  readonly firstBytes: number
  readonly firstGzippedBytes: number
  /** What `import()` loads later. */
  readonly laterGzippedBytes: number
}

const ENTRY = 'entry.js'

interface Program {
  /** The folder that has the package installed. */
  readonly folder: string
  /** Packages that the program has anyway. */
  readonly external: readonly string[]
}

/** Bundles everything that these specifiers export, as `import` or as `require()` gets them. */
export function measure({
  specifiers,
  required = false,
  ...program
}: Program & { readonly specifiers: readonly string[]; readonly required?: boolean }): Promise<Loaded> {
  const code = specifiers
    .map((specifier, at) =>
      required ? `exports.e${at} = require('${specifier}')` : `export * as e${at} from '${specifier}'`,
    )
    .join('\n')
  return measureCode({ ...program, code })
}

/**
 * Bundles what a module with this code imports.
 * @public bench/ uses it, and knip does not see bench/.
 */
export async function measureCode({
  folder,
  code,
  external,
}: Program & { readonly code: string }): Promise<Loaded> {
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
