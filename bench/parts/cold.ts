/** How a crowd of callers gets its first token. */
import type { Contender } from '../contender.ts'
import { contenders } from '../contenders/index.ts'
import { measureApart, type Outcome } from '../measure/apart.ts'
import { type ColdFound, type ColdJob, GET_TOKEN, HELD } from '../measure/cold-run.ts'
import { eachOf, progress } from '../measure/pool.ts'
import { median, shown } from '../measure/stats.ts'
import { type Chart, isCheck, type Mark, runAlone, type Section } from '../section.ts'
import { startService } from '../servers/service.ts'

const LATENCY_MS = 50
const SIZES = isCheck ? [100, 1_000, 100_000] : [1, 100, 1_000, 10_000, 100_000]
const [FEW, MOST] = [1_000, 100_000]
/** Where each caller asks for a token of its own, a larger crowd means nothing but that many connections. */
const MOST_STORMING = 1_000
const WEIGHED = 10_000
const WIDTH = 2
const WARM_UP = { rounds: 5, callers: 1_000 }
/** Longer than any of them should take, so that a slow one is told from a stuck one. */
const TIMEOUT_MS = isCheck ? 300_000 : 30_000
const OUR_RUNS: Readonly<Record<number, number>> = isCheck ? { [FEW]: 3 } : { 1: 3, [FEW]: 5, [MOST]: 2 }
/** Have a token before the first call here, so that nobody waits for one. */
const NEVER_WAIT = ['axios-auth-refresh']

interface Crowd extends ColdFound {
  readonly tokenRequests: number
}

interface Row {
  readonly name: string
  readonly kind: Contender['kind']
  readonly storms: boolean
  /** By size; undefined where it was not tried. */
  readonly crowds: readonly (Outcome<Crowd> | undefined)[]
  readonly weighed: Outcome<Crowd> | undefined
}

export default async function cold(): Promise<Section> {
  const all: readonly Pick<Contender, 'name' | 'kind'>[] = [
    { name: GET_TOKEN, kind: 'ours' },
    ...contenders.filter(({ kind, name }) => kind !== 'floor' && !NEVER_WAIT.includes(name)),
  ]
  const chosen = all.filter(
    ({ kind, name }) => !isCheck || (kind === 'ours' && name !== 'createAuthInterceptor'),
  )
  return sectionOf(await eachOf(chosen, WIDTH, rowOf))
}

async function rowOf({ name, kind }: Pick<Contender, 'name' | 'kind'>): Promise<Row> {
  const crowds: (Outcome<Crowd> | undefined)[] = []
  let storms = false
  for (const callers of SIZES) {
    if (storms && callers > MOST_STORMING) {
      crowds.push(undefined)
      continue
    }
    progress(`${name}: ${callers} callers`)
    const outcome = await medianOf(name, callers, kind === 'ours' ? (OUR_RUNS[callers] ?? 1) : 1)
    if (kind === 'ours' && 'why' in outcome) throw new Error(`${name}: ${outcome.why}`)
    crowds.push(outcome)
    storms ||= 'found' in outcome && outcome.found.tokenRequests > 10
  }
  const most = storms ? MOST_STORMING : WEIGHED
  const weighed = isCheck ? undefined : await gather(name, { callers: most, weigh: true })
  return { name, kind, storms, crowds, weighed }
}

/** The run of median length, but for the most token requests of all. */
async function medianOf(name: string, callers: number, runs: number): Promise<Outcome<Crowd>> {
  const found: Crowd[] = []
  for (let run = 0; run < runs; run += 1) {
    const outcome = await gather(name, { callers, weigh: false })
    if ('why' in outcome) return outcome
    found.push(outcome.found)
  }
  return {
    found: {
      tookMs: median(found.map(({ tookMs }) => tookMs)),
      cpuMs: median(found.map(({ cpuMs }) => cpuMs)),
      waiterBytes: null,
      tokenRequests: Math.max(...found.map(({ tokenRequests }) => tokenRequests)),
    },
  }
}

async function gather(
  what: string,
  { callers, weigh }: { callers: number; weigh: boolean },
): Promise<Outcome<Crowd>> {
  const running = await startService({ tokenLatencyMs: LATENCY_MS })
  const warm = await startService()
  const release = weigh ? running.hold() : () => {}
  const warmUp = { ...WARM_UP, callers: Math.min(callers, WARM_UP.callers), service: warm.service }
  const job: ColdJob = { what, service: running.service, callers, warmUp, weigh }
  const outcome = await measureApart<ColdFound>('./cold-run.ts', {
    job,
    timeoutMs: TIMEOUT_MS,
    onTold: (told) => told === HELD && release(),
  })
  release()
  await Promise.all([running.close(), warm.close()])
  return 'why' in outcome ? outcome : { found: { ...outcome.found, tokenRequests: running.counts.token } }
}

