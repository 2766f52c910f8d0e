/** Many callers at once: without a token at a cold start, and with a token that the API rejects. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Client, Service } from '../contenders/contender.ts'
import { contenderOf, contenders } from '../contenders/index.ts'
import { providerOf } from '../contenders/ours.ts'
import { median, shown } from '../numbers.ts'
import {
  type Check,
  cell,
  eachOf,
  inOwnProcess,
  mustBeFound,
  type Outcome,
  progress,
  runPart,
  type Section,
} from '../part.ts'
import { startService, tokenRequestsTo } from '../service.ts'
import { stubTransport } from '../stub.ts'

const WIDTH = 2
const TOKEN_LATENCY_MS = 50
/** Reached only by a client that hangs. */
const TIMEOUT_MS = 300_000
/** The bare provider, without a client around it. */
const GET_TOKEN = 'getToken(), no client'
/** Attaches the token and does no more. */
const ATTACHES_ONLY = 'createAuthInterceptor'

// A cold start

const FEW = 1_000
/** Twice as many calls of axios take about 10 s to begin, and the token request has timed out when they have. */
const MOST = 50_000
const SIZES = [1, FEW, 10_000, MOST]
const WARM_UP_ROUNDS = 5
/** One crowd may meet a garbage collection that the next one does not. */
const ROUNDS = 3
/** Has a token before the first call here, so it never waits for one. */
const NEVER_WAITS = 'axios-auth-refresh'

interface Job {
  readonly name: string
  readonly service: Service
}

interface Crowd {
  readonly callers: number
  readonly tookMs: number
  readonly usPerCaller: number
  readonly tokenRequests: number
}

const gather = inOwnProcess(import.meta, gatherCrowds)

/** A client that makes a token request for each caller gets no large crowds. */
async function gatherCrowds({ name, service }: Job): Promise<Crowd[]> {
  const crowds: Crowd[] = []
  for (let round = 0; round < WARM_UP_ROUNDS; round += 1) await crowdOf(FEW, { name, service })
  for (const callers of SIZES) {
    const rounds: Crowd[] = []
    for (let round = 0; round < ROUNDS; round += 1) rounds.push(await crowdOf(callers, { name, service }))
    crowds.push({
      callers,
      tookMs: median(rounds.map(({ tookMs }) => tookMs)),
      usPerCaller: median(rounds.map(({ usPerCaller }) => usPerCaller)),
      tokenRequests: Math.max(...rounds.map(({ tokenRequests }) => tokenRequests)),
    })
    if (mostRequestsIn(crowds) > 10 && callers >= FEW) break
  }
  return crowds
}

async function crowdOf(callers: number, { name, service }: Job): Promise<Crowd> {
  const requestsBefore = await tokenRequestsTo(service)
  const client = await clientOf(name, service)
  globalThis.gc?.()
  const startedAt = performance.now()
  const cpu = process.threadCpuUsage()
  const statuses = await Promise.all(Array.from({ length: callers }, () => client.call()))
  const { user, system } = process.threadCpuUsage(cpu)
  const tookMs = performance.now() - startedAt
  if (statuses.some((status) => status !== 200)) throw new Error('A call failed')
  await client.close?.()
  const tokenRequests = (await tokenRequestsTo(service)) - requestsBefore
  return { callers, tookMs, usPerCaller: (user + system) / callers, tokenRequests }
}

async function clientOf(name: string, service: Service): Promise<Client> {
  if (name !== GET_TOKEN) return await contenderOf(name).create(service, stubTransport())
  const { tokens } = await providerOf(service)
  return {
    call: async () => ((await tokens.getToken()).value === '' ? 0 : 200),
    close: () => tokens.close(),
  }
}

function mostRequestsIn(crowds: readonly Crowd[]): number {
  return Math.max(...crowds.map(({ tokenRequests }) => tokenRequests))
}

async function coldStart(): Promise<Section> {
  const waiting = contenders.filter(({ kind, name }) => kind !== 'baseline' && name !== NEVER_WAITS)
  const all = [{ name: GET_TOKEN, kind: 'ours' as const }, ...waiting]
  const rows = await eachOf(all, WIDTH, async ({ name, kind }) => {
    progress(`${name}: up to ${MOST} callers`)
    const { service, close } = await startService({ tokenLatencyMs: TOKEN_LATENCY_MS })
    const outcome = await gather({ name, service }, TIMEOUT_MS)
    await close()
    mustBeFound({ name, kind }, outcome)
    return { name, kind, outcome, crowds: 'found' in outcome ? outcome.found : [] }
  })
  const at = (crowds: readonly Crowd[], size: number) => crowds.find(({ callers }) => callers === size)
  return {
    title: 'A crowd at a cold start',
    intro:
      `So many callers begin at once while there is no token. The token endpoint takes ${TOKEN_LATENCY_MS} ms; a stub takes the place ` +
      `of the API. ${WARM_UP_ROUNDS} crowds of ${shown(FEW)} go before, so that the code is compiled. Times are the median of ${ROUNDS} crowds; ` +
      'the CPU time of a caller is that of the thread by the number of callers.',
    columns: [
      'Client',
      'token requests',
      ...SIZES.map((size) => `${shown(size)} ${size === 1 ? 'caller' : 'callers'} (ms)`),
      `CPU time of one in ${shown(FEW)} (µs)`,
      `in ${shown(MOST)} (µs)`,
    ],
    rows: rows.map(({ name, outcome, crowds }) => {
      const requests = mostRequestsIn(crowds)
      return [
        name,
        'why' in outcome ? outcome.why : requests > 10 ? 'one for each caller' : shown(requests),
        ...SIZES.map((size) => at(crowds, size)?.tookMs).map((ms) => (ms ? shown(Math.round(ms)) : '')),
        ...[FEW, MOST].map((size) => at(crowds, size)?.usPerCaller).map((us) => (us ? shown(us) : '')),
      ]
    }),
    notes: [
      `Where each caller makes a token request of its own, there were no more than ${shown(FEW)} callers.`,
      `${NEVER_WAITS} is not here: it waits for a 401, not for a token.`,
    ],
    checks: rows
      .filter(({ kind }) => kind === 'ours')
      .flatMap(({ name, crowds }): Check[] => [
        {
          name: `${name}: token requests for a crowd`,
          value: mostRequestsIn(crowds),
          limit: 1,
          tolerance: 1,
        },
        {
          name: `${name}: CPU time of one caller in ${shown(MOST)} by that of one in ${shown(FEW)}`,
          value: (at(crowds, MOST)?.usPerCaller ?? Number.NaN) / (at(crowds, FEW)?.usPerCaller ?? Number.NaN),
          limit: 1,
          // 0.7 to 2.2 was measured with one crowd of 50 000, for work that does not grow with it. Work that does would be at 50.
          tolerance: 2,
        },
      ]),
  }
}

