/** Packages installed alone in a folder of their own, and how much there is. */
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export interface Installed {
  /** Packages in node_modules, nested ones too. */
  readonly packages: number
  readonly bytes: number
}

const run = promisify(execFile)
const BENCH = fileURLToPath(new URL('..', import.meta.url))
const NPM = process.platform === 'win32' ? 'npm.cmd' : 'npm'

/** The version of a package that is installed beside the benchmark. */
export async function versionOf(name: string): Promise<string> {
  const file = join(BENCH, 'node_modules', name, 'package.json')
  return String((JSON.parse(await readFile(file, 'utf8')) as { version: unknown }).version)
}

/** A folder for this and nothing else; gone when `act` has ended. */
export async function inFolder<Result>(act: (folder: string) => Promise<Result>): Promise<Result> {
  const folder = await mkdtemp(join(tmpdir(), 'merchant-auth-bench-'))
  try {
    return await act(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Packs merchant-auth as it is installed beside the benchmark. */
export async function packOurs(folder: string): Promise<string> {
  const from = join(BENCH, 'node_modules', 'merchant-auth')
  const { stdout } = await run(NPM, ['pack', from, '--ignore-scripts', '--json', '--loglevel=error'], {
    cwd: folder,
  })
  const name = /[\w.-]+\.tgz/.exec(stdout)?.[0]
  if (name === undefined) throw new Error('npm pack named no file')
  return join(folder, name)
}

/** Installs packages, each given as npm takes it, and counts. */
export async function install(specs: readonly string[]): Promise<Installed> {
  return await inFolder(async (folder) => {
    await writeFile(join(folder, 'package.json'), '{ "private": true }\n')
    const options = ['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
    await run(NPM, ['install', ...options, ...specs], { cwd: folder })
    return await counted(join(folder, 'node_modules'))
  })
}

/** Whatever has a package.json with a name and a version right below a node_modules folder is a package. */
async function counted(modules: string): Promise<Installed> {
  let packages = 0
  let bytes = 0
  for (const entry of await readdir(modules, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    if (/node_modules[\\/]\.[^\\/]+(?:[\\/][^\\/]+)?$/.test(path)) continue // npm's own notes
    bytes += (await stat(path)).size
    if (/node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+[\\/]package\.json$/.test(path)) packages += 1
  }
  return { packages, bytes }
}
