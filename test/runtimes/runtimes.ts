/** The runtimes: their packages in the registry, the binaries in them, and the arguments that start them. */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** One runtime that can be started. */
export interface Runtime {
  readonly name: string
  readonly binary: string
  /** The arguments before the file to run. */
  readonly args: readonly string[]
}

interface Known {
  readonly name: string
  /** The package for a platform. */
  packageFor(platform: string): string
  /** The binary within it. */
  readonly binary: string
  argsIn(folder: string): readonly string[]
}

// These packages contain only the binary of one platform. The packages with the usual names have install scripts,
// which are not run here and which download more.
const node = (name: string, args: readonly string[] = []): Known => ({
  name: 'Node.js',
  packageFor: (platform) => `${name}-${platform}`,
  binary: 'bin/node',
  argsIn: () => args,
})

const BUN_PLATFORMS: Readonly<Record<string, string>> = {
  'linux-arm64': 'linux-aarch64',
  'darwin-arm64': 'darwin-aarch64',
}
const DENO_PLATFORMS: Readonly<Record<string, string>> = {
  'linux-x64': 'linux-x64-glibc',
  'linux-arm64': 'linux-arm64-glibc',
}

const KNOWN: readonly Known[] = [
  // It supports type stripping and require() of ES modules, but marks both as experimental.
  node('node-22-oldest', ['--experimental-strip-types', '--disable-warning=ExperimentalWarning']),
  node('node-22'),
  node('node-24'),
  node('node-26'),
  {
    name: 'Bun',
    packageFor: (platform) => `@oven/bun-${BUN_PLATFORMS[platform] ?? platform}`,
    binary: 'bin/bun',
    argsIn: () => ['--no-install'],
  },
  {
    name: 'Deno',
    packageFor: (platform) => `@deno/${DENO_PLATFORMS[platform] ?? platform}`,
    binary: 'deno',
    // The package needs no other permissions.
    argsIn: (folder) => [
      'run',
      '--no-prompt',
      '--no-lock',
      '--allow-net=127.0.0.1',
      '--allow-env',
      `--allow-read=${folder}`,
    ],
  },
]

const modules = new URL('./node_modules/', import.meta.url)

/** The runtimes that are installed for this platform, to run in `folder`, and the missing packages. */
export function installedRuntimes(folder: string): { runtimes: Runtime[]; missing: string[] } {
  const platform = `${process.platform}-${process.arch}`
  const runtimes: Runtime[] = []
  const missing: string[] = []
  for (const known of KNOWN) {
    const name = known.packageFor(platform)
    const home = new URL(`${name}/`, modules)
    if (existsSync(home)) {
      const binary = fileURLToPath(new URL(known.binary, home))
      runtimes.push({ name: known.name, binary, args: known.argsIn(folder) })
    } else missing.push(name)
  }
  return { runtimes, missing }
}