// A token that the API rejects

const REJECTED = 10_000
/** All answers at once, or some before, some during and most after the renewal. */
const SPREADS_MS = [0, 200]

interface RejectedJob extends Job {
  /** Over which time (ms) the 401s arrive. */
  readonly spreadMs: number
}

interface Rejected {
  readonly tookMs: number
  /** Calls that ended with the 401, or with an error. */
  readonly failed: number
  /** Token requests after the 401s. */
  readonly renewals: number
}

const reject = inOwnProcess(import.meta, rejectCrowd)

async function rejectCrowd({ name, service, spreadMs }: RejectedJob): Promise<Rejected> {
  let rejected: string | undefined
  let last = ''
  let sent = 0
  const later = async (number: number): Promise<number> => {
    if (spreadMs > 0) await delay((number % REJECTED) * (spreadMs / REJECTED))
    return 401
  }
  const transport = stubTransport((authorization) => {
    sent += 1
    last = authorization()
    return last === rejected ? later(sent) : 200
  })
  const client = await contenderOf(name).create(service, transport)
  for (let call = 0; call < 200; call += 1) await client.call()
  rejected = last
  const startedAt = performance.now()
  const calls = Array.from({ length: REJECTED }, () => client.call().catch(() => 0))
  const statuses = await Promise.all(calls)
  return {
    tookMs: performance.now() - startedAt,
    failed: statuses.filter((status) => status !== 200).length,
    renewals: (await tokenRequestsTo(service)) - 1,
  }
}

async function rejectedToken(): Promise<Section> {
  const chosen = contenders.filter(({ kind }) => kind !== 'baseline')
  const rows = await eachOf(chosen, WIDTH, async ({ name, kind }) => {
    progress(`${name}: ${REJECTED} calls with a rejected token`)
    const outcomes: Outcome<Rejected>[] = []
    for (const spreadMs of SPREADS_MS) {
      const { service, close } = await startService({ tokenLatencyMs: TOKEN_LATENCY_MS })
      const outcome = await reject({ name, service, spreadMs }, TIMEOUT_MS)
      await close()
      mustBeFound({ name, kind }, outcome)
      outcomes.push(outcome)
    }
    return { name, kind, outcomes }
  })
  return {
    title: 'A token that an API rejects',
    intro:
      `${shown(REJECTED)} calls are in flight with the same token when the API begins to reject it (401): once the answers ` +
      `arrive all at once, once spread over ${SPREADS_MS[1]} ms. The token endpoint takes ${TOKEN_LATENCY_MS} ms. The best possible ` +
      'result is one token request for all, and no caller who notices.',
    columns: [
      'Client',
      'token requests, at once',
      'spread',
      'failed calls, at once',
      'spread',
      'time (ms), at once',
      'spread',
    ],
    rows: rows.map(({ name, outcomes }) => [
      name,
      ...outcomes.map((outcome) => cell(outcome, ({ renewals }) => shown(renewals))),
      ...outcomes.map((outcome) => cell(outcome, ({ failed }) => shown(failed))),
      ...outcomes.map((outcome) => cell(outcome, ({ tookMs }) => shown(Math.round(tookMs)))),
    ]),
    notes: [
      'No token request, and every call failed: the client does not renew after a 401. It sends the rejected token ' +
        `until that expires. \`${ATTACHES_ONLY}\` only attaches the token, too.`,
      'axios-auth-refresh renews for the first 401. Other calls that were in flight with the same token get their 401; only ' +
        'calls that begin later wait for the new token (its `deduplicateRefresh`, which is the default).',
    ],
    checks: rows
      .filter(({ kind, name }) => kind === 'ours' && name !== ATTACHES_ONLY)
      .flatMap(({ name, outcomes }) =>
        outcomes.flatMap((outcome, index): Check[] => {
          if (!('found' in outcome)) return []
          const { renewals, failed } = outcome.found
          const how = index === 0 ? 'all at once' : 'spread'
          return [
            { name: `${name}: token requests after 401s ${how}`, value: renewals, limit: 1, tolerance: 1 },
            { name: `${name}: failed calls after 401s ${how}`, value: failed, limit: 0, tolerance: 1 },
          ]
        }),
      ),
  }
}

await runPart(import.meta, async () => [await coldStart(), await rejectedToken()])
