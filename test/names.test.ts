// What CONTRIBUTING.md, docs/decisions.md and the comments of src name in backticks is in the code.
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { root } from '../scripts/packed.ts'

/** Names of npm, of RFCs and of HTTP, which no code has. */
const FOREIGN = ['EBADENGINE', 'private_key_jwt', 'Location']
const COMMENT = /\/\*\*[\s\S]*?\*\/|^\s*\/\/.*|\s\/\/ .*/gm

const textOf = (file: string): string => readFileSync(join(root, file), 'utf8')
const code = globSync(
  ['{src,test,scripts,bench,examples}/**/*.{ts,mts,cts,mjs,js,json}', 'docs/api/*.json', '*.{ts,json}'],
  {
    cwd: root,
    exclude: ['**/node_modules/**', 'package-lock.json', 'test/consumers/**'],
  },
)
const words = new Set(
  code.flatMap(
    (file) =>
      textOf(file)
        .replaceAll(COMMENT, '')
        .match(/[\w$]+/g) ?? [],
  ),
)

/** The names in backticks that no code has: `name`, `name(…)`, `one.other` and `#name`. */
function unknownIn(text: string): string[] {
  const names = [...text.matchAll(/`#?([^`\n]+)`/g)].flatMap(([, quoted = '']) =>
    quoted.replace(/\(.*\)$/, '').split('.'),
  )
  return names.filter(
    (name) => /^[A-Za-z_$][\w$]*$/.test(name) && !words.has(name) && !FOREIGN.includes(name),
  )
}

it.each(['CONTRIBUTING.md', 'docs/decisions.md'])('%s names what is in the code', (page) => {
  expect(unknownIn(textOf(page).replaceAll(/```[\s\S]*?```/g, ''))).toEqual([])
})

it('the comments of src name what is in the code', () => {
  const sources = globSync('src/**/*.ts', { cwd: root })
  expect(sources.flatMap((file) => textOf(file).match(COMMENT) ?? []).flatMap(unknownIn)).toEqual([])
})
