/** The files of the package: those that its users do not need, and those that they lack, each as a sentence. */
import { existsSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { filesOf, readManifest, root } from './packed.ts'
import { reachableFrom } from './reachable.ts'

const PAGE = /^(?:README|SECURITY|CHANGELOG|THIRD-PARTY-LICENSES|docs\/[^/]+)\.md$/
const PICTURE = /^docs\/[^/]+\.svg$/
const CODE = /^dist\/.+(?:\.js|\.d\.ts)$/
const MUST_BE_THERE = ['package.json', 'README.md', 'LICENSE']

/** What is wrong with the files of an unpacked package. */
export function contentProblems(folder: string): string[] {
  const files = filesOf(folder)
  const code = files.filter((path) => CODE.test(path))
  const { files: reached, packages, missing } = reachableFrom(folder)
  const { dependencies = {}, peerDependencies = {} } = readManifest(folder)
  const named = { ...dependencies, ...peerDependencies }
  return [
    ...MUST_BE_THERE.filter((path) => !files.includes(path)).map((path) => `${path} is missing`),
    ...missing,
    ...files
      .filter(
        (path) => !MUST_BE_THERE.includes(path) && ![PAGE, PICTURE, CODE].some((known) => known.test(path)),
      )
      .map((path) => `${path} is of no use to users`),
    ...code
      .filter((path) => !reached.has(path))
      .map((path) => `${path} cannot be reached from any entry of exports, nor from a command`),
    ...code.flatMap((path) => textProblems(path, readFileSync(join(folder, path), 'utf8'))),
    ...[...packages]
      .filter(([name]) => !Object.hasOwn(named, name))
      .map(([name, path]) => `${path} imports ${name}, which package.json does not name as a dependency`),
    ...Object.keys(dependencies)
      .filter((name) => !packages.has(name))
      .map((name) => `${name} is a dependency that no packed file imports`),
  ]
}

function textProblems(path: string, text: string): string[] {
  const problems: string[] = []
  if (/^\/\/[#@] sourceMappingURL=(?!data:)/m.test(text))
    problems.push(`${path} names a source map, and none is packed`)
  if (path.endsWith('.d.ts') && /^\/\/\/ *<reference/m.test(text))
    problems.push(`${path} asks by a reference for declarations that not all callers have`)
  return problems
}

/** Links of the packed pages to files that are neither in the package nor in the repository, which npm resolves links against. */
export function linkProblems(folder: string, repository: string = root): string[] {
  return filesOf(folder)
    .filter((path) => PAGE.test(path))
    .flatMap((page) => {
      const text = readFileSync(join(folder, page), 'utf8').replaceAll(/^```.*?^```$/gms, '')
      const links = new Set([...text.matchAll(/\]\(([^)\s]+)\)/g)].map(({ 1: link = '' }) => link))
      return [...links]
        .filter((link) => !/^(?:https?:|mailto:|#)/.test(link))
        .filter((link) => {
          const path = join(posix.dirname(page), link.replace(/#.*/, ''))
          return ![folder, repository].some((place) => existsSync(join(place, path)))
        })
        .map((link) => `${page} links to ${link}, which is not there`)
    })
}
