/** The packed package, installed in folders outside of this repository: made once for what dist holds, by whichever test file is first. */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import packageJson from '../../package.json' with { type: 'json' }
import { filesOf, install, pack, root } from '../../scripts/check-package/packed.ts'

export interface Installed {
  readonly tarball: string
  /** A folder with the package and its dependencies, and nothing else. */
  readonly alone: string
  /** A folder with its optional peers, too, in the versions of this repository. */
  readonly withPeers: string
}

/** The optional peers, with their versions. */
export const PEERS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.keys(packageJson.peerDependencies).map((name) => [
    name,
    (packageJson.devDependencies as Record<string, string>)[name] ?? '',
  ]),
)

const cache = join(root, 'node_modules/.cache/merchant-auth-installed')
const PREFIX = 'merchant-auth-installed-'
const HOUR_MS = 3_600_000

/** Where the package is installed. What is there is shared: write nothing but into a folder of one's own below it. */
export async function installed(): Promise<Installed> {
  mkdirSync(cache, { recursive: true })
  const note = join(cache, `${fingerprint()}.json`)
  const lock = `${note}.lock`
  for (;;) {
    const known = noted(note)
    if (known !== undefined) return known
    if (locked(lock)) {
      try {
        return await make(note)
      } finally {
        rmSync(lock, { recursive: true, force: true })
      }
    }
    await setTimeout(50)
  }
}

/** What the tarball is made of. */
function fingerprint(): string {
  const hash = createHash('sha256').update(JSON.stringify([root, PEERS]))
  const tops = readdirSync(root).filter((name) => /\.md$|^LICENSE$|^package\.json$/.test(name))
  const docs = readdirSync(join(root, 'docs')).flatMap((name) =>
    /\.(?:md|svg)$/.test(name) ? `docs/${name}` : [],
  )
  const dist = existsSync(join(root, 'dist')) ? filesOf(join(root, 'dist')).map((path) => `dist/${path}`) : []
  for (const path of [...tops, ...docs, ...dist]) hash.update(path).update(readFileSync(join(root, path)))
  return hash.digest('hex').slice(0, 16)
}

function noted(note: string): Installed | undefined {
  if (!existsSync(note)) return undefined
  const known = JSON.parse(readFileSync(note, 'utf8')) as Installed
  return Object.values(known).every((path) => existsSync(path)) ? known : undefined
}

/** Takes the lock, also from a process that died with it. */
function locked(lock: string): boolean {
  const held = join(lock, String(process.pid))
  try {
    mkdirSync(lock)
    mkdirSync(held)
    return true
  } catch {
    const [holder] = existsSync(lock) ? readdirSync(lock) : []
    if (holder !== undefined && !isAlive(Number(holder))) rmSync(lock, { recursive: true, force: true })
    return false
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

async function make(note: string): Promise<Installed> {
  removeOld()
  const folder = mkdtempSync(join(tmpdir(), PREFIX))
  const { tarball } = await pack(folder)
  if (!note.includes(fingerprint()))
    throw new Error('dist was built anew while it was packed: run the tests again')
  const made = { tarball, alone: join(folder, 'alone'), withPeers: join(folder, 'with-peers') }
  const peers = Object.entries(PEERS).map(([name, version]) => `${name}@${version}`)
  await Promise.all([install(made.alone, [tarball]), install(made.withPeers, [tarball, ...peers])])
  await writeFile(`${note}.new`, JSON.stringify(made))
  await rename(`${note}.new`, note)
  return made
}

/** What was installed for an earlier dist, unless other tests may be at it still. */
function removeOld(): void {
  for (const name of readdirSync(cache).filter((other) => other.endsWith('.json'))) {
    const note = join(cache, name)
    if (Date.now() - statSync(note).mtimeMs < HOUR_MS) continue
    const { tarball } = JSON.parse(readFileSync(note, 'utf8')) as Installed
    const folder = dirname(tarball)
    if (basename(folder).startsWith(PREFIX)) rmSync(folder, { recursive: true, force: true })
    rmSync(note, { force: true })
  }
}
