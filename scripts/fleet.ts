/**
 * Many processes of one service, and their token requests: with one Redis for all of them, with a Redis that is killed
 * half-way, and with one directory of files. Needs redis-server.
 *
 * Only this finds what needs real processes: event loops, connections and clocks of their own, a start at the same moment,
 * a machine with more processes than cores. The tests simulate processes as providers that share one event loop.
 *
 * npm run fleet [-- --processes 32] [--lifetime 5]
 *
 * --processes: how many. More than about 8 for each core need longer lifetimes, too.
 * --lifetime: how long a token lives (s). Each run takes two lifetimes.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs, styleText } from 'node:util'
import { startSandbox } from 'merchant-auth/testing'
import { redisMissing, startRedis } from '../test/support/redis-server.ts'
import { Fleet } from './fleet/members.ts'
import { type Figures, MOST_DURATIONS, type StoreAddress, type Task } from './fleet/protocol.ts'

const LIFETIMES = 2
/** So many calls a second leave a small machine time for the processes that make and answer them. */
const CALLS_PER_CORE = 80
const MOST_CALLS_PER_PROCESS = 20
/** Fewer calls of a process say nothing. */
const LEAST_CALLS = 10
/** A token is renewed when three quarters of its lifetime are over, or later. */
const RENEWED_AFTER = 0.75
/** The times of requests are computed from several clocks that are read in whole ms. */
const TOLERANCE_MS = 20
/** About what a token request takes over the internet. */
const TOKEN_LATENCY_MS = 100
const START_LIMIT_MS = 300_000
/** For calls under way, and to disconnect from a Redis that is gone. */
const END_LIMIT_MS = 120_000

/** A store that is started for one run. */
interface SharedStore extends AsyncDisposable {
  readonly address: string
  /** The processes use these in turn. */
  readonly kinds: readonly StoreAddress['kind'][]
  kill(): Promise<void>
}

async function startRedisStore(): Promise<SharedStore> {
  const redis = await startRedis()
  return {
    address: redis.url,
    kinds: ['node-redis', 'ioredis'],
    kill: () => redis.kill(),
    [Symbol.asyncDispose]: () => redis[Symbol.asyncDispose](),
  }
}

async function startDirectory(): Promise<SharedStore> {
  const directory = mkdtempSync(join(tmpdir(), 'fleet-'))
  const remove = (): void => rmSync(directory, { recursive: true, force: true })
  return {
    address: directory,
    kinds: ['file'],
    kill: async () => {
      remove()
      writeFileSync(directory, '') // otherwise the next process creates it again
    },
    [Symbol.asyncDispose]: async () => remove(),
  }
}

interface Run {
  readonly name: string
  readonly start: () => Promise<SharedStore>
  /** Whether the store is killed half-way. */
  readonly isKilled: boolean
}

const RUNS: readonly Run[] = [
  { name: 'one Redis', start: startRedisStore, isKilled: false },
  { name: 'killed Redis', start: startRedisStore, isKilled: true },
  { name: 'one directory', start: startDirectory, isKilled: false },
  { name: 'lost directory', start: startDirectory, isKilled: true },
]

interface Result {
  readonly run: Run
  readonly processes: readonly Figures[]
  readonly tokenRequests: number
  /** How long (ms), at the most, this machine had no time for the token endpoint and the API. */
  readonly lateMs: number
}

const { values } = parseArgs({
  options: { processes: { type: 'string', default: '32' }, lifetime: { type: 'string', default: '5' } },
})
const count = wholeNumber('processes', [2, 256])
const lifetimeMs = wholeNumber('lifetime', [3, 300]) * 1_000
const durationMs = LIFETIMES * lifetimeMs
const everyMs = 1_000 / Math.min(MOST_CALLS_PER_PROCESS, (CALLS_PER_CORE * availableParallelism()) / count)

const missing = redisMissing()
if (missing !== undefined) throw new Error(missing)
// The processes of the fleet end with this one.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => process.exit(1))

console.log(
  `A fleet of ${count} processes that start together, ${RUNS.length} runs of ${durationMs / 1_000} s each.`,
)
const results: Result[] = []
for (const run of RUNS) {
  console.log(`\n${run.name}`)
  const result = await runFleet(run)
  console.log(inWords(result.processes, result.tokenRequests))
  results.push(result)
}
console.table(Object.fromEntries(results.map((result) => [result.run.name, rowOf(result)])))

const verdicts = results.flatMap(verdictsOf)
for (const { good, text } of verdicts)
  console.log(`${good ? styleText('green', '✔') : styleText('red', '✘')} ${text}`)
process.exitCode = verdicts.every(({ good }) => good) ? 0 : 1

