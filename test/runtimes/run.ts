/**
 * Runs suite.ts with the packed package on every supported runtime: Node.js (the oldest and the newest 22, 24, 26), Bun,
 * Deno and workerd. Node.js 24 is that of the development tools. Of the others, those that the registry has for this
 * platform are downloaded the first time.
 *
 * npm run test:runtimes
 */
import { spawn } from 'node:child_process'
import { copyFileSync, cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { install, isInstalled, output, pack, root } from '../../scripts/packed.ts'
import manifest from './package.json' with { type: 'json' }

const LIMIT_MS = 300_000
const AT_ONCE = 4

interface Runtime {
  readonly name: string
  readonly folder: string
  readonly command: string
  /** The arguments before the file to run. */
  readonly args?: readonly string[]
  /** The file to run, if it is not suite.ts. */
  readonly file?: string
}

/** All that docs/options.md lists. */
const VARIABLES = [
  ...new Set(readFileSync(join(root, 'docs/options.md'), 'utf8').match(/MERCHANT_AUTH_[A-Z_]*[A-Z]/g)),
]

const here = fileURLToPath(new URL('.', import.meta.url))
// Both files import from folders of the repository, which are beside them there, too.
const WORKERS = ['test/runtimes/workers.mts', 'test/runtimes/worker.ts', 'examples/recipes/cloudflare']
const folder = mkdtempSync(join(tmpdir(), 'merchant-auth-runtimes-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
// Running children end with this process.
const ending = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => {
    ending.abort()
    process.exit(1)
  })

await Promise.all([installPackage(), installRuntimes()])
const runtimes = knownRuntimes()
const installed = runtimes.filter(({ folder }) => existsSync(folder))
for (const { name } of runtimes)
  if (!installed.some((one) => one.name === name)) console.log(`Not run: the registry has no ${name}.`)
const results = await Readable.from(installed).map(run, { concurrency: AT_ONCE }).toArray()
process.exitCode = results.every(Boolean) ? 0 : 1

function knownRuntimes(): Runtime[] {
  const platform = `${process.platform}-${process.arch}`
  const bun = platform.replace('arm64', 'aarch64')
  const deno = platform.startsWith('linux') ? `${platform}-glibc` : platform
  /** A package of the registry: it contains only the binary of one platform, and has no install script. */
  const runtime = (name: string, binary: string, args?: readonly string[]): Runtime => {
    const packageFolder = join(here, 'node_modules', name)
    return { name, folder: packageFolder, command: join(packageFolder, binary), ...(args && { args }) }
  }
  const node = (name: string, ...args: string[]) => runtime(`${name}-${platform}`, 'bin/node', args)
  // The package needs no more, and writes only in the file store.
  const access = [`--allow-read=${folder}`, `--allow-write=${folder}`]
  const run = ['run', '--no-prompt', '--no-lock', '--allow-net=127.0.0.1', ...access]
  const onDeno = runtime(`@deno/${deno}`, 'deno', [...run, '--allow-env'])
  return [
    // It supports type stripping and require() of ES modules, but marks both as experimental.
    node('node-22-oldest', '--experimental-strip-types', '--disable-warning=ExperimentalWarning'),
    node('node-22'),
    { name: 'Node.js', folder: dirname(process.execPath), command: process.execPath, args: [] },
    node('node-26'),
    runtime(`@oven/bun-${bun}`, 'bin/bun', ['--no-install']),
    onDeno,
    { ...onDeno, args: [...run, `--allow-env=${VARIABLES.join()}`], file: 'variables.mts' },
    runtime(`@cloudflare/workerd-${platform.replace('x64', '64')}`, 'bin/workerd'),
  ]
}

/** Installs the runtimes of the lock file, unless they are installed already. */
async function installRuntimes(): Promise<void> {
  if (isInstalled(here)) return
  console.log('Downloading the runtimes (about 900 MB on the disk) …')
  await output(here, ['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund'])
}

async function installPackage(): Promise<void> {
  const { tarball } = await pack(folder)
  const clients = Object.entries(manifest.dependencies).map((one) => one.join('@'))
  await install(folder, [tarball, ...clients, '--ignore-scripts'])
  for (const name of ['suite', 'variables'])
    copyFileSync(join(here, `${name}.ts`), join(folder, `${name}.mts`))
  for (const path of WORKERS) cpSync(join(root, path), join(folder, path), { recursive: true })
}

/** Whether the suite passed, wrote no warning, and then ended by itself. */
async function run({ name, command, args, file = 'suite.mts' }: Runtime): Promise<boolean> {
  const home = mkdtempSync(join(folder, 'home-'))
  // None of the settings of this process: no NODE_OPTIONS, no proxy, no caches of the user.
  const env = {
    PATH: process.env['PATH'],
    HOME: home,
    TMPDIR: home,
    NO_COLOR: '1',
    DENO_DIR: join(home, 'deno'),
    DENO_NO_UPDATE_CHECK: '1',
    DO_NOT_TRACK: '1',
  }
  const signal = AbortSignal.any([ending.signal, AbortSignal.timeout(LIMIT_MS)])
  // workerd has no file system and no server: a program of Node.js starts it.
  const [program, ...rest] = args
    ? [command, ...args, join(folder, file)]
    : [process.execPath, join(folder, 'test/runtimes/workers.mts'), command]
  const child = spawn(program, rest, { env, signal, killSignal: 'SIGKILL' })
  const how = new Promise<unknown>((resolve) => {
    child.on('error', resolve)
    child.on('close', (code, by) => resolve(code ?? by))
  })
  const [stdout, stderr, ended] = await Promise.all([text(child.stdout), text(child.stderr), how])
  const [title, ...lines] = stdout.trimEnd().split('\n')
  const passed = ended === 0 && stderr === '' && lines.at(-1) === 'done'
  console.log(
    `${passed ? '✓' : '✗'} ${title || name}: ${lines.filter((line) => line.startsWith('✓')).length} checks`,
  )
  if (!passed)
    console.error(
      `${lines.filter((line) => !line.startsWith('✓')).join('\n')}\n${stderr}\nended with ${ended}`,
    )
  return passed
}
