/** The results of the runs: a table, and what must hold of them. */
import { LIFETIMES } from './options.ts'
import type { Figures } from './protocol.ts'
import { failedCalls, type RunResult } from './run.ts'

/** Something that must hold, and whether it does. */
export interface Verdict {
  readonly good: boolean
  readonly text: string
}

const NOTHING = '–'
const COLUMN = 12
/** Fewer calls of a process say nothing. */
const LEAST_CALLS = 10
/** A token is renewed when three quarters of its lifetime are over, or later. */
const RENEWED_AFTER = 0.75

/** The table, a column for each run; it fits into 80 columns. */
export function tableOf(results: readonly RunResult[]): string {
  const rows: [what: string, cell: (result: RunResult) => string | number][] = [
    ['', ({ plan }) => plan.mark],
    ['', ({ plan }) => plan.name],
    ['processes', ({ processes }) => processes.length],
    ['calls', (result) => callsOf(result)],
    ['  failed', (result) => failedOf(result)],
    ['  401 seen by the caller', ({ processes }) => sum(processes, (each) => each.unauthorized)],
    ['token requests', ({ tokenRequests }) => tokenRequests],
    ['  for each lifetime', ({ tokenRequests }) => (tokenRequests / LIFETIMES).toFixed(1)],
    ['tokens from the store', (result) => ofStore(result, (each) => each.fromStore)],
    ['store-failed events', (result) => ofStore(result, (each) => each.storeFailures)],
    ['wait for the first token', ({ processes }) => inMs(median(firstTokens(processes)))],
    ['  the longest', ({ processes }) => inMs(Math.max(...firstTokens(processes)))],
    ['the longest call', ({ processes }) => inMs(Math.max(...processes.map((each) => each.longestCallMs)))],
    ['machine late by up to', ({ lateMs }) => inMs(lateMs)],
  ]
  const width = Math.max(...rows.map(([what]) => what.length))
  return rows
    .map(([what, cell]) => what.padEnd(width) + results.map((each) => column(cell(each))).join(''))
    .join('\n')
}

/** What must hold in this run. */
export function verdictsOf(result: RunResult): Verdict[] {
  const { plan, processes, tokenRequests } = result
  const requests = `${tokenRequests} token requests`
  if (plan.mark === 'a') {
    const least = LIFETIMES * processes.length
    return [
      {
        good: tokenRequests >= least,
        text: `${requests}, each process for itself (expected: ${least} or more)`,
      },
    ]
  }
  if (plan.mark === 'b') {
    // A process that cannot reach the store in time makes a request of its own.
    const alone = sum(processes, ({ storeFailures }) => storeFailures)
    const early = earlyOf(result)
    const good = tokenRequests >= LIFETIMES && early <= alone
    const text = `${requests} for the whole fleet, ${early} while a token was fresh (expected: ${LIFETIMES} or more, ${alone})`
    return [{ good, text }, noFailedCall(result)]
  }
  const failing = processes.filter(({ storeFailures }) => storeFailures > 0).length
  // A Redis that is back may be back before some of them need it.
  const [least, expected] = plan.mark === 'c' ? [processes.length, 'all'] : [1, '1 or more']
  const text = `${failing} processes emitted store-failed (expected: ${expected})`
  return [noFailedCall(result), { good: failing >= least, text }]
}

/** How many tokens were requested while the one before was too fresh to be renewed. */
function earlyOf({ processes, lifetimeMs }: RunResult): number {
  const requestedAt = processes.flatMap((each) => each.requestedAt).sort((a, b) => a - b)
  const wholeMs = 1 // clocks are read in whole ms
  return requestedAt.filter(
    (at, nth) =>
      at - (requestedAt[nth - 1] ?? Number.NEGATIVE_INFINITY) < RENEWED_AFTER * lifetimeMs - wholeMs,
  ).length
}

function noFailedCall(result: RunResult): Verdict {
  const [calls, failed] = [callsOf(result), failedOf(result)]
  if (failed > 0)
    return { good: false, text: `${failed} of ${calls} calls failed: ${whyOf(result.processes)}` }
  if (calls < LEAST_CALLS * result.processes.length)
    return { good: false, text: `only ${calls} calls: this machine is too slow` }
  return { good: true, text: `no failed call of ${calls}` }
}

function callsOf({ processes }: RunResult): number {
  return sum(processes, ({ calls }) => calls)
}

function failedOf({ processes }: RunResult): number {
  return sum(processes, failedCalls)
}

function ofStore({ plan, processes }: RunResult, count: (each: Figures) => number): string | number {
  return plan.store ? sum(processes, count) : NOTHING
}

/** What failed calls ended with, and how often. */
function whyOf(processes: readonly Figures[]): string {
  const counts = new Map<string, number>()
  for (const [why, count] of processes.flatMap(({ failures }) => Object.entries(failures)))
    counts.set(why, (counts.get(why) ?? 0) + count)
  return [...counts].map(([why, count]) => `${count} × ${why}`).join(', ')
}

/** How long each process waited; Infinity where it never got a token. */
function firstTokens(processes: readonly Figures[]): number[] {
  return processes.map(({ firstTokenMs }) => firstTokenMs ?? Number.POSITIVE_INFINITY)
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

function sum(processes: readonly Figures[], count: (each: Figures) => number): number {
  return processes.reduce((total, each) => total + count(each), 0)
}

function inMs(ms: number): string {
  return Number.isFinite(ms) ? `${Math.round(ms)} ms` : 'never'
}

function column(cell: string | number): string {
  return String(cell).padStart(COLUMN)
}
