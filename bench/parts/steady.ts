/** A steady load over sockets while tokens expire: who has to wait for them, and who gets a 401. */
import type { Service } from '../contenders/contender.ts'
import { contenderOf, contenders } from '../contenders/index.ts'
import { quantile, shown } from '../numbers.ts'
import { type Check, eachOf, inOwnProcess, mustBeFound, progress, runPart, type Section } from '../part.ts'
import { startService, tokenRequestsTo } from '../service.ts'

const EXPIRES_IN = 2
const TOKEN_LATENCY_MS = 100
const SECONDS = 12
const CALLS_PER_SECOND = 200
const CALLS = SECONDS * CALLS_PER_SECOND
/** A call that takes longer (ms) has waited for a token. */
const WAITED_MS = TOKEN_LATENCY_MS / 2
const WIDTH = 3
/** A token in use is renewed when 20 % of its lifetime is left, or a little later, counted from its request. */
const MOST_RENEWALS = Math.ceil(SECONDS / (EXPIRES_IN * 0.75)) + 1

/** How long before its end each treats a token as expired: longer than the whole lifetime here. */
const FIXED_MARGINS: Readonly<Record<string, string>> = {
  auth0: '10 s',
  'google-auth-library': '5 min',
  '@azure/core-rest-pipeline': '2 min',
  'undici-oidc-interceptor': '10 s',
}

interface Job {
  readonly name: string
  readonly service: Service
}

interface Found {
  /** How long each call took (ms), from the moment when it should have begun. */
  readonly tookMs: readonly number[]
  /** Calls whose caller got a 401. */
  readonly rejected: number
  readonly failed: number
}

const load = inOwnProcess(import.meta, loadSteadily)

async function loadSteadily({ name, service }: Job): Promise<Found> {
  const client = await contenderOf(name).create(service)
  for (let call = 0; call < 50; call += 1) await client.call()
  const tookMs: number[] = []
  const statuses: number[] = []
  const make = async (dueAt: number): Promise<void> => {
    statuses.push(await client.call().catch(() => 0))
    tookMs.push(performance.now() - dueAt)
  }
  const all: Promise<void>[] = []
  const startedAt = performance.now()
  const { promise: allBegun, resolve } = Promise.withResolvers<void>()
  const timer = setInterval(() => {
    const dueAt = () => startedAt + (all.length * 1_000) / CALLS_PER_SECOND
    while (all.length < CALLS && dueAt() <= performance.now()) all.push(make(dueAt()))
    if (all.length === CALLS) resolve()
  }, 1)
  await allBegun
  clearInterval(timer)
  await Promise.all(all)
  const rejected = statuses.filter((status) => status === 401).length
  return { tookMs, rejected, failed: statuses.filter((status) => status !== 200).length - rejected }
}

async function steady(): Promise<readonly Section[]> {
  const chosen = contenders.filter(({ name }) => !(name in FIXED_MARGINS))
  const rows = await eachOf(chosen, WIDTH, async (contender) => {
    const { name, kind } = contender
    progress(`${name}: ${SECONDS} s`)
    const expiresIn = kind === 'baseline' ? 10 * SECONDS : EXPIRES_IN
    const running = await startService({ expiresIn, tokenLatencyMs: TOKEN_LATENCY_MS })
    const outcome = await load({ name, service: running.service }, SECONDS * 3_000)
    mustBeFound(contender, outcome)
    const tokenRequests = await tokenRequestsTo(running.service)
    await running.close()
    return { name, kind, outcome, tokenRequests }
  })
  const found = rows.flatMap(({ outcome, ...row }) =>
    'found' in outcome ? [{ ...row, ...outcome.found }] : [],
  )
  return [
    {
      title: 'A steady load while tokens expire',
      intro:
        `${CALLS_PER_SECOND} calls a second for ${SECONDS} s over HTTP on loopback, whatever became of the calls before. Tokens live ` +
        `${EXPIRES_IN} s, and a token request takes ${TOKEN_LATENCY_MS} ms, in the middle of which the token is issued. The API rejects expired ` +
        `tokens. The time of a call counts from the moment when it should have begun; one that takes longer than ${WAITED_MS} ms has waited for a ` +
        'token. The token of a baseline does not expire: what its line shows is the noise.',
      columns: [
        'Client',
        'token requests',
        'calls that waited',
        '401s',
        'failures',
        'p50 (ms)',
        'p99',
        'max',
      ],
      rows: found.map(({ name, tokenRequests, tookMs, rejected, failed }) => [
        name,
        shown(tokenRequests),
        shown(tookMs.filter((ms) => ms > WAITED_MS).length),
        shown(rejected),
        shown(failed),
        ...[quantile(tookMs, 0.5), quantile(tookMs, 0.99), Math.max(...tookMs)].map(shown),
      ]),
      notes: [
        `${shown(CALLS)} calls each. Where calls of a baseline waited, the machine was too busy, and the times say nothing.`,
        `Not here: ${Object.entries(FIXED_MARGINS)
          .map(([name, margin]) => `${name} (${margin})`)
          .join(
            ', ',
          )}. They renew a token that long before its end, and would treat each of these as expired.`,
        ...rows.flatMap(({ name, outcome }) => ('why' in outcome ? [`${name}: ${outcome.why}.`] : [])),
      ],
      checks: found
        .filter(({ kind }) => kind === 'ours')
        .flatMap(({ name, rejected, failed, tokenRequests }): Check[] => [
          { name: `${name}: 401s and failures`, value: rejected + failed, limit: 0, tolerance: 1 },
          { name: `${name}: token requests`, value: tokenRequests, limit: MOST_RENEWALS, tolerance: 1 },
        ]),
      summary: {
        page: 'docs/speed.md',
        columns: [
          `${CALLS_PER_SECOND} calls a second for ${SECONDS} s; tokens live ${EXPIRES_IN} s`,
          'token requests',
          'calls that waited',
          '401s',
        ],
        rows: ['attachAuth', 'handwritten interceptor', 'createAuthFetch', 'handwritten fetch'].flatMap(
          (wanted) =>
            found
              .filter(({ name }) => name === wanted)
              .map(({ name, tokenRequests, tookMs, rejected }) => [
                name,
                shown(tokenRequests),
                shown(tookMs.filter((ms) => ms > WAITED_MS).length),
                shown(rejected),
              ]),
        ),
      },
      chart: {
        file: 'steady.svg',
        title: `The slowest of 100 calls (p99) while tokens of ${EXPIRES_IN} s expire`,
        unit: 'ms',
        kind: 'bars',
        rows: found.map(({ name, kind, tookMs }) => ({ name, kind, value: quantile(tookMs, 0.99) })),
      },
    },
  ]
}

await runPart(import.meta, steady)
