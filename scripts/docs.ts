/**
 * Generates the API reference by typedoc, next to the manual: docs/api/out/index.html. Fails on a warning: something public
 * without a comment, a type that is used but not exported, a broken link. typedoc does not check the fragment of a link and
 * drops code from the anchors of headings, so that fragments are checked here.
 * The code and the diffs that the pages show from examples/ must be what is there, the tables what the code says, and llms.txt
 * what docs/README.md lists; `--update` writes them. No page may be longer than scripts/budgets.ts says. Tools that embed files show neither diffs nor compiled names of imports.
 *
 * npm run docs [-- --update]
 */
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, extname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import packageJson from '../package.json' with { type: 'json' }
import { tooLong } from './budgets.ts'
import { isInstalled } from './packed.ts'
import { TABLES } from './tables.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const api = join(root, 'docs/api')
const out = join(api, 'out')
const update = process.argv.includes('--update')
const modules = Object.entries(packageJson.exports).flatMap(([path, entry]) =>
  typeof entry === 'object'
    ? [{ name: join('merchant-auth', path), source: sourceOf(entry['module-sync']) }]
    : [],
)

const pages = [...pagesWithOldParts(), ...outdated('llms.txt', pageList())]
if (update) for (const page of pages) console.log(`${page} is updated`)
else mustBeEmpty(pages.map((page) => `${page} is not up to date: npm run docs -- --update`))
mustBeEmpty(tooLong())
install()
// typedoc has a package.json of its own, as the newest TypeScript that it reads is older than this repository's.
run(process.execPath, [
  join(api, 'node_modules/typedoc/bin/typedoc'),
  ...['--options', join(api, 'typedoc.json')],
  ...modules.flatMap(({ source }) => ['--entryPoints', source]),
])
mustBeEmpty([...unnamedModules(), ...brokenLinks()])
console.log(`The API reference is ${relative(process.cwd(), join(out, 'index.html'))}`)

function mustBeEmpty(problems: readonly string[]): void {
  for (const problem of problems) console.error(problem)
  if (problems.length > 0) process.exit(1)
}

/** The pages whose code after `<!-- example: FILE -->` or `<!-- diff: FILE OTHER -->`, or table after `<!-- table: NAME -->`, was an old one. */
function pagesWithOldParts(): string[] {
  return globSync('{*,docs/*}.md', { cwd: root }).filter((page) => {
    const text = readFileSync(join(root, page), 'utf8')
    const shown = /^<!-- example: (\S+) -->\n.*?^<!-- \/example -->$/gms
    const shownDiff = /^<!-- diff: (\S+) (\S+) -->\n.*?^<!-- \/diff -->$/gms
    const shownTable = /^<!-- table: (\S+) -->\n.*?^<!-- \/table -->$/gms
    const current = text
      .replace(
        shownTable,
        (_, name: string) => `<!-- table: ${name} -->\n\n${tableOf(name)}\n\n<!-- /table -->`,
      )
      .replace(shown, (_, name: string) => exampleOf(name))
      .replace(shownDiff, (_, before: string, after: string) => diffOf(before, after))
    if (current !== text && update) writeFileSync(join(root, page), current)
    return current !== text
  })
}

function tableOf(name: string): string {
  const create = TABLES[name]
  if (create === undefined) throw new Error(`There is no table ${name}`)
  return create()
}

/** The name of a file whose text was another one. */
function outdated(name: string, text: string): string[] {
  const file = join(root, name)
  if (existsSync(file) && readFileSync(file, 'utf8') === text) return []
  if (update) writeFileSync(file, text)
  return [name]
}

/** The pages that docs/README.md lists, in the format of https://llmstxt.org, for tools that read the package. */
function pageList(): string {
  const manual = readFileSync(join(root, 'docs/README.md'), 'utf8')
  const tables = manual.matchAll(/^\| (.+) \| the question \|\n\|---\|---\|\n((?:\|.*\n)+)/gm)
  const sections = [...tables].map(([, title = '', rows = '']) => {
    const lines = [...rows.matchAll(/^\| \[[^\]]+\]\((\S+)\) \| (.*) \|$/gm)].map(
      ([, link = '', question = '']) => {
        const path = join('docs', link).replaceAll('\\', '/')
        return `- [${path}](${path}): ${question.replaceAll(/\[([^\]]+)\]\([^)]+\)/g, '$1')}\n`
      },
    )
    return `## ${title[0]?.toUpperCase()}${title.slice(1)}\n\n${lines.join('')}`
  })
  const start = '- [README.md](README.md): What is it, and how do I begin?\n'
  return `# ${packageJson.name}\n\n> ${packageJson.description}\n\n${start}\n${sections.join('\n')}`
}

