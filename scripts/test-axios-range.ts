/**
 * Runs test/axios-range/program.mjs with the packed package and each version of axios in the peer range, one after the
 * other. Tools for this run a list of versions in the folder of the sources; here npm names the versions of the range, and
 * nothing but the package is installed.
 *
 * npm run test:axios-range
 * npm run test:axios-range -- 1.13.3 1.13.4
 */
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { install, output, pack, readManifest, root } from './packed.ts'

const given = process.argv.slice(2)
const folder = mkdtempSync(join(tmpdir(), 'merchant-auth-axios-'))
try {
  const range = `axios@${readManifest(root).peerDependencies?.['axios']}`
  const listing = await output(folder, ['npm', 'view', range, 'version', '--json'])
  const versions = given.length > 0 ? given : [JSON.parse(listing) as string | string[]].flat()
  const { tarball } = await pack(folder)
  for (const version of versions) {
    const project = join(folder, version)
    cpSync(join(root, 'test/axios-range'), project, { recursive: true })
    writeFileSync(join(project, 'package.json'), '{ "private": true, "type": "module" }')
    try {
      await install(project, [tarball, `axios@${version}`, '--ignore-scripts'])
      await output(project, [process.execPath, 'program.mjs'])
      console.log(`✓ axios ${version}`)
    } catch (error) {
      console.error(`✗ axios ${version}`, error)
      process.exitCode = 1
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
