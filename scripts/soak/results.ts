/** What a run found: the rows of its table, and what of it is not well. */
import { readFileSync } from 'node:fs'
import axios from 'axios'
import type { Ledger } from './ledger.ts'
import type { Remains } from './remains.ts'
import { mebibytes, type Row } from './report.ts'
import { RECOVERED_AFTER_MS, type Tally } from './tally.ts'

/** Code that is compiled and caches that fill may take this much. */
const MOST_GROWTH_BYTES = 10 * 1024 * 1024

export interface Results {
  readonly tally: Tally
  readonly ledger: Ledger
  readonly ranMs: number
  readonly seed: number
  readonly callers: number
  /** Callers whose last call has not ended. */
  readonly calling: number
  readonly interrupted: boolean
  readonly counts: { readonly token: number; readonly unauthorized: number }
  readonly heapAtStart: number
  readonly heapAtEnd: number
  readonly listeners: readonly string[]
  readonly handles: readonly string[]
  readonly remains: Remains
  readonly leaks: readonly string[]
  readonly searched: number
}

export function rowsOf(results: Results): Row[] {
  const { tally, ledger, counts, listeners, handles, remains } = results
  const { figures } = tally
  return [
    [
      'duration',
      `${(results.ranMs / 60_000).toFixed(2)} min`,
      `${new Date().toISOString().slice(0, 10)}, seed ${results.seed}`,
    ],
    ['versions', `Node.js ${process.versions.node}`, `axios ${axios.VERSION}, merchant-auth ${ownVersion()}`],
    [
      'calls',
      String(tally.calls),
      `by ${results.callers} callers: axios http, axios fetch, fetch; the slowest took ${tally.slowestMs} ms`,
    ],
    ['succeeded', String(tally.succeeded)],
    ['failed and explained', String(tally.explainedCount), 'each matched with the id of a fault'],
    ...sorted(tally.explained).map(([why, count]): Row => [`  ${why}`, String(count)]),
    [
      'failed and unexplained',
      String(tally.unexplained),
      `${tally.observed} calls ended later than ${RECOVERED_AFTER_MS / 1000} s after the last fault`,
    ],
    ['faults met', String(sum(ledger.faultsMet)), listed(ledger.faultsMet)],
    ['troubles', String(sum(ledger.troubleCounts)), listed(ledger.troubleCounts)],
    [
      'token requests',
      String(counts.token),
      `${figures.failedAttempts} failed; ${figures.providers} providers`,
    ],
    [
      '401s that the APIs answered',
      String(counts.unauthorized),
      `${figures.suppressed} times no renewal for it`,
    ],
    [
      'renewals',
      String(figures.renewedAhead + figures.renewedAfterRejection),
      `${figures.renewedAhead} in the background, ${figures.renewedAfterRejection} after a rejection`,
    ],
    ['heap at start', mebibytes(results.heapAtStart), 'after warm-up and garbage collection, all running'],
    ['heap at end', mebibytes(results.heapAtEnd), `all closed; may grow by ${mebibytes(MOST_GROWTH_BYTES)}`],
    [
      'listeners left',
      String(listeners.length),
      ['on the process, and on a signal that calls shared', ...listeners].join(': '),
    ],
    ['open handles left', String(handles.length), handles.join(', ')],
    ['unhandled rejections', String(remains.unhandled.length)],
    ['MaxListeners warnings', String(remains.maxListeners.length)],
    ['secrets in prints', String(results.leaks.length), `of ${results.searched} errors and answers`],
  ]
}

/** In words what is not as it must be. */
export function problemsOf(results: Results): string[] {
  const { tally, calling, interrupted, listeners, handles, remains, leaks } = results
  const broken = tally.breaches + tally.figures.breaches.length
  return [
    tally.unexplained > 0 && `${tally.unexplained} calls failed without a fault that explains it`,
    broken > 0 && `the contract was broken ${broken} times`,
    calling > 0 && `${calling} calls never ended`,
    tally.observed === 0 && !interrupted && 'no call ended after the recovery',
    results.heapAtEnd - results.heapAtStart > MOST_GROWTH_BYTES && 'the heap grew',
    listeners.length > 0 && 'listeners are left',
    handles.length > 0 && 'handles are open',
    remains.unhandled.length > 0 && 'rejections were not handled',
    remains.maxListeners.length > 0 && 'there were too many listeners at a time',
    leaks.length > 0 && 'secrets are in what is printed',
  ].filter((problem) => problem !== false)
}

function sorted(map: ReadonlyMap<string, number>): [string, number][] {
  return [...map].sort(([a], [b]) => a.localeCompare(b))
}

function sum(map: ReadonlyMap<string, number>): number {
  return [...map.values()].reduce((total, count) => total + count, 0)
}

function listed(map: ReadonlyMap<string, number>): string {
  return sorted(map)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ')
}

function ownVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
