/** How long the manual may be: the words of each page that ships, code included, and of each paragraph, item and row in it. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import packageJson from '../package.json' with { type: 'json' }
import { root } from './packed.ts'

/** Evidence, outside of the package. */
const DECISIONS = 3_500
const TOTAL = 20_000
const UNIT = 60
const WORDS: Readonly<Record<string, number>> = {
  'README.md': 700,
  'CHANGELOG.md': 250,
  'SECURITY.md': 650,
  'llms.txt': 300,
  'docs/README.md': 200,
  'docs/behavior.md': 1_200,
  'docs/clients.md': 1_600,
  'docs/command.md': 800,
  'docs/compatibility.md': 400,
  'docs/errors.md': 1_500,
  'docs/frameworks.md': 1_500,
  'docs/migrate.md': 1_200,
  'docs/options.md': 1_500,
  'docs/production.md': 1_900,
  'docs/sharing.md': 1_700,
  'docs/testing.md': 1_500,
  'docs/token-endpoint.md': 1_300,
  'docs/troubleshooting.md': 2_700,
}

/** What is too long, or has no number above. A long unit is shortened, not cut in two. */
export function tooLong(): string[] {
  const ignored = packageJson.files.flatMap((name) => (name.startsWith('!') ? [name.slice(1)] : []))
  const packed = packageJson.files.filter((name) => /\.(?:md|txt)$/.test(name) && !name.startsWith('!'))
  const names = globSync(['README.md', ...packed], { cwd: root, exclude: ignored })
  const pages = names.map((name) => {
    const text = readFileSync(join(root, name), 'utf8')
    return { name: name.replaceAll('\\', '/'), text, count: wordsIn(text) }
  })
  const total = pages.reduce((sum, { count }) => sum + count, 0)
  const problems = pages.flatMap(({ name, text, count }) => {
    const most = WORDS[name]
    if (most === undefined) return [`${name} has no number of words in scripts/budgets.ts`]
    const units = unitsOf(text).filter((unit) => wordsIn(unit) > UNIT)
    return [
      ...(count > most ? [`${name} has ${count} words: at most ${most}`] : []),
      ...units.map((unit) => `${name}: more than ${UNIT} words: ${unit.trim().slice(0, 60)}…`),
    ]
  })
  const decisions = wordsIn(readFileSync(join(root, 'docs/decisions.md'), 'utf8'))
  if (decisions > DECISIONS) problems.push(`docs/decisions.md has ${decisions} words: at most ${DECISIONS}`)
  return total > TOTAL ? [...problems, `The manual has ${total} words: at most ${TOTAL}`] : problems
}

function wordsIn(text: string): number {
  return text.split(/\s+/).filter((word) => word !== '').length
}

/** Paragraphs, rows and items, without code and comments. */
function unitsOf(text: string): string[] {
  const prose = text.replaceAll(/^( *)```.*?^\1```$/gms, '').replaceAll(/<!--.*?-->/gs, '')
  return prose.split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=\|)/)
}
