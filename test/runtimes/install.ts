/** Installs the package as users get it: packed, in an empty folder, with the clients that the suite uses. */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const here = fileURLToPath(new URL('.', import.meta.url))
const root = fileURLToPath(new URL('../../', import.meta.url))

// npm runs with the Node.js of this process too, not with that of the machine.
const env = { ...process.env, PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH']}` }
const LIMIT_MS = 300_000

async function npm(folder: string, ...args: string[]): Promise<void> {
  const options = { cwd: folder, env, timeout: LIMIT_MS }
  try {
    await run('npm', [...args, '--ignore-scripts', '--no-audit', '--no-fund'], options)
  } catch (error) {
    throw new Error(`npm ${args[0]} failed. ${(error as { stderr?: string }).stderr ?? error}`)
  }
}

/** Installs the runtimes of the lock file, unless they are installed already. */
export async function installRuntimes(): Promise<void> {
  const lock = await readFile(join(here, 'package-lock.json'))
  const hash = createHash('sha256').update(lock).digest('hex')
  const stamp = join(here, 'node_modules', '.lock-hash')
  if ((await readFile(stamp, 'utf8').catch(() => '')) === hash) return
  await npm(here, 'ci')
  await writeFile(stamp, hash)
}

/** Packs the built package and installs it in the folder with the suite and the clients. Returns the folder of the suite. */
export async function installPackage(folder: string): Promise<string> {
  const app = join(folder, 'app')
  await mkdir(app)
  await npm(root, 'pack', '--pack-destination', folder)
  const [tarball] = (await readdir(folder)).filter((name) => name.endsWith('.tgz'))
  const { dependencies } = JSON.parse(await readFile(join(here, 'package.json'), 'utf8')) as {
    dependencies: Readonly<Record<string, string>>
  }
  const manifest = {
    private: true,
    type: 'module',
    dependencies: { ...dependencies, 'merchant-auth': `file:../${tarball}` },
  }
  await writeFile(join(app, 'package.json'), JSON.stringify(manifest))
  await npm(app, 'install', '--prefer-offline')
  // In the same layout as here, because the suite imports the scenarios of test/clients.
  for (const part of ['runtimes/suite', 'clients'])
    await cp(join(root, 'test', part), join(app, 'test', part), { recursive: true })
  return join(app, 'test/runtimes/suite')
}
