/**
 * README.md and docs: their code compiles under the settings of this repository, and their links work. Each code block is
 * a separate module. If its first line is a comment with a file name (`// environments.ts`), it is that file, and the other
 * blocks may import it, as they may import the files in examples/recipes/parts that no page shows. Blocks from test/consumers are compiled there. Code is hand-written only where
 * test/dist/pages.test.ts runs it, or where it shows how other packages are used.
 */
import { execFileSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join, posix } from 'node:path'
import { describe, expect, it } from 'vitest'
import packageJson from '../package.json' with { type: 'json' }
import { root } from '../scripts/packed.ts'
import { VARIABLE_NAMES } from '../src/options/variables.ts'
import { anchorsOf, brokenLinks, linksOf } from './support/links.ts'

const docs = readdirSync(join(root, 'docs'))
  .filter((name) => name.endsWith('.md'))
  .map((name) => `docs/${name}`)
const pages = ['README.md', 'SECURITY.md', 'CONTRIBUTING.md', 'CHANGELOG.md', ...docs].map((name) => ({
  name,
  text: readFileSync(join(root, name), 'utf8'),
}))
const readme = textOf('README.md')
const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => readFileSync(join(root, 'src', name), 'utf8'))

function textOf(name: string): string {
  return pages.find((page) => page.name === name)?.text ?? ''
}

interface Block {
  readonly page: string
  readonly file: string
  /** The file that the block shows; undefined if the block is hand-written. */
  readonly source: string | undefined
  /** The line of the page before the first one of the code. */
  readonly line: number
  readonly code: string
}

const blocks: readonly Block[] = pages.flatMap(({ name, text }) =>
  [...text.matchAll(/^```[jt]s\n(.*?)^```$/gms)].map(({ 1: code = '', index }) => {
    const line = text.slice(0, index).split('\n').length
    const source = /<!-- example: (\S+) -->\n\n$/.exec(text.slice(0, index))?.[1]
    const file = `${name.replaceAll(/\W/g, '-')}-line-${line}.ts`
    return { page: name, file: /^\/\/ ([\w-]+\.ts)\n/.exec(code)?.[1] ?? file, source, line, code }
  }),
)

/** test/consumers compiles its files with packages that only it has installed. */
const isConsumers = ({ source }: Block): boolean => source?.startsWith('test/consumers/') === true

