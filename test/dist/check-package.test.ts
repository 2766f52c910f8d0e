/** What `npm run check:package` reports: each test adds a fault to a small package that has none. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { contentProblems, linkProblems } from '../../scripts/check-package/contents.ts'
import { measure } from '../../scripts/check-package/first-load.ts'
import { publishProblems } from '../../scripts/check-package/publishable.ts'
import { importsOf, packageOf } from '../../scripts/check-package/reachable.ts'

const MANIFEST = {
  name: 'parcel',
  version: '1.2.3',
  exports: {
    '.': {
      'module-sync': './dist/a.js',
      require: { types: './dist/a.d.cts', default: './dist/a.cjs' },
      default: { types: './dist/a.d.ts', default: './dist/a.js' },
    },
    './package.json': './package.json',
  },
  dependencies: { jose: '1' },
}
const FILES = {
  'package.json': JSON.stringify(MANIFEST),
  'README.md':
    '# B\nSee [the code](dist/a.js), [above](#b), [a page](https://a.example/b) and [mail](mailto:a@b.example).',
  LICENSE: 'MIT',
  'llms.txt': '- [README.md](README.md): B\n',
  'dist/THIRD-PARTY-LICENSES.md': '# Licenses',
  'dist/sbom.cdx.json': '{}',
  'dist/a.js':
    "import 'jose/jwt'\nimport './b.js'\nimport 'node:fs'\nexport const later = () => import('./c.js')\n",
  'dist/b.js': 'export const b = 1\n',
  'dist/c.js': 'export const c = 1\n',
  'dist/a.d.ts':
    "export type { B } from './b.ts'\nexport declare const later: () => Promise<import('./c.js').C>\n",
  'dist/b.d.ts': 'export type B = 1\n',
  'dist/a.cjs': "require('./b.cjs')\n//# sourceMappingURL=data:application/json,{}\n",
  'dist/b.cjs': 'exports.b = 1\n',
  'dist/a.d.cts': "export type { B } from './b.cjs'\n",
  'dist/b.d.cts': 'export type B = 1\n',
  'dist/c.d.ts': 'export type C = 1\n',
}

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'merchant-auth-parcel-'))
  for (const [path, text] of Object.entries(FILES)) plant(path, text)
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

function plant(path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text)
}

describe('the package contents', () => {
  it('have no problems if no fault was added', () => {
    expect([...contentProblems(folder), ...linkProblems(folder)]).toEqual([])
  })

  it.each([
    ['dist/b.test.ts', 'dist/b.test.ts is of no use to users'],
    ['src/a.ts', 'src/a.ts is of no use to users'],
    ['dist/d.js', 'dist/d.js cannot be reached from any entry of exports, nor from a command'],
  ])('must not include %s', (path, problem) => {
    plant(path, '')
    expect(contentProblems(folder)).toEqual([problem])
  })

  it.each([
    ['LICENSE', 'LICENSE is missing'],
    ['dist/sbom.cdx.json', 'dist/sbom.cdx.json is missing'],
    ['dist/a.js', 'dist/a.js is missing, and exports names it'],
    ['dist/c.js', 'dist/c.js is missing, and dist/a.js names it'],
    ['dist/b.cjs', 'dist/b.cjs is missing, and dist/a.cjs names it'],
    ['dist/b.d.ts', 'dist/b.d.ts is missing, and dist/a.d.ts names it'],
    ['dist/b.d.cts', 'dist/b.d.cts is missing, and dist/a.d.cts names it'],
  ])('must include %s', (path, problem) => {
    rmSync(join(folder, path))
    expect(contentProblems(folder)).toContain(problem)
  })

  it.each([
    [
      'dist/b.js',
      "import '@a/b/c'",
      'dist/b.js imports @a/b, which package.json does not name as a dependency',
    ],
    [
      'dist/b.d.ts',
      "export type B = import('redis').R",
      'dist/b.d.ts imports redis, which package.json does not name as a dependency',
    ],
    ['dist/a.js', "import './b.js'\nimport './c.js'", 'jose is a dependency that no packed file imports'],
    [
      'dist/b.d.ts',
      '/// <reference types="node" />\nexport type B = 1',
      'dist/b.d.ts references declarations that not all callers have',
    ],
  ])('are reported if %s contains: %s', (path, text, problem) => {
    plant(path, text)
    expect(contentProblems(folder)).toEqual([problem])
  })

  it.each(['docs/a.md', './NOWHERE.md#here', '../nowhere/README.md', '#nowhere', 'SECURITY.md#below'])(
    'must not have a broken link to %s',
    (link) => {
      plant('SECURITY.md', '# Above\n')
      plant('README.md', `[a](${link}) and [b](SECURITY.md#above)\n`)
      expect(linkProblems(folder)).toEqual([`README.md links to ${link}, which is not there`])
    },
  )
})

describe('an import', () => {
  it.each([
    [
      'in minified code',
      'a.js',
      'import a from"x";export*from"./y.js";const s="import(\'no\')";import(`./z.js`);/* import "no" */',
      ['x', './y.js', './z.js'],
    ],
    ['in declarations', 'a.d.ts', "import { type C } from 'c'\ntype D = import('d').D", ['c', 'd']],
    ['in CommonJS', 'a.cjs', "const b=(0,require(`./b.cjs`)).b;/* require('c') */required('d')", ['./b.cjs']],
  ])('is found by its syntax: %s', (_, file, code, found) => {
    expect(importsOf(file, code)).toEqual(found)
  })

  it.each([
    ['zod/mini', 'zod'],
    ['@a/b/c', '@a/b'],
    ['node:fs', undefined],
    ['./a.js', undefined],
  ])('of %s belongs to the package %s', (specifier, name) => {
    expect(packageOf(specifier)).toBe(name)
  })
})

