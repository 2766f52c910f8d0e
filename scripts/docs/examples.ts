/** The code that pages show from files that CI runs, between `<!-- example: FILE -->` and `<!-- /example -->`. */
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, extname, join } from 'node:path'

const SHOWN = /^<!-- example: (\S+) -->\n.*?^<!-- \/example -->$/gms

/**
 * Compares the pages with the files, and writes the pages if `update` is set.
 *
 * @returns the pages that differed
 */
export function pagesWithOldExamples(root: string, { update }: { readonly update: boolean }): string[] {
  return globSync('{*,docs/*}.md', { cwd: root }).filter((page) => {
    const file = join(root, page)
    const text = readFileSync(file, 'utf8')
    const current = text.replace(SHOWN, (_, name: string) => block(root, name))
    if (current !== text && update) writeFileSync(file, current)
    return current !== text
  })
}

/** The code without the comment at the top of its file. Its imports name files as TypeScript compiles them. */
function block(root: string, name: string): string {
  const code = readFileSync(join(root, name), 'utf8')
    .replace(/^\/\*\*.*?\*\/\n/s, '')
    .replaceAll(/(from '\.\/[\w-]+)\.ts'/g, "$1.js'")
  const language = extname(name).slice(1)
  return `<!-- example: ${name} -->\n\n\`\`\`${language}\n// ${basename(name)}\n${code}\`\`\`\n\n<!-- /example -->`
}
