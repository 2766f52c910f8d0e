/** What a module imports, by its syntax tree: a comment or a string is not an import. */
import { builtinModules } from 'node:module'
import { parseAst } from 'rolldown/parseAst'

const builtins = new Set(builtinModules)

/** Every module that a file names in an import, an export from, `import()`, or a type `import('…')`. */
export function importsOf(path: string, code: string): string[] {
  return named(path, code, () => true)
}

/** The modules that are there when the code runs: without `import type` and its like. */
export function importsAtRuntimeOf(path: string, code: string): string[] {
  return named(path, code, (node) => {
    return node['importKind'] !== 'type' && node['exportKind'] !== 'type' && node['type'] !== 'TSImportType'
  })
}

function named(path: string, code: string, counts: (node: Node) => boolean): string[] {
  const lang = path.endsWith('.d.ts') ? 'dts' : path.endsWith('.ts') ? 'ts' : 'js'
  const found = new Set<string>()
  visit(parseAst(code, { lang }), (node) => {
    if (!/^(?:Import|ExportNamed|ExportAll|TSImportType|TSExternalModule)/.test(String(node['type']))) return
    const specifier = textOf(node['source'] ?? node['expression'])
    if (specifier !== undefined && counts(node)) found.add(specifier)
  })
  return [...found]
}

/** The package that a bare specifier names; undefined for a file, and for what Node.js has built in. */
export function packageOf(specifier: string): string | undefined {
  if (/^[./#]|^node:/.test(specifier) || builtins.has(specifier)) return undefined
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

/** The text of a string, or of a template without expressions, which minifiers write instead. */
function textOf(value: unknown): string | undefined {
  const node = value as { value?: unknown; literal?: unknown; quasis?: readonly Node[] } | null | undefined
  if (typeof node?.value === 'string') return node.value
  if (node?.literal !== undefined) return textOf(node.literal)
  const [only, ...more] = node?.quasis ?? []
  const { cooked } = (only?.['value'] ?? {}) as { cooked?: unknown }
  return more.length === 0 && typeof cooked === 'string' ? cooked : undefined
}
