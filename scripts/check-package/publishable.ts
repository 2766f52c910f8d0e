/** Whether this version may be published, and from where. */
import type { Manifest } from './packed.ts'

/** The reasons not to publish what was released with this tag, such as `v1.2.3`, in the repository `owner/name`. */
export function publishProblems(
  manifest: Manifest,
  { tag, repository }: { tag: string | undefined; repository: string | undefined },
): string[] {
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
  } else if (!url.toLowerCase().includes(repository?.toLowerCase() ?? '')) {
    problems.push(`package.json's repository.url is ${url}, but this runs in ${repository}`)
  }
  return problems
}
