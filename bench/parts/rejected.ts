/** What it takes when an API refuses the token of many calls at once. */
import type { Contender } from '../contender.ts'
import { contenders } from '../contenders/index.ts'
import { measureApart, type Outcome } from '../measure/apart.ts'
import { eachOf, progress } from '../measure/pool.ts'
import type { RejectedFound, RejectedJob } from '../measure/rejected-run.ts'
import { shown } from '../measure/stats.ts'
import { isCheck, type Mark, runAlone, type Section } from '../section.ts'
import { startService } from '../servers/service.ts'

const CALLERS = 10_000
const TOKEN_LATENCY_MS = 50
/** All refusals at once, or some before, some during and most after the renewal. */
const SPREADS_MS = [0, 200]
const WIDTH = 2

interface Rejected extends RejectedFound {
  /** Token requests after the refusal. */
  readonly renewals: number
}

interface Row {
  readonly contender: Contender
  readonly outcomes: readonly Outcome<Rejected>[]
}

export default async function rejected(): Promise<Section> {
  const chosen = contenders.filter(
    ({ kind, name }) => kind !== 'floor' && (!isCheck || (kind === 'ours' && renews(name))),
  )
  const rows = await eachOf(chosen, WIDTH, async (contender): Promise<Row> => {
    progress(`${contender.name}: ${CALLERS} refusals`)
    const outcomes: Outcome<Rejected>[] = []
    for (const spreadMs of SPREADS_MS) outcomes.push(await measure(contender, spreadMs))
    return { contender, outcomes }
  })
  return sectionOf(rows)
}

/** createAuthInterceptor only attaches the token, and says so. */
function renews(name: string): boolean {
  return name !== 'createAuthInterceptor'
}

async function measure({ name, kind }: Contender, spreadMs: number): Promise<Outcome<Rejected>> {
  const { service, counts, close } = await startService({ tokenLatencyMs: TOKEN_LATENCY_MS })
  const job: RejectedJob = { contender: name, service, callers: CALLERS, spreadMs }
  const outcome = await measureApart<RejectedFound>('./rejected-run.ts', {
    job,
    timeoutMs: isCheck ? 300_000 : 30_000,
  })
  await close()
  if ('found' in outcome) return { found: { ...outcome.found, renewals: counts.token - 1 } }
  if (kind === 'ours') throw new Error(`${name}: ${outcome.why}`)
  return outcome
}

function sectionOf(rows: readonly Row[]): Section {
  return {
    title: 'A token that an API refuses',
    intro:
      `${shown(CALLERS)} calls are out with one and the same token when the API begins to refuse it (401): once the refusals ` +
      `arrive all at once, once spread over ${SPREADS_MS[1]} ms. The token endpoint takes ${TOKEN_LATENCY_MS} ms. The best that ` +
      'can be is one token request for all, and no caller who notices.',
    columns: [
      'Client',
      'token requests, at once',
      'spread',
      'failed calls, at once',
      'spread',
      'time (ms), at once',
      'spread',
    ],
    rows: rows.map(({ contender, outcomes }) => [
      contender.name,
      ...outcomes.map((outcome) => cell(outcome, ({ renewals }) => renewals)),
      ...outcomes.map((outcome) => cell(outcome, ({ failed }) => failed)),
      ...outcomes.map((outcome) => cell(outcome, ({ tookMs }) => Math.round(tookMs))),
    ]),
    notes: [
      'No token request, and every call failed: the client does not renew after a 401. It goes on with the refused token ' +
        'until that expires. `createAuthInterceptor` only attaches the token, too.',
      'axios-auth-refresh renews for the first refused call. Those that were out with the same token get the 401; only ' +
        'calls that begin later wait for the new one (its `deduplicateRefresh`, which is the default).',
    ],
    marks: rows
      .filter(({ contender }) => contender.kind === 'ours' && renews(contender.name))
      .flatMap(({ contender, outcomes }) =>
        outcomes.flatMap((outcome, index): Mark[] => {
          const { renewals, failed } =
            'found' in outcome ? outcome.found : { renewals: CALLERS, failed: CALLERS }
          const which = index === 0 ? 'at once' : 'spread'
          return [
            {
              name: `${contender.name}: token requests, refusals ${which}`,
              value: renewals,
              limit: 1,
              room: 1,
            },
            { name: `${contender.name}: failed calls, refusals ${which}`, value: failed, limit: 0, room: 1 },
          ]
        }),
      ),
  }
}

function cell(outcome: Outcome<Rejected>, show: (found: Rejected) => number): string {
  return 'found' in outcome ? shown(show(outcome.found)) : outcome.why
}

await runAlone(import.meta, rejected)
