/**
 * Checks the package as npm would publish it: packs dist, installs the tarball, and fails when a file is missing or not
 * needed, or when a size exceeds its limit in `check-package/sizes.ts`.
 *
 * npm run check:package [-- --publish --tag v1.2.3] [--keep FOLDER]
 *
 * With `--publish` it also checks whether this version may be published under that tag. With `--keep` the tarball stays
 * in FOLDER.
 */
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { contentProblems, linkProblems } from './check-package/contents.ts'
import { install, output, pack, readManifest, root } from './check-package/packed.ts'
import { publishProblems } from './check-package/publishable.ts'
import { sizes } from './check-package/sizes.ts'

const { values } = parseArgs({
  options: { publish: { type: 'boolean' }, tag: { type: 'string' }, keep: { type: 'string' } },
})

const folder = mkdtempSync(join(tmpdir(), 'merchant-auth-check-'))
try {
  const packed = await pack(folder)
  await install(folder, [packed.tarball])
  const unpacked = join(folder, 'node_modules/merchant-auth')
  const manifest = readManifest(unpacked)
  const { rows, problems: grown } = await sizes(folder, packed)
  console.table(rows)

  const { GITHUB_REPOSITORY: repository } = process.env
  const problems = [
    ...contentProblems(unpacked),
    ...linkProblems(unpacked),
    ...(await publintProblems(packed.tarball)),
    ...(await attwProblems(packed.tarball)),
    ...grown,
    ...(values.publish === true ? publishProblems(manifest, { tag: values.tag, repository }) : []),
  ]
  for (const problem of problems) console.error(`- ${problem}`)
  console.log(problems.length === 0 ? 'The package has no problems.' : `${problems.length} problems.`)
  process.exitCode = problems.length === 0 ? 0 : 1

  if (values.keep !== undefined) {
    mkdirSync(values.keep, { recursive: true })
    copyFileSync(packed.tarball, resolve(values.keep, basename(packed.tarball)))
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}

/** Every message of publint, suggestions included. */
async function publintProblems(tarball: string): Promise<string[]> {
  const { messages, pkg } = await publint({
    pack: { tarball: new Uint8Array(readFileSync(tarball)).buffer },
    strict: true,
    level: 'suggestion',
  })
  return messages.map(
    (message) => `publint: ${formatMessage(message, pkg, { color: false }) ?? message.code}`,
  )
}

/** What attw (Are the Types Wrong?) finds for callers of every kind, `moduleResolution: node10` included. */
async function attwProblems(tarball: string): Promise<string[]> {
  const attw = fileURLToPath(
    new URL('dist/index.js', import.meta.resolve('@arethetypeswrong/cli/package.json')),
  )
  const options = ['--profile', 'strict', '--no-definitely-typed', '--no-color', '--no-emoji']
  try {
    await output(root, [process.execPath, attw, tarball, ...options, '--format', 'ascii'])
    return []
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string }
    return [`attw:\n${stdout}${stderr}`.trim()]
  }
}
