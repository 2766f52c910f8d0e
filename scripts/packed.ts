/**
 * The package as its users get it: packed by npm, and installed in a folder of its own, by tests and by the scripts that share
 * these few calls of npm.
 */
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export const root: string = fileURLToPath(new URL('..', import.meta.url))

/** What is read here of a package.json. */
interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
}

// The Node.js of this process comes first for npm, too, whatever the machine's own is.
const env = { ...process.env, PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH']}` }
const run = promisify(execFile)

/** The stdout of a command. Rejects where the command fails, with its stderr in the message. */
export async function output(
  cwd: string,
  [command, ...args]: readonly [string, ...string[]],
): Promise<string> {
  // Windows has npm.cmd only, which execFile does not run. npm names its own program to the scripts that it runs.
  const npm = process.platform === 'win32' && command === 'npm' ? process.env['npm_execpath'] : undefined
  const [file, given] = npm === undefined ? [command, args] : [process.execPath, [npm, ...args]]
  const { stdout } = await run(file, given, { cwd, env, timeout: 300_000, maxBuffer: 64 * 1024 * 1024 })
  return stdout
}

/** Packs what dist holds. Without scripts: `prepack` would build again while tests read dist. */
export async function pack(destination: string, from: string = root): Promise<{ readonly tarball: string }> {
  if (!existsSync(join(from, 'dist'))) throw new Error(`${from} has no dist: npm run build makes it`)
  await mkdir(destination, { recursive: true })
  const listing = await output(from, [
    'npm',
    'pack',
    '--json',
    '--ignore-scripts',
    '--pack-destination',
    destination,
  ])
  const listed = JSON.parse(listing) as Record<string, { filename: string }>
  const [first] = Object.values(listed) // npm 12 names each package, npm before lists them
  if (first === undefined) throw new Error(`npm pack listed no tarball: ${listing}`)
  return { tarball: join(destination, first.filename) }
}

/** Installs packages in a folder that is, or becomes, a project of its own. Nothing else is around it. */
export async function install(folder: string, packages: readonly string[]): Promise<void> {
  await mkdir(folder, { recursive: true })
  const manifest = join(folder, 'package.json')
  if (!existsSync(manifest)) await writeFile(manifest, JSON.stringify({ name: 'caller', private: true }))
  await output(folder, ['npm', 'install', '--prefer-offline', '--no-audit', '--no-fund', ...packages])
}

/** Whether npm has installed what the lock file of a folder names, and nobody has changed that file since. */
export function isInstalled(folder: string): boolean {
  const installed = statSync(join(folder, 'node_modules/.package-lock.json'), { throwIfNoEntry: false })
  return installed !== undefined && installed.mtimeMs > statSync(join(folder, 'package-lock.json')).mtimeMs
}

export function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest
}

/** The entries that can be imported, such as `.` and `./axios`. */
export function entriesOf({ exports }: { readonly exports: object }): string[] {
  return Object.keys(exports).filter((entry) => entry !== './package.json')
}

/** The files of a folder, each by its path below it with slashes, but for installed packages. */
export function filesOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) =>
      join(entry.parentPath, entry.name)
        .slice(folder.length + 1)
        .replaceAll('\\', '/'),
    )
    .filter((path) => !path.startsWith('node_modules/'))
    .sort()
}