describe('the package sizes', () => {
  it('of the first load exclude peers and modules that are loaded later', async () => {
    const heavy = Array.from({ length: 5_000 }, (_, at) => Math.sin(at)).join()
    plant('dist/c.js', `export const c = [${heavy}]`)
    plant('dist/a.js', "import 'jose'\nimport './b.js'\nexport const later = () => import('./c.js')")
    const specifiers = [join(folder, 'dist/a.js')]
    const lazy = await measure({ folder, specifiers, external: ['jose'] })
    expect(lazy.firstGzippedBytes).toBeLessThan(300)
    expect(lazy.laterGzippedBytes).toBeGreaterThan(10_000)
    plant('dist/a.js', "export { c as later } from './c.js'")
    const eager = await measure({ folder, specifiers, external: ['jose'] })
    expect(eager.firstGzippedBytes).toBeGreaterThan(10_000)
    expect(eager.firstBytes).toBeGreaterThan(eager.firstGzippedBytes)
    expect(eager.laterGzippedBytes).toBe(0)
  })
})

describe('publishing', () => {
  const repository = 'Owner/parcel'
  const homepage = 'https://git.example/owner/parcel'
  const ready = {
    ...MANIFEST,
    repository: { url: `git+${homepage}.git` },
    homepage,
    bugs: `${homepage}/issues`,
  }

  it('is allowed with the tag of the version, in the repository of package.json', () => {
    expect(publishProblems(ready, { tag: 'v1.2.3', repository })).toEqual([])
    expect(publishProblems(ready, { tag: 'v1.2.3', repository: undefined })).toEqual([])
  })

  it.each([
    ['another tag', ready, { tag: '1.2.3', repository }, /^the tag is 1\.2\.3, .* v1\.2\.3$/],
    ['no tag', ready, { tag: undefined, repository }, /^the tag is missing/],
    ['another repository', ready, { tag: 'v1.2.3', repository: 'owner/cel' }, /runs in owner\/cel$/],
    ['no addresses', MANIFEST, { tag: 'v1.2.3', repository }, / no repository\.url, homepage, bugs: fill in/],
    [
      'no bugs',
      { ...MANIFEST, repository: ready.repository, homepage },
      { tag: 'v1.2.3', repository },
      / no bugs: fill in/,
    ],
    ['a private package', { ...ready, private: true }, { tag: 'v1.2.3', repository }, /"private": true/],
  ])('is rejected for %s', (_name, manifest, release, problem) => {
    const [only, ...more] = publishProblems(manifest, release)
    expect(only).toMatch(problem)
    expect(more).toEqual([])
  })
})
