/**
 * Generates the API reference from the sources, next to the manual: docs/api/out/index.html. Fails on a warning:
 * something public without a comment, a type that is used but not exported, a broken link. typedoc does not check the
 * fragment of a link and drops code from the anchors of headings, so that fragments are checked here.
 * The code that the pages show from examples/ must be what is there; `--update` writes it.
 *
 * npm run docs [-- --update]
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { globSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import packageJson from '../package.json' with { type: 'json' }
import { pagesWithOldExamples } from './docs/examples.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const api = join(root, 'docs/api')
const out = join(api, 'out')
const modules = Object.entries(packageJson.exports).flatMap(([path, entry]) =>
  typeof entry === 'object'
    ? [{ name: join('merchant-auth', path), source: sourceOf(entry['module-sync']) }]
    : [],
)

checkExamples()
install()
// typedoc has a package.json of its own, as the newest TypeScript that it reads is older than this repository's.
run(process.execPath, [
  join(api, 'node_modules/typedoc/bin/typedoc'),
  ...['--options', join(api, 'typedoc.json')],
  ...modules.flatMap(({ source }) => ['--entryPoints', source]),
])
checkModules()
checkHeadings()
checkLinks()
console.log(`The API reference is ${relative(process.cwd(), join(out, 'index.html'))}`)

/** Pages show the examples as they are. */
function checkExamples(): void {
  const update = process.argv.includes('--update')
  const pages = pagesWithOldExamples(root, { update })
  for (const page of pages)
    console.log(update ? `${page} is updated` : `${page} differs from examples/: npm run docs -- --update`)
  if (pages.length > 0 && !update) process.exit(1)
}

/** `./dist/attach/axios.js` comes from src/attach/axios.ts. */
function sourceOf(built: string): string {
  return join(root, 'src', relative('dist', built).replace(/\.js$/, '.ts'))
}

/** Installs what the lock file names, unless that is installed already. */
function install(): void {
  const lock = readFileSync(join(api, 'package-lock.json'))
  const hash = createHash('sha256').update(lock).digest('hex')
  const stamp = join(api, 'node_modules/.lock-hash')
  if (contentOf(stamp) === hash) return
  run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel', 'error'])
  writeFileSync(stamp, hash)
}

function contentOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
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
function checkModules(): void {
  const { children } = JSON.parse(readFileSync(join(out, 'api.json'), 'utf8')) as {
    children: readonly { name: string }[]
  }
  const unnamed = modules.filter(({ name }) => !children.some((child) => child.name === name))
  for (const { name, source } of unnamed)
    console.error(`${relative(root, source)}: the comment at its head needs a line "@module ${name}"`)
  if (unnamed.length > 0) process.exit(1)
}

/** Every page has one heading of the first level. */
function checkHeadings(): void {
  const wrong = globSync('**/*.html', { cwd: out, exclude: ['media/**'] }).filter(
    (page) => readFileSync(join(out, page), 'utf8').match(/<h1\b/g)?.length !== 1,
  )
  for (const page of wrong) console.error(`${page} needs exactly one first-level heading`)
  if (wrong.length > 0) process.exit(1)
}

/** Every link to a page, or to a place in one, must have a target. */
function checkLinks(): void {
  const anchors = new Map<string, ReadonlySet<string>>()
  const broken = new Set<string>()
  for (const page of globSync('**/*.html', { cwd: out, exclude: ['media/**'] })) {
    for (const href of attributes(readFileSync(join(out, page), 'utf8'), 'href')) {
      const url = new URL(href, pathToFileURL(join(out, page)))
      if (url.protocol === 'file:' && !hasTarget(url, anchors)) broken.add(`${page}: ${href}`)
    }
  }
  for (const link of broken) console.error(`${link} is a broken link`)
  if (broken.size > 0) process.exit(1)
}

function hasTarget(url: URL, anchors: Map<string, ReadonlySet<string>>): boolean {
  const path = fileURLToPath(url)
  const file = statSync(path, { throwIfNoEntry: false })?.isDirectory() ? join(path, 'index.html') : path
  let known = anchors.get(file)
  if (known === undefined) {
    if (statSync(file, { throwIfNoEntry: false }) === undefined) return false
    known = new Set(attributes(readFileSync(file, 'utf8'), 'id'))
    anchors.set(file, known)
  }
  return url.hash === '' || known.has(decodeURIComponent(url.hash.slice(1)))
}

/** All values of an attribute in a page. */
function attributes(html: string, name: string): string[] {
  return [...html.matchAll(new RegExp(`\\s${name}="([^"]*)"`, 'g'))].map(({ 1: value = '' }) =>
    value.replaceAll('&amp;', '&'),
  )
}
