/** A steady load over real sockets while tokens come and go: who has to wait for them, and who sees a 401. */

import type { Contender } from '../contender.ts'
import { contenders } from '../contenders/index.ts'
import { measureApart, type Outcome } from '../measure/apart.ts'
import { eachOf, progress } from '../measure/pool.ts'
import { shown } from '../measure/stats.ts'
import type { SteadyFound, SteadyJob } from '../measure/steady-run.ts'
import { type Chart, isCheck, type Mark, runAlone, type Section } from '../section.ts'
import { startServiceApart } from '../servers/apart.ts'

const EXPIRES_IN = 2
const TOKEN_LATENCY_MS = 100
const SECONDS = 12
const CALLS_PER_SECOND = 200
const WAITED_MS = TOKEN_LATENCY_MS / 2
const WIDTH = 3
/** A token in use is renewed 20 % of its life before its end, or a little later, counted from its request. */
const MOST_RENEWALS = Math.ceil(SECONDS / (EXPIRES_IN * 0.75)) + 1

/** How long before its end each takes a token for expired, whatever its life: longer than all of it here. */
const FIXED_MARGINS: Readonly<Record<string, string>> = {
  auth0: '10 s',
  'google-auth-library': '5 min',
  '@azure/core-rest-pipeline': '2 min',
}

interface Row {
  readonly contender: Contender
  readonly outcome: Outcome<SteadyFound & { readonly tokenRequests: number }>
}

export default async function steady(): Promise<readonly Section[]> {
  if (isCheck) return [] // real time on a machine that is perhaps busy judges nothing
  const chosen = contenders.filter(({ name }) => !(name in FIXED_MARGINS))
  return [sectionOf(await eachOf(chosen, WIDTH, measure))]
}

async function measure(contender: Contender): Promise<Row> {
  progress(`${contender.name}: ${SECONDS} s`)
  const expiresIn = contender.kind === 'floor' ? 10 * SECONDS : EXPIRES_IN
  const running = await startServiceApart({ expiresIn, tokenLatencyMs: TOKEN_LATENCY_MS })
  const job: SteadyJob = {
    contender: contender.name,
    service: running.service,
    callsPerSecond: CALLS_PER_SECOND,
    seconds: SECONDS,
    waitedMs: WAITED_MS,
  }
  const outcome = await measureApart<SteadyFound>('./steady-run.ts', { job, timeoutMs: SECONDS * 3_000 })
  const tokenRequests = (await running.counts()).token
  await running.close()
  if ('found' in outcome) return { contender, outcome: { found: { ...outcome.found, tokenRequests } } }
  if (contender.kind === 'ours') throw new Error(`${contender.name}: ${outcome.why}`)
  return { contender, outcome }
}

function sectionOf(rows: readonly Row[]): Section {
  return {
    title: 'A steady load while tokens expire',
    intro:
      `${CALLS_PER_SECOND} calls a second for ${SECONDS} s over HTTP on loopback, whatever became of the calls before. Tokens live ` +
      `${EXPIRES_IN} s, and a token request takes ${TOKEN_LATENCY_MS} ms, in the middle of which the token is made. The API refuses expired ` +
      'tokens. The time of a call is counted from the moment when it was meant to begin. One that takes longer than ' +
      `${WAITED_MS} ms, while the event loop of its process goes on, has waited for a token. Client and service have a process ` +
      'each, and the first token is there before the load begins. The token of a floor does not expire: what it shows is the noise.',
    columns: [
      'Client',
      'token requests',
      'calls that waited',
      'held up by the machine',
      '401s',
      'other failures',
      'p50 (ms)',
      'p99',
      'p99.9',
      'max',
    ],
    rows: rows.map(({ contender, outcome }) =>
      'found' in outcome
        ? [
            contender.name,
            shown(outcome.found.tokenRequests),
            shown(outcome.found.waited),
            shown(outcome.found.heldUp),
            shown(outcome.found.refused),
            shown(outcome.found.failed),
            ...[outcome.found.p50, outcome.found.p99, outcome.found.p999, outcome.found.max].map(shown),
          ]
        : [contender.name, outcome.why, '', '', '', '', '', '', '', ''],
    ),
    notes: [
      `${shown(CALLS_PER_SECOND * SECONDS)} calls each.`,
      `Not here: ${Object.entries(FIXED_MARGINS)
        .map(([name, margin]) => `${name} (${margin})`)
        .join(
          ', ',
        )}. They renew a token that long before its end, whatever its life, and would hold each of these for expired.`,
    ],
    marks: rows.filter(({ contender }) => contender.kind === 'ours').flatMap(marksOf),
    charts: [chartOf(rows)],
  }
}

function marksOf({ contender: { name }, outcome }: Row): Mark[] {
  if (!('found' in outcome)) return []
  const { calls, waited, refused, failed, tokenRequests } = outcome.found
  return [
    {
      name: `${name}: calls that waited (%)`,
      value: (100 * waited) / calls,
      limit: 0,
      room: 1,
      mayMiss: 'a busy machine may hold up the service, and so any call, for as long',
    },
    { name: `${name}: 401s and failures`, value: refused + failed, limit: 0, room: 1 },
    { name: `${name}: token requests`, value: tokenRequests, limit: MOST_RENEWALS, room: 1 },
  ]
}

function chartOf(rows: readonly Row[]): Chart {
  return {
    file: 'steady.svg',
    title: `The slowest of 100 calls (p99) while tokens of ${EXPIRES_IN} s expire`,
    unit: 'ms',
    kind: 'bars',
    series: rows.flatMap(({ contender: { name, kind }, outcome }) =>
      'found' in outcome ? [{ name, kind, values: [{ x: name, y: outcome.found.p99 }] }] : [],
    ),
  }
}

await runAlone(import.meta, steady)
