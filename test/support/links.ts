/**
 * The links and headings of Markdown pages. remark-validate-links checks links, too, but not against the files of a package,
 * and with remark-cli it installs 190 packages.
 */
import { readFileSync } from 'node:fs'
import { join, posix } from 'node:path'

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
