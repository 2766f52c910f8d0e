/** Global setup of the tests of the packed package: installs it in folders outside this repository. */
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import packageJson from '../../package.json' with { type: 'json' }
import { install, pack, root } from '../../scripts/packed.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The packed package. Its folders are shared: write only to a new folder below one of them. */
    installed: {
      readonly tarball: string
      /** A folder with only the package and its dependencies. */
      readonly alone: string
      /** A folder that also has the optional peers, in the versions of this repository. */
      readonly withPeers: string
    }
  }
}

/** The optional peers, with their versions. */
export const PEERS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.keys(packageJson.peerDependencies).map((name) => [
    name,
    (packageJson.devDependencies as Record<string, string>)[name] ?? '',
  ]),
)

export default async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  if (!existsSync(join(root, 'dist/index.js')))
    throw new Error('These tests are about dist, which is missing: run npm run build')
  const folder = await mkdtemp(join(tmpdir(), 'merchant-auth-installed-'))
  const { tarball } = await pack(folder)
  const [alone, withPeers] = [join(folder, 'alone'), join(folder, 'with-peers')]
  const peers = Object.entries(PEERS).map(([name, version]) => `${name}@${version}`)
  await Promise.all([install(alone, [tarball]), install(withPeers, [tarball, ...peers])])
  provide('installed', { tarball, alone, withPeers })
  return () => rm(folder, { recursive: true, force: true })
}
