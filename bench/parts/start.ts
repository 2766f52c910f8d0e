/** How much CPU time it takes to import each entry, in a new process each time. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { contenders } from '../contenders/index.ts'
import { median, quantile, shown } from '../numbers.ts'
import { isCheck, progress, runPart, type Section } from '../part.ts'

const ROUNDS = isCheck ? 3 : 9
const AXIOS = 'axios'
const OURS = 'merchant-auth'
const NOTHING = 'data:text/javascript,'

interface Entry {
  readonly name: string
  /** Imported before, and not counted. */
  readonly after?: string
}

/** What a user of a package imports, where that is not the package itself. */
const ENTRIES: Readonly<Record<string, string>> = { auth0: 'auth0/management' }

function entriesToImport(): readonly Entry[] {
  if (isCheck) return [{ name: AXIOS }, { name: OURS }]
  const peers = contenders.filter(({ kind }) => kind === 'peer')
  const names = new Set(peers.flatMap(({ packages }) => packages).filter((name) => name !== AXIOS))
  return [
    { name: NOTHING },
    { name: AXIOS },
    { name: OURS },
    { name: `${OURS}/axios`, after: AXIOS },
    ...['redis', 'undici', 'testing'].map((entry) => ({ name: `${OURS}/${entry}` })),
    ...[...names].map((name): Entry => {
      const needsAxios = peers.some(({ client, packages }) => client === 'axios' && packages.includes(name))
      return { name: ENTRIES[name] ?? name, ...(needsAxios && { after: AXIOS }) }
    }),
  ]
}

async function importMs({ name, after = NOTHING }: Entry): Promise<number> {
  const program = `
    await import(${JSON.stringify(after)})
    const start = process.cpuUsage()
    await import(${JSON.stringify(name)})
    const { user, system } = process.cpuUsage(start)
    process.stdout.write(String((user + system) / 1_000))
    process.exit()`
  const options = {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    env: { ...process.env, NODE_COMPILE_CACHE: undefined, NODE_OPTIONS: undefined },
  }
  const args = ['--no-warnings', '--input-type=module', '-e', program]
  return Number((await promisify(execFile)(process.execPath, args, options)).stdout)
}

async function start(): Promise<Section> {
  const entries = entriesToImport()
  const times = new Map<string, number[]>()
  for (let round = 0; round < ROUNDS; round += 1) {
    progress(`round ${round + 1} of ${ROUNDS}`)
    for (const entry of entries)
      times.set(entry.name, [...(times.get(entry.name) ?? []), await importMs(entry)])
  }
  const ours = times.get(OURS) ?? []
  const ratios = (times.get(AXIOS) ?? []).map((ms, round) => (ours[round] ?? Number.NaN) / ms)
  return {
    title: 'Import time',
    intro:
      `The CPU time that \`await import()\` takes in a new process: the median and the quartiles of ${ROUNDS} rounds, in each of which ` +
      'every entry has its turn. The files are in the cache of the operating system. What extends axios is imported ' +
      'after axios, and only its own part counts.',
    columns: ['Entry', 'ms', 'quartiles'],
    rows: entries.map(({ name, after }) => {
      const own = times.get(name) ?? []
      return [
        (name === NOTHING ? 'an empty module' : name) + (after ? ` (after ${after})` : ''),
        shown(median(own)),
        `${shown(quantile(own, 0.25))} to ${shown(quantile(own, 0.75))}`,
      ]
    }),
    checks: [
      {
        name: `import time of ${OURS} by that of ${AXIOS}`,
        value: median(ratios),
        limit: 0.3,
        tolerance: 1.1,
      },
    ],
  }
}

await runPart(import.meta, start)
