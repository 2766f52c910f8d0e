/** What a module imports, by its syntax tree: a comment or a string is not an import. */
import { builtinModules } from 'node:module'
import { parseAst } from 'rolldown/parseAst'

const builtins = new Set(builtinModules)

/** Every module that a file names in an import, an export from, `import()`, `require()`, or a type `import('…')`. */
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