/** The code without the comment at the top of its file. */
function exampleOf(name: string): string {
  const code = withCompiledNames(readFileSync(join(root, name), 'utf8').replace(/^\/\*\*.*?\*\/\n/s, ''))
  const language = extname(name).slice(1)
  const comment = language === 'yaml' ? '#' : '//'
  return `<!-- example: ${name} -->\n\n\`\`\`${language}\n${comment} ${basename(name)}\n${code}\`\`\`\n\n<!-- /example -->`
}

/** What changes from one file to another, with all lines that stay. */
function diffOf(before: string, after: string): string {
  const args = ['diff', '--no-index', '--no-color', '--no-ext-diff', '--unified=1000', before, after]
  const { stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8' })
  const lines = withCompiledNames(stdout.replace(/^.*\n@@ .*?\n/s, '').replaceAll(/^ $/gm, ''))
  return `<!-- diff: ${before} ${after} -->\n\n\`\`\`diff\n${lines}\`\`\`\n\n<!-- /diff -->`
}

/** Imports name files as TypeScript compiles them. docs/compatibility.md says what else is possible. */
function withCompiledNames(code: string): string {
  return code.replaceAll(/(from |import |import\()'(\.\/[\w-]+)\.ts'/g, "$1'$2.js'")
}

/** `./dist/attach/axios/index.js` comes from src/attach/axios/index.ts. */
function sourceOf(built: string): string {
  return join(root, 'src', relative('dist', built).replace(/\.js$/, '.ts'))
}

/** Installs what the lock file names, unless that is installed already. */
function install(): void {
  if (isInstalled(api)) return
  run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel', 'error'])
}

function run(command: string, args: readonly string[]): void {
  const shell = command === 'npm' && process.platform === 'win32'
  const { status, error } = spawnSync(command, args, {
    cwd: api,
    stdio: ['ignore', 'inherit', 'inherit'],
    shell,
  })
  if (error) throw error
  if (status !== 0) process.exit(1)
}

/** Without the tag `@module` a module would be named after its file. */
function unnamedModules(): string[] {
  const { children } = JSON.parse(readFileSync(join(out, 'api.json'), 'utf8')) as {
    children: readonly { name: string }[]
  }
  return modules
    .filter(({ name }) => !children.some((child) => child.name === name))
    .map(({ name, source }) => `${relative(root, source)}: the comment at its head needs "@module ${name}"`)
}

/** Links to a page, or to a place in one, that have no target. */
function brokenLinks(): string[] {
  const anchors = new Map<string, ReadonlySet<string> | undefined>()
  const anchorsOf = (path: string): ReadonlySet<string> | undefined => {
    const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory()
    const file = isFolder ? join(path, 'index.html') : path
    if (!anchors.has(file))
      anchors.set(file, existsSync(file) ? new Set(attributes(readFileSync(file, 'utf8'), 'id')) : undefined)
    return anchors.get(file)
  }
  const pagesOfReference = globSync('**/*.html', { cwd: out, exclude: ['media/**'] })
  const broken = pagesOfReference.flatMap((page) =>
    attributes(readFileSync(join(out, page), 'utf8'), 'href').flatMap((href) => {
      const url = new URL(href, pathToFileURL(join(out, page)))
      if (url.protocol !== 'file:') return []
      const known = anchorsOf(fileURLToPath(url))
      const isThere = known && (url.hash === '' || known.has(decodeURIComponent(url.hash.slice(1))))
      return isThere ? [] : `${page}: ${href} is a broken link`
    }),
  )
  return [...new Set(broken)]
}

/** All values of an attribute in a page. */
function attributes(html: string, name: string): string[] {
  return [...html.matchAll(new RegExp(`\\s${name}="([^"]*)"`, 'g'))].map(({ 1: value = '' }) =>
    value.replaceAll('&amp;', '&'),
  )
}
