/**
 * Asks OSV (osv.dev) for the known vulnerabilities of everything that users install with the package or find bundled in
 * it, and of the tools that this repository installs. Fails for what users get; updates of the tools come by Dependabot.
 *
 * npm run audit [-- --osv URL]
 */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { readLock, root } from './check-package/packed.ts'

const AT_ONCE = 500

const { osv } = parseArgs({ options: { osv: { type: 'string', default: 'https://api.osv.dev' } } }).values

const sbom = readFileSync(join(root, 'dist/sbom.cdx.json'), 'utf8')
const { components } = JSON.parse(sbom) as { components: readonly { purl: string }[] }
/** Each package, and whether users get it. */
const packages = new Map(components.map(({ purl }) => [purl, true]))
for (const lock of globSync(['package-lock.json', '{bench,docs/api,test/*}/package-lock.json'], {
  cwd: root,
})) {
  for (const [path, locked] of Object.entries(readLock(join(root, dirname(lock))))) {
    if (path === '' || locked.version === undefined) continue
    const name = locked.name ?? path.replace(/^.*node_modules\//, '')
    const purl = `pkg:npm/${name.replace('@', '%40')}@${locked.version}`
    const isTool = lock !== 'package-lock.json' || locked.dev || locked.devOptional || locked.optional
    if (packages.get(purl) !== true) packages.set(purl, !isTool)
  }
}

const found = await vulnerabilities([...packages.keys()])
for (const [purl, ids] of found) {
  const links = ids.map((id) => `https://osv.dev/vulnerability/${id}`).join(' ')
  console.log(`${packages.get(purl) ? 'Users get' : 'A tool uses'} ${decodeURIComponent(purl)}: ${links}`)
}
const affected = [...found.keys()].filter((purl) => packages.get(purl))
console.log(
  `${packages.size} packages, ${found.size} with a known vulnerability; users get ${affected.length} of these.`,
)
process.exitCode = affected.length === 0 ? 0 : 1

/** The ids of the known vulnerabilities, by package. */
async function vulnerabilities(purls: readonly string[]): Promise<Map<string, string[]>> {
  const ids = new Map<string, string[]>()
  for (let from = 0; from < purls.length; from += AT_ONCE) {
    const asked = purls.slice(from, from + AT_ONCE)
    const response = await fetch(`${osv}/v1/querybatch`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ queries: asked.map((purl) => ({ package: { purl } })) }),
      signal: AbortSignal.timeout(60_000),
    })
    if (!response.ok) throw new Error(`POST ${osv}/v1/querybatch answered ${response.status}`)
    const { results } = (await response.json()) as {
      results: readonly { vulns?: readonly { id: string }[] }[]
    }
    if (results.length !== asked.length)
      throw new Error(`OSV answered ${results.length} of ${asked.length} queries`)
    for (const [at, { vulns = [] }] of results.entries()) {
      const [purl = ''] = asked.slice(at)
      if (vulns.length > 0)
        ids.set(
          purl,
          vulns.map(({ id }) => id),
        )
    }
  }
  return ids
}