function sectionOf(rows: readonly Row[]): Section {
  const shownSizes = SIZES.filter((size) => size !== FEW)
  return {
    title: 'A crowd at a cold start',
    intro:
      `So many callers begin at once while there is no token. The token endpoint takes ${LATENCY_MS} ms; a stub takes the place ` +
      'of the API, so that it is the waiting that is measured. Each crowd has a process of its own, with compiled code: ' +
      'smaller crowds have gone before, on another service. The time per waiter is the processor time divided by the ' +
      'callers; its memory is what the heap holds while all of them wait.',
    columns: [
      'Client',
      'token requests',
      ...shownSizes.map((size) => `${shown(size)} ${size === 1 ? 'caller' : 'callers'} (ms)`),
      `per waiter of ${shown(FEW)} (µs)`,
      `of ${shown(MOST)} (µs)`,
      'memory per waiter (B)',
    ],
    rows: rows.map((row) => [
      row.name === GET_TOKEN ? 'getToken(), no client' : row.name,
      row.storms ? 'one for each caller' : shown(mostRequests(row)),
      ...shownSizes.map((size) => cellOf(row, size, ({ tookMs }) => shown(Math.round(tookMs)))),
      ...[FEW, MOST].map((size) => cellOf(row, size, (found) => shown(perWaiterUs(found, size)))),
      row.weighed === undefined
        ? ''
        : inCell(row.weighed, ({ waiterBytes }) => shown(Math.round(waiterBytes ?? 0))),
    ]),
    notes: [
      `Where each caller asks for a token of its own, no more than ${shown(MOST_STORMING)} were let loose.`,
      `${NEVER_WAIT.join()} is not here: it waits for a 401, not for a token.`,
    ],
    marks: rows.filter(({ kind }) => kind === 'ours').flatMap(marksOf),
    charts: isCheck ? [] : [chartOf(rows)],
  }
}

function foundAt({ crowds }: Row, size: number): Outcome<Crowd> | undefined {
  return crowds[SIZES.indexOf(size)]
}

function mostRequests({ crowds }: Row): number {
  return Math.max(...crowds.map((crowd) => (crowd && 'found' in crowd ? crowd.found.tokenRequests : 0)))
}

function perWaiterUs({ cpuMs }: ColdFound, callers: number): number {
  return (cpuMs * 1_000) / callers
}

function cellOf(row: Row, size: number, show: (found: Crowd) => string): string {
  const outcome = foundAt(row, size)
  return outcome === undefined ? '' : inCell(outcome, show)
}

function inCell(outcome: Outcome<Crowd>, show: (found: Crowd) => string): string {
  return 'found' in outcome ? show(outcome.found) : outcome.why
}

function marksOf(row: Row): Mark[] {
  const [few, most] = [FEW, MOST].map((size) => {
    const outcome = foundAt(row, size)
    return outcome && 'found' in outcome ? perWaiterUs(outcome.found, size) : Number.NaN
  }) as [number, number]
  const sizes = `${shown(SIZES[0] as number)} to ${shown(MOST)}`
  return [
    { name: `${row.name}: token requests for ${sizes} callers`, value: mostRequests(row), limit: 1, room: 1 },
    {
      name: `${row.name}: time per waiter of ${shown(MOST)} by that of ${shown(FEW)}`,
      value: most / few,
      limit: 1,
      room: 1.5,
    },
  ]
}

function chartOf(rows: readonly Row[]): Chart {
  return {
    file: 'cold.svg',
    title: 'Time until all callers of a cold start have their answer',
    unit: 'ms',
    kind: 'lines',
    scale: 'log',
    series: rows
      .filter(({ name }) => name !== GET_TOKEN)
      .map((row) => ({
        name: row.name,
        kind: row.kind,
        values: SIZES.flatMap((size) => {
          const outcome = foundAt(row, size)
          return outcome && 'found' in outcome ? [{ x: size, y: outcome.found.tookMs }] : []
        }),
      })),
  }
}

await runAlone(import.meta, cold)
