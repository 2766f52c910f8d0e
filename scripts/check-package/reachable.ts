/** Which files of an unpacked package can be reached along the imports, from its exports and its commands. */
import { existsSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { join, posix } from 'node:path'
import { parseAst } from 'rolldown/parseAst'
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

/** By its syntax tree, as a comment or a string is not an import: every module that a file names in an import, an export from, `import()`, `require()`, or a type `import('…')`. */
export function importsOf(path: string, code: string): string[] {
  const lang = /\.d\.c?ts$/.test(path) ? 'dts' : 'js'
  const found = new Set<string>()
  visit(parseAst(code, { lang }), (node) => {
    const specifier = /^(?:Import|ExportNamed|ExportAll|TSImportType|TSExternalModule)/.test(
      String(node['type']),
    )
      ? textOf(node['source'] ?? node['expression'])
      : requiredBy(node)
    if (specifier !== undefined) found.add(specifier)
  })
  return [...found]
}

/** The package that a bare specifier names; undefined for a file, and for what Node.js has built in. */
export function packageOf(specifier: string): string | undefined {
  if (/^[./#]/.test(specifier) || isBuiltin(specifier)) return undefined
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
}

type Node = Readonly<Record<string, unknown>>

function visit(value: unknown, see: (node: Node) => void): void {
  if (Array.isArray(value)) {
    for (const item of value) visit(item, see)
  } else if (typeof value === 'object' && value !== null) {
    const node = value as Node
    if (typeof node['type'] === 'string') see(node)
    for (const child of Object.values(node)) visit(child, see)
  }
}

/** What a call of `require` names. */
function requiredBy(node: Node): string | undefined {
  const { name } = (node['callee'] ?? {}) as { name?: unknown }
  const [specifier] = (node['arguments'] ?? []) as unknown[]
  return node['type'] === 'CallExpression' && name === 'require' ? textOf(specifier) : undefined
}

/** The text of a string, or of a template without expressions, which minifiers write instead. */
function textOf(value: unknown): string | undefined {
  const node = value as { value?: unknown; literal?: unknown; quasis?: readonly Node[] } | null | undefined
  if (typeof node?.value === 'string') return node.value
  if (node?.literal !== undefined) return textOf(node.literal)
  const [only, ...more] = node?.quasis ?? []
  const { cooked } = (only?.['value'] ?? {}) as { cooked?: unknown }
  return more.length === 0 && typeof cooked === 'string' ? cooked : undefined
}
