/** What typedoc lacks: the group of each page, and links to classes of the main entry from the comments of the others. */
import { basename } from 'node:path'

const MAIN = 'merchant-auth'
/** Pages that are not packed. */
const CONTRIBUTORS = ['CONTRIBUTING', 'decisions', 'RESULTS']

/** @param {import('typedoc').Application} app */
export function load(app) {
  app.converter.on('createDocument', (_, page) => {
    const file = page.project.files.getReflectionPath(page)
    const name = basename(file ?? page.name, '.md')
    const isForContributors = CONTRIBUTORS.includes(name) || file?.endsWith('bench/README.md')
    page.frontmatter['group'] = isForContributors ? 'For contributors' : 'Manual'
  })
  // TypeScript reads the braces of `@throws {@link X}` as a type, so that typedoc does not know which X is meant.
  app.converter.addUnknownSymbolResolver(({ moduleSource, symbolReference }, owner) => {
    const [{ path: name } = {}] = symbolReference?.path ?? []
    if (moduleSource !== undefined || name === undefined) return undefined
    const target = owner.project.getChildByName([MAIN, name])
    return target && { target }
  })
}
