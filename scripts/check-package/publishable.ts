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
  const addresses = { 'repository.url': url, homepage: manifest.homepage, bugs: manifest.bugs }
  const missing = Object.entries(addresses).flatMap(([field, value]) => (value === undefined ? [field] : []))
  if (missing.length > 0)
    problems.push(
      `package.json has no ${missing.join(', ')}: fill in what is missing (CONTRIBUTING.md, Releases)`,
    )
  if (url !== undefined && !url.toLowerCase().includes(repository?.toLowerCase() ?? '')) {
    problems.push(`package.json's repository.url is ${url}, but this runs in ${repository}`)
  }
  return problems
}
