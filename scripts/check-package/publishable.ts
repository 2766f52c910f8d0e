/** Whether this version may be published, and from where. */
import type { Manifest } from './packed.ts'

/** What GitHub's environment variables say about a workflow. */
export interface Release {
  /** The tag that was released, such as `v1.2.3`. */
  readonly tag: string | undefined
  /** `owner/name` of the repository that the workflow runs in. */
  readonly repository: string | undefined
}

/** What prevents publishing. */
export function publishProblems(manifest: Manifest, { tag, repository }: Release): string[] {
  const { version } = manifest
  const url = typeof manifest.repository === 'string' ? manifest.repository : manifest.repository?.url
  const problems: string[] = []
  if (tag !== `v${version}`)
    problems.push(`the tag is ${tag ?? 'missing'}, but package.json's version needs v${version}`)
  if (manifest.private === true) problems.push('package.json says "private": true')
  if (url === undefined) {
    problems.push(
      'package.json has no repository.url: fill in the public repository ("git+https://…/owner/name.git") ' +
        'before the first publish, as npm compares it with where the provenance comes from',
    )
  } else if (repository !== undefined && !isSameRepository(url, repository)) {
    problems.push(`package.json's repository.url is ${url}, but this runs in ${repository}`)
  }
  return problems
}

function isSameRepository(url: string, repository: string): boolean {
  const path = url.toLowerCase().replace(/(?:\.git)?\/?$/, '')
  return path.endsWith(`/${repository.toLowerCase()}`) || path.endsWith(`:${repository.toLowerCase()}`)
}