describe('README.md and docs', () => {
  it('have code that compiles', () => {
    expect(blocks.length).toBeGreaterThanOrEqual(5)
    expect(compilerErrors(blocks.filter((block) => !isConsumers(block)))).toBe('')
  })

  it('import files as docs/compatibility.md says: with .js, never with .ts', () => {
    const found = pages.flatMap(({ name, text }) =>
      [...text.matchAll(/^(?:import|export) .*'\.{1,2}\/[^']*\.ts'/gm)].map(([line]) => `${name}: ${line}`),
    )
    expect(found).toEqual([])
  })

  it('have hand-written code only where a test runs it or where it shows how other packages are used', () => {
    const byHand = blocks.filter(({ source }) => source === undefined).map(({ page }) => page)
    expect([...new Set(byHand)]).toEqual(['README.md', 'docs/migrate.md', 'docs/testing.md'])
  })

  it('list every page of docs in an index: user pages in the manual, the others in CONTRIBUTING.md', () => {
    const manual = linksOf(textOf('docs/README.md')).map((link) => posix.join('docs', link))
    const contributing = linksOf(textOf('CONTRIBUTING.md'))
    const isPacked = (name: string): boolean => !packageJson.files.includes(`!${name}`)
    const listed = docs.filter((name) => name !== 'docs/README.md')
    expect(listed.filter((name) => isPacked(name) !== manual.includes(name))).toEqual([])
    expect(listed.filter((name) => !isPacked(name) && !contributing.includes(name))).toEqual([])
  })

  it('have a section of docs/troubleshooting.md for every warning, and no other', () => {
    const files = ['warnings.ts', 'store-warning.ts'].map((name) => join(root, 'src/events', name))
    const source = files.map((file) => readFileSync(file, 'utf8')).join('\n')
    const codes = [...source.matchAll(/'(MERCHANT_AUTH_\w+)'/g)].map(([, code]) => code)
    const headings = [...textOf('docs/troubleshooting.md').matchAll(/^### (\w+)$/gm)].map(
      ([, heading]) => heading,
    )
    expect(codes.length).toBeGreaterThan(0)
    expect(headings.sort()).toEqual(codes.sort())
  })

  it('have every section of docs/troubleshooting.md that a message names', () => {
    const named = sources.flatMap((source) => [...source.matchAll(/inManual\('(.+?)'\)/g)])
    const sections = named.map(([, section]) => section)
    expect(sections.length).toBeGreaterThan(0)
    expect([...anchorsOf(textOf('docs/troubleshooting.md'))]).toEqual(expect.arrayContaining(sections))
  })

  it.each([
    'none is set',
    'already has a token attached',
    'cannot be read (',
    'must be one URL',
    'must not begin or end with a quote',
    'must not contain ~',
    'did not answer in time',
    'returned something else, or a Response that was read before',
  ])('quote the message as it is in docs/troubleshooting.md: %s', (message) => {
    expect(sources.some((source) => source.includes(message))).toBe(true)
    expect(textOf('docs/troubleshooting.md')).toContain(message)
  })

  it.each(Object.keys(packageJson.exports).filter((entry) => entry !== './package.json'))(
    'name everything that can be imported from %s in a table of README.md',
    async (entry) => {
      const name = entry.replace('.', packageJson.name)
      const row = readme.split('\n').find((line) => line.startsWith(`| \`${name}\` |`)) ?? ''
      const exports = Object.keys(await import(name))
      expect(exports.filter((exported) => !row.includes(`\`${exported}\``))).toEqual([])
    },
  )

  it('state the version ranges of package.json', () => {
    const limited = Object.entries(packageJson.peerDependencies).filter(([, range]) => range !== '*')
    expect(limited.map(([name]) => name)).toEqual(['@opentelemetry/api', 'axios'])
    for (const [name, range] of limited)
      expect(textOf('docs/compatibility.md'), name).toContain(`**${range}**`)
    expect(readme).toContain(packageJson.engines.node.replace('>=', ''))
  })

  it.each(pages)('$name reads no environment variable that nothing on it sets', ({ text }) => {
    const code = [...text.matchAll(/^```\w+\n(.*?)^```$/gms)].map(([, block = '']) => block).join('\n')
    const known = new Set([...VARIABLE_NAMES, ...SET_BY_PLATFORMS])
    const isSet = (name: string): boolean => known.has(name) || new RegExp(`^ *${name}[=:]`, 'm').test(code)
    expect(variablesWithoutDefault(code).filter((name) => !isSet(name))).toEqual([])
  })

  it.each(pages)('$name names only npm scripts that exist', ({ text }) => {
    const named = [...text.matchAll(/npm run ([a-z][\w:-]*)/g)].map(({ 1: name }) => name)
    expect(named.filter((name) => !Object.hasOwn(packageJson.scripts, String(name)))).toEqual([])
  })

  it.each(pages)('$name has no broken link within the repository', ({ name }) => {
    expect(brokenLinks(root, name, (path) => existsSync(join(root, path)))).toEqual([])
  })
})

/** Set in every process, by the runtime of AWS Lambda. */
const SET_BY_PLATFORMS = ['AWS_SESSION_TOKEN']

/** The environment variables that code reads without a default other than ''. */
function variablesWithoutDefault(code: string): string[] {
  const reads = [...code.matchAll(/process\.env(?:\.(\w+)\b|\['(\w+)'\])(?! \?\? (?:'[^']|\d|join\())/g)]
  const destructured = [...code.matchAll(/\{([^{}]*)\} = process\.env/g)].flatMap(([, list = '']) =>
    list.split(',').map((item) => item.trim()),
  )
  const withoutDefault = destructured.filter((item) => !/= '[^']/.test(item))
  return [
    ...reads.map(([, dotted, quoted]) => dotted ?? quoted ?? ''),
    ...withoutDefault.map((item) => /^\w+/.exec(item)?.[0] ?? ''),
  ]
}

/** Returns the errors of tsc, with each location as the line of its page; '' if there are none. */
function compilerErrors(chosen: readonly Block[]): string {
  const cache = join(root, 'node_modules/.cache')
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(cache, 'readme-'))
  try {
    cpSync(join(root, 'examples/recipes/parts'), folder, { recursive: true })
    for (const { file, code } of chosen) writeFileSync(join(folder, file), code)
    const project = join(folder, 'tsconfig.json')
    const settings = {
      extends: join(root, 'tsconfig.json'),
      compilerOptions: { typeRoots: [join(root, 'node_modules/@types')] },
      include: [],
      files: [
        ...chosen.map(({ file }) => file),
        join(root, 'examples/recipes/cloudflare/cloudflare-workers.d.ts'),
      ],
    }
    writeFileSync(project, JSON.stringify(settings))
    const tsc = join(root, 'node_modules/typescript/bin/tsc')
    execFileSync(process.execPath, [tsc, '--pretty', 'false', '-p', project], {
      encoding: 'utf8',
      stdio: 'pipe',
    })
    return ''
  } catch (error) {
    return (error as { stdout: string }).stdout.replace(/^\S*?([\w-]+\.ts)\((\d+),/gm, (all, file, line) => {
      const block = blocks.find((candidate) => candidate.file === file)
      return block === undefined ? all : `${block.page}:${block.line + Number(line)} (${all}`
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
