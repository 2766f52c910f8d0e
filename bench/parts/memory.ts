/** What calls leave behind in memory, and what an idle client takes. */
import type { Contender } from '../contender.ts'
import { contenders } from '../contenders/index.ts'
import { measureApart, type Outcome } from '../measure/apart.ts'
import type { IdleFound, IdleJob } from '../measure/idle-run.ts'
import type { MemoryFound, MemoryJob } from '../measure/memory-run.ts'
import { eachOf, progress } from '../measure/pool.ts'
import { shown, shownBytes } from '../measure/stats.ts'
import { isCheck, type Mark, runAlone, type Section } from '../section.ts'
import { type RunningService, startService } from '../servers/service.ts'

const MANY_CALLS = isCheck ? 200_000 : 1_000_000
const CALLS = 100_000
/** Slow clients make fewer calls. */
const MOST_MS = 75_000
/** Bytes that one call may leave behind: what the compiler adds to the heap meanwhile is in it. */
const LIMIT = 0.5
const OUR_CLIENTS = 10_000
const CLIENTS = 2_000
const WIDTH = 4
/** What it does is a part of what attachAuth does: a short run does without it. */
const ATTACHES_ONLY = 'createAuthInterceptor'

interface Kept {
  readonly contender: Contender
  /** Undefined in a short run: what is kept without a signal is kept with one, too. */
  readonly plain: Outcome<MemoryFound> | undefined
  readonly signal: Outcome<MemoryFound>
}

export default async function memory(): Promise<readonly Section[]> {
  const running = await startService()
  try {
    const chosen = contenders.filter(
      ({ name, kind }) => !isCheck || (kind === 'ours' && name !== ATTACHES_ONLY),
    )
    const ways = isCheck ? [true] : [false, true]
    const jobs = chosen.flatMap((contender) => ways.map((signal) => ({ contender, signal })))
    const found = await eachOf(jobs, WIDTH, ({ contender, signal }) => callMany(contender, signal, running))
    const kept = chosen.map((contender, index): Kept => {
      const [signal, plain] = found.slice(index * ways.length, (index + 1) * ways.length).reverse()
      if (signal === undefined) throw new Error(`${contender.name} was not measured`)
      return { contender, plain, signal }
    })
    return isCheck ? [keptSection(kept)] : [keptSection(kept), await idleSection(running)]
  } finally {
    await running.close()
  }
}

async function callMany(
  { name, kind }: Contender,
  signal: boolean,
  { service }: RunningService,
): Promise<Outcome<MemoryFound>> {
  const calls = kind === 'ours' && name !== ATTACHES_ONLY ? MANY_CALLS : CALLS
  progress(`${name}: ${calls} calls${signal ? ', with a signal' : ''}`)
  const job: MemoryJob = { contender: name, service, calls, signal, mostMs: MOST_MS }
  const outcome = await measureApart<MemoryFound>('./memory-run.ts', { job, timeoutMs: 3 * MOST_MS })
  if ('why' in outcome && kind === 'ours') throw new Error(`${name}: ${outcome.why}`)
  return outcome
}

function keptSection(kept: readonly Kept[]): Section {
  return {
    title: 'Memory kept by calls',
    intro:
      'What the heap in use has grown by after many calls made one after the other. A stub takes the place of the ' +
      'network. Full collections come after every 20 000 calls and before each reading; 40 000 calls go before. Once ' +
      'without a signal, once with one AbortSignal given to every call.',
    columns: ['Client', 'calls', 'kept in all', 'with a signal', 'listeners left on the signal'],
    rows: kept.map(({ contender, plain, signal }) => [
      contender.name,
      cell(plain ?? signal, ({ calls }) => shown(calls)),
      plain === undefined ? '' : cell(plain, keptInAll),
      cell(signal, keptInAll),
      cell(signal, ({ listeners }) => String(listeners)),
    ]),
    notes: [
      'What the compiler adds to the heap while it runs is in these figures, for every client.',
      `How many calls: as many as can be made in ${MOST_MS / 1_000} s, up to ${shown(MANY_CALLS)} for this package (but for createAuthInterceptor) and ${shown(CALLS)} for the others.`,
    ],
    marks: kept
      .filter(({ contender }) => contender.kind === 'ours')
      .flatMap(({ contender, plain, signal }): Mark[] => [
        ...(plain === undefined ? [] : [mark(`${contender.name}: bytes kept per call`, plain)]),
        mark(`${contender.name}: bytes kept per call with a signal`, signal),
        {
          name: `${contender.name}: listeners left on the signal`,
          value: 'found' in signal ? signal.found.listeners : Number.MAX_VALUE,
          limit: 0,
          room: 1,
        },
      ]),
  }
}

function mark(name: string, outcome: Outcome<MemoryFound>): Mark {
  const value = 'found' in outcome ? Math.max(0, bytesPerCall(outcome.found)) : Number.MAX_VALUE
  return { name, value, limit: LIMIT, room: 1.5 }
}

function bytesPerCall({ keptBytes, calls }: MemoryFound): number {
  return keptBytes / calls
}

function keptInAll({ keptBytes }: MemoryFound): string {
  return shownBytes(Math.max(0, keptBytes))
}

function cell<Found>(outcome: Outcome<Found>, show: (found: Found) => string): string {
  return 'found' in outcome ? show(outcome.found) : outcome.why
}

const PROVIDERS = ['createTokenProvider alone', 'createTokenProvider and createAuthFetch']

async function idleSection({ service }: RunningService): Promise<Section> {
  const names = [...PROVIDERS, ...contenders.map(({ name }) => name)]
  const found = await eachOf(names, WIDTH, (what) => {
    const isOurs =
      PROVIDERS.includes(what) || contenders.some(({ name, kind }) => name === what && kind === 'ours')
    const count = isOurs ? OUR_CLIENTS : CLIENTS
    progress(`${what}: ${count} of them`)
    const job: IdleJob = { what, service, count }
    return measureApart<IdleFound>('./idle-run.ts', { job, timeoutMs: 60_000 })
  })
  return {
    title: 'Memory of an idle client',
    intro:
      `Bytes of the heap for each of ${shown(OUR_CLIENTS)} clients (of the others ${shown(CLIENTS)}) that do nothing: when they have been set up, and when each ` +
      'has got its token (of about 700 characters) and made one call. With axios, the axios instance is part of it: see its floor.',
    columns: ['Client', 'set up', 'with a token'],
    rows: names.map((name, index) => {
      const outcome = found[index] as Outcome<IdleFound>
      return [
        name,
        cell(outcome, ({ newBytes }) => shownBytes(newBytes)),
        cell(outcome, ({ withTokenBytes }) => shownBytes(withTokenBytes)),
      ]
    }),
    notes: ['The floors have their token from the start, and so has axios-auth-refresh here.'],
    marks: [],
  }
}

await runAlone(import.meta, memory)
