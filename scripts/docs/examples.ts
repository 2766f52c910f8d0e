/** The code that pages show from examples/, between `<!-- example: FILE -->` and `<!-- /example -->`. */
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'

const SHOWN = /^<!-- example: (\S+) -->\n.*?^<!-- \/example -->$/gms

/**
 * Compares the pages with the examples, and writes the pages if `update` is set.
 *
 * @returns the pages that differed
 */
export function pagesWithOldExamples(root: string, { update }: { readonly update: boolean }): string[] {
  return globSync('{*,docs/*}.md', { cwd: root }).filter((page) => {
    const file = join(root, page)
    const text = readFileSync(file, 'utf8')
    const current = text.replace(SHOWN, (_, name: string) => block(name, join(root, 'examples', name)))
    if (current !== text && update) writeFileSync(file, current)
    return current !== text
  })
}

/** The code without the comment at the top of its file. Its imports name files as TypeScript compiles them. */
function block(name: string, file: string): string {
  const code = readFileSync(file, 'utf8')
    .replace(/^\/\*\*.*?\*\/\n/s, '')
    .replaceAll(/(from '\.\/[\w-]+)\.ts'/g, "$1.js'")
  return `<!-- example: ${name} -->\n\n\`\`\`ts\n// ${basename(name)}\n${code}\`\`\`\n\n<!-- /example -->`
}
