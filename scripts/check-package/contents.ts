/** Which files are in the package, and whether its users need them: each problem as a sentence. */
import { readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { filesOf, readManifest } from './packed.ts'
import { reachableFrom } from './reachable.ts'

const PAGE = /^(?:(?:README|SECURITY|CHANGELOG|docs\/[^/]+)\.md|llms\.txt)$/
const PICTURE = /^docs\/[^/]+\.svg$/
const CODE = /^dist\/.+(?:\.c?js|\.d\.c?ts)$/
const SOURCE_MAP = /^dist\/.+\.js\.map$/
const MUST_BE_THERE = [
  'package.json',
  'README.md',
  'LICENSE',
  'llms.txt',
  'dist/THIRD-PARTY-LICENSES.md',
  'dist/sbom.cdx.json',
]

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
        (path) =>
          !MUST_BE_THERE.includes(path) &&
          ![PAGE, PICTURE, CODE, SOURCE_MAP].some((known) => known.test(path)),
      )
      .map((path) => `${path} is of no use to users`),
    ...code
      .filter((path) => !reached.has(path))
      .map((path) => `${path} cannot be reached from any entry of exports, nor from a command`),
    ...code
      .filter((path) => /\.d\.c?ts$/.test(path))
      .filter((path) => /^\/\/\/ *<reference/m.test(readFileSync(join(folder, path), 'utf8')))
      .map((path) => `${path} references declarations that not all callers have`),
    ...[...packages]
      .filter(([name]) => !Object.hasOwn(named, name))
      .map(([name, path]) => `${path} imports ${name}, which package.json does not name as a dependency`),
    ...Object.keys(dependencies)
      .filter((name) => !packages.has(name))
      .map((name) => `${name} is a dependency that no packed file imports`),
  ]
}

/** Links of the packed pages whose file or heading is not in the package. */
export function linkProblems(folder: string): string[] {
  const files = filesOf(folder)
  return files
    .filter((path) => PAGE.test(path))
    .flatMap((page) => brokenLinks(folder, page, (path) => files.includes(path)))
}

/** Links of a page that lead to no file, by its path below the folder, or to no heading. */
export function brokenLinks(folder: string, page: string, isThere: (path: string) => boolean): string[] {
  return linksOf(readFileSync(join(folder, page), 'utf8'))
    .filter((link) => {
      const [path = '', anchor] = link.split('#')
      const target = path === '' ? page : posix.join(posix.dirname(page), path)
      if (!isThere(target)) return true
      return anchor !== undefined && !anchorsOf(readFileSync(join(folder, target), 'utf8')).has(anchor)
    })
    .map((link) => `${page} links to ${link}, which is not there`)
}

/** The links of a page within the repository, each once. */
export function linksOf(page: string): string[] {
  const links = [...withoutCode(page).matchAll(/\]\(([^)\s]+)\)/g)].map(({ 1: link = '' }) => link)
  return [...new Set(links)].filter((link) => !/^(?:https?:|mailto:)/.test(link))
}

function withoutCode(text: string): string {
  return text.replaceAll(/^ *```.*?^ *```$/gms, '')
}

/** The anchors that GitHub and npm give to the headings of a page. */
export function anchorsOf(page: string): Set<string> {
  const headings = [...withoutCode(page).matchAll(/^#+ (.+)$/gm)].map(({ 1: heading = '' }) => heading)
  const plain = headings.map((heading) => heading.toLowerCase().replaceAll(/[^\p{L}\p{N}_\- ]/gu, ''))
  return new Set(plain.map((heading) => heading.replaceAll(' ', '-')))
}
