/** What `npm publish` runs first: it ends here if package.json is not ready, for a version published by hand, too. */
import { readManifest, root } from './check-package/packed.ts'
import { publishProblems } from './check-package/publishable.ts'

const manifest = readManifest(root)
const problems = publishProblems(manifest, { tag: `v${manifest.version}`, repository: undefined })
for (const problem of problems) console.error(`- ${problem}`)
process.exitCode = problems.length === 0 ? 0 : 1
