/**
 * Asks OSV (osv.dev) for the known vulnerabilities of the packages that are bundled into dist. No tool does: osv-scanner is not
 * on npm, and to `npm audit` they are development dependencies, whose other vulnerabilities reach no user and come by
 * Dependabot.
 *
 * npm run audit [-- --osv URL]
 */
import { parseArgs } from 'node:util'
import packageJson from '../package.json' with { type: 'json' }

const { osv } = parseArgs({ options: { osv: { type: 'string', default: 'https://api.osv.dev' } } }).values

const bundled = Object.entries(packageJson.inlinedDependencies)
const response = await fetch(`${osv}/v1/querybatch`, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    queries: bundled.map(([name, version]) => ({ package: { ecosystem: 'npm', name }, version })),
  }),
  signal: AbortSignal.timeout(60_000),
})
if (!response.ok) throw new Error(`POST ${osv}/v1/querybatch returned ${response.status}`)
const { results } = (await response.json()) as { results: readonly { vulns?: readonly { id: string }[] }[] }
for (const [at, [name, version]] of bundled.entries()) {
  const links = results[at]?.vulns?.map(({ id }) => `https://osv.dev/vulnerability/${id}`) ?? []
  console.log(`${name} ${version}: ${links.length > 0 ? links.join(' ') : 'no known vulnerability'}`)
  if (links.length > 0) process.exitCode = 1
}
