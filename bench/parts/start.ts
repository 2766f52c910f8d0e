/** How long it takes to import each entry, in a fresh process each time. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { contenders } from '../contenders/index.ts'
import { progress } from '../measure/pool.ts'
import { median, quantile, shown } from '../measure/stats.ts'
import { isCheck, type Mark, runAlone, type Section } from '../section.ts'

const ROUNDS = isCheck ? 7 : 15
const LIMIT = 0.6

interface Entry {
  readonly name: string
  /** Imported before, and not counted. */
  readonly after?: string
}

const NOTHING = 'data:text/javascript,'
const AXIOS = 'axios'
const OURS: readonly Entry[] = [
  { name: NOTHING },
  { name: 'zod' },
  { name: 'zod/mini' },
  { name: AXIOS },
  { name: 'merchant-auth' },
  { name: 'merchant-auth/axios', after: AXIOS },
  { name: 'merchant-auth/redis' },
  { name: 'merchant-auth/undici' },
  { name: 'merchant-auth/testing' },
]
const FOR_MARKS = ['zod', 'merchant-auth']
/** What each imports of its package, where that is not the package itself. */
const PEER_ENTRIES: Readonly<Record<string, string>> = { auth0: 'auth0/management' }

const run = promisify(execFile)

export default async function start(): Promise<Section> {
  const entries = entriesToImport()
  const times = new Map(entries.map(({ name }) => [name, [] as number[]]))
  for (let round = 0; round < ROUNDS; round += 1) {
    progress(`round ${round + 1} of ${ROUNDS}`)
    for (const entry of entries) times.get(entry.name)?.push(await importMs(entry))
  }
  return sectionOf(entries, times)
}

function entriesToImport(): readonly Entry[] {
  if (isCheck) return OURS.filter(({ name }) => FOR_MARKS.includes(name))
  const peers = contenders.filter(({ kind }) => kind === 'peer')
  const names = new Set(peers.flatMap(({ packages }) => packages).filter((name) => name !== AXIOS))
  const theirs = [...names].map((name): Entry => {
    const needsAxios = peers.some((peer) => peer.client === 'axios' && peer.packages.includes(name))
    return { name: PEER_ENTRIES[name] ?? name, ...(needsAxios && { after: AXIOS }) }
  })
  return [...OURS, ...theirs].filter(({ name }) => isThere(name))
}

function isThere(name: string): boolean {
  try {
    import.meta.resolve(name)
    return true
  } catch {
    return false // what the installed merchant-auth does not have yet is left out
  }
}

async function importMs({ name, after }: Entry): Promise<number> {
  const program = `
    ${after === undefined ? '' : `await import(${JSON.stringify(after)})`}
    const startedAt = performance.now()
    await import(${JSON.stringify(name)})
    process.stdout.write(String(performance.now() - startedAt))
    process.exit()`
  const { stdout } = await run(process.execPath, ['--no-warnings', '--input-type=module', '-e', program], {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    env: { ...process.env, NODE_COMPILE_CACHE: undefined, NODE_OPTIONS: undefined },
  })
  return Number(stdout)
}

function sectionOf(entries: readonly Entry[], times: ReadonlyMap<string, readonly number[]>): Section {
  return {
    title: 'Import time',
    intro:
      `The time that \`await import()\` takes in a fresh process: the median and the quartiles of ${ROUNDS} rounds, in each of which ` +
      'every entry has its turn. The files are in the cache of the operating system. What is there for axios is imported ' +
      'after axios, and only its own part counts.',
    columns: ['Entry', 'ms', 'quartiles'],
    rows: entries.map(({ name, after }) => {
      const own = times.get(name) ?? []
      const label = name === NOTHING ? 'an empty module' : name
      return [
        after === undefined ? label : `${label} (after ${after})`,
        shown(median(own)),
        `${shown(quantile(own, 0.25))} to ${shown(quantile(own, 0.75))}`,
      ]
    }),
    notes: [],
    marks: marksOf(times),
  }
}

function marksOf(times: ReadonlyMap<string, readonly number[]>): Mark[] {
  const zod = times.get('zod') ?? []
  const ratios = (times.get('merchant-auth') ?? []).map((ms, round) => ms / (zod[round] ?? Number.NaN))
  return [
    {
      name: 'import time of merchant-auth by that of zod',
      value: median(ratios),
      limit: LIMIT,
      room: 1.1,
      mayMiss: 'it checks options with zod/mini, which is most of it',
    },
  ]
}

await runAlone(import.meta, start)
