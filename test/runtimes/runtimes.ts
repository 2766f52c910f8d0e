/** The runtimes: which they are, where the registry's packages have their binaries, and how each is started. */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** One runtime, ready to be started. */
export interface Runtime {
  readonly name: string
  readonly binary: string
  /** What stands before the file to be run. */
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

// The runtimes come as the packages that hold nothing but the binary of one platform: those with the usual names
// have install scripts, which npm does not run, and which download more.
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
  // It strips types and requires ES modules, too, but calls both experimental.
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
    // No permissions but these are needed.
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

/** The runtimes that this platform has, to be started in `folder`; and the packages of those that it has not. */
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