/** All processes of the fleet start together, and call for two lifetimes of a token. */
async function runFleet(run: Result['run']): Promise<Result> {
  await using sandbox = await startSandbox()
  await using store = await run.start()
  const { test: service } = sandbox
  service.configure({ lifetimeSeconds: lifetimeMs / 1_000, tokenLatencyMs: TOKEN_LATENCY_MS })
  const { environment, clientId, clientSecret } = service
  using fleet = new Fleet()
  // Half of the processes call with fetch, half with axios; with each, half use the first kind of store, half the second.
  const tasks = Array.from(
    { length: count },
    (_, nth): Task => ({
      ...{ environment, clientId, clientSecret, everyMs, durationMs },
      url: `${service.merchantUrl}/orders/${nth + 1}`,
      caller: nth % 4 < 2 ? 'fetch' : 'axios',
      store: addressOf(store, nth),
      storeFails: run.isKilled,
      marginMs: 0.05 * lifetimeMs,
    }),
  )
  await inTime(fleet.start(tasks), START_LIMIT_MS, 'Some processes of the fleet were not ready')
  using lateness = monitorEventLoopDelay()
  lateness.enable()
  const limitMs = MOST_DURATIONS * durationMs + END_LIMIT_MS
  const ended = inTime(fleet.run(), limitMs, 'Some processes of the fleet had not ended')
  const killed = run.isKilled ? sleep(lifetimeMs).then(() => store.kill()) : undefined
  await Promise.all([ended, killed])
  return { run, processes: fleet.figures, tokenRequests: service.counts.token, lateMs: lateness.max / 1e6 }
}

function addressOf({ address, kinds }: SharedStore, nth: number): StoreAddress {
  return { kind: kinds[nth % kinds.length] as StoreAddress['kind'], address }
}

async function inTime(work: Promise<unknown>, limitMs: number, what: string): Promise<void> {
  const late = sleep(limitMs, undefined, { ref: false }).then(() => {
    throw new Error(`${what} after ${limitMs / 1_000} s`)
  })
  await Promise.race([work, late])
}

function inWords(figures: readonly Figures[], tokenRequests: number): string {
  const [calls, failed] = [sum(figures, (each) => each.calls), sum(figures, failedCalls)]
  return `${figures.length} processes, ${calls} calls, ${failed} failed, ${tokenRequests} token requests`
}

function rowOf({ processes, tokenRequests, lateMs: late }: Result): Record<string, string | number> {
  const firstMs = processes.map(({ firstTokenMs }) => firstTokenMs ?? Number.POSITIVE_INFINITY)
  return {
    calls: sum(processes, ({ calls }) => calls),
    failed: sum(processes, failedCalls),
    '401s': sum(processes, ({ unauthorized }) => unauthorized),
    'token requests': tokenRequests,
    'from the store': sum(processes, ({ fromStore }) => fromStore),
    'store-failed': sum(processes, ({ storeFailures }) => storeFailures),
    'last first token (ms)': Math.round(Math.max(...firstMs)),
    'longest call (ms)': Math.round(Math.max(...processes.map(({ longestCallMs }) => longestCallMs))),
    'machine late (ms)': Math.round(late),
  }
}

interface Verdict {
  readonly good: boolean
  readonly text: string
}

/** What must hold of a run. */
function verdictsOf(result: Result): Verdict[] {
  const { run, processes, tokenRequests } = result
  const requests = `${run.name}: ${tokenRequests} token requests`
  if (!run.isKilled) {
    // A process that cannot reach the store in time makes a request of its own.
    const excused = sum(processes, ({ storeFailures }) => storeFailures)
    const gaps = gapsBetweenRequests(processes)
    // The time of a look at the store counts as part of the token's life.
    const lookMs = Math.max(...processes.map(({ longestLookMs }) => longestLookMs))
    const leastGapMs = RENEWED_AFTER * lifetimeMs - lookMs - TOLERANCE_MS
    const early = gaps.filter((gapMs) => gapMs < leastGapMs).length
    const good = tokenRequests >= LIFETIMES && early <= excused
    const expected = `(expected: ${LIFETIMES} or more, ${excused})`
    const shortest = `; ${Math.round(Math.min(...gaps))} ms between two, at least ${Math.round(leastGapMs)} allowed`
    return [
      { good, text: `${requests}, ${early} while a token was fresh ${expected}${shortest}` },
      noFailedCall(result),
    ]
  }
  const failing = processes.filter(({ storeFailures }) => storeFailures > 0).length
  const text = `${run.name}: ${failing} processes emitted store-failed (expected: all)`
  return [noFailedCall(result), { good: failing === count, text }]
}

/** How much time (ms) passed from one token request to the next. */
function gapsBetweenRequests(processes: readonly Figures[]): number[] {
  const requestedAt = processes.flatMap((each) => each.requestedAt).sort((a, b) => a - b)
  return requestedAt.slice(1).map((at, nth) => at - (requestedAt[nth] as number))
}

function noFailedCall({ run, processes }: Result): Verdict {
  const [calls, failed] = [sum(processes, (each) => each.calls), sum(processes, failedCalls)]
  if (failed > 0) {
    const why = processes.flatMap(({ failures }) => Object.keys(failures))
    return {
      good: false,
      text: `${run.name}: ${failed} of ${calls} calls failed: ${[...new Set(why)].join(', ')}`,
    }
  }
  const good = calls >= LEAST_CALLS * count
  return { good, text: `${run.name}: no failed call of ${calls}${good ? '' : ': this machine is too slow'}` }
}

function failedCalls({ failures }: Figures): number {
  return Object.values(failures).reduce((total, each) => total + each, 0)
}

function sum(processes: readonly Figures[], of: (each: Figures) => number): number {
  return processes.reduce((total, each) => total + of(each), 0)
}

function wholeNumber(name: 'processes' | 'lifetime', [least, most]: readonly [number, number]): number {
  const number = Number(values[name])
  if (Number.isInteger(number) && number >= least && number <= most) return number
  throw new Error(`--${name} must be a whole number from ${least} to ${most}.`)
}
