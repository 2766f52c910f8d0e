/** One run: all processes of the fleet start together and call for two lifetimes of a token. */
import { type ChildProcess, fork } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { startSandbox } from 'merchant-auth/testing'
import { type RedisServer, startRedis } from '../../test/support/redis-server.ts'
import { Progress } from '../progress.ts'
import { type FleetOptions, LIFETIMES } from './options.ts'
import { type Figures, MOST_DURATIONS, noFigures, type Report, type Task } from './protocol.ts'

export interface RunPlan {
  readonly mark: 'a' | 'b' | 'c' | 'd'
  readonly name: string
  readonly title: string
  readonly store: boolean
  /** What happens to Redis, and after how many lifetimes. */
  readonly incidents?: readonly { readonly atLifetimes: number; happen(redis: RedisServer): unknown }[]
}

export const RUNS: readonly RunPlan[] = [
  { mark: 'a', name: 'no store', title: 'Each process for itself: the store in memory', store: false },
  {
    mark: 'b',
    name: 'one Redis',
    title: 'One Redis for all: half of them with node-redis, half with ioredis',
    store: true,
  },
  {
    mark: 'c',
    name: 'killed',
    title: 'One Redis for all, and it is killed half-way',
    store: true,
    incidents: [{ atLifetimes: 1, happen: (redis) => redis.kill() }],
  },
]

export const FROZEN: RunPlan = {
  mark: 'd',
  name: 'frozen',
  title: 'One Redis for all, and it hangs while the token has to be renewed',
  store: true,
  incidents: [
    { atLifetimes: 0.7, happen: (redis) => redis.freeze() },
    { atLifetimes: 1.1, happen: (redis) => redis.thaw() },
  ],
}

export interface RunResult {
  readonly plan: RunPlan
  readonly processes: readonly Figures[]
  readonly tokenRequests: number
  readonly lifetimeMs: number
  /** How long (ms), at the most, this machine had no time for the token endpoint and the API. */
  readonly lateMs: number
}

/** About what a token request takes over the internet. */
const TOKEN_LATENCY_MS = 100
const START_LIMIT_MS = 300_000
/** For calls under way, and to disconnect from a Redis that is gone. */
const END_LIMIT_MS = 120_000
const WORKER = fileURLToPath(new URL('./worker.ts', import.meta.url))

/** Runs one plan, and shows its progress. */
export async function run(plan: RunPlan, options: FleetOptions): Promise<RunResult> {
  const { processes, lifetimeS, everyMs } = options
  const lifetimeMs = lifetimeS * 1_000
  const durationMs = LIFETIMES * lifetimeMs
  await using sandbox = await startSandbox()
  await using redis = plan.store ? await startRedis() : undefined
  const { test: service } = sandbox
  service.configure({ lifetimeSeconds: lifetimeS, tokenLatencyMs: TOKEN_LATENCY_MS })
  const { environment, clientId, clientSecret } = service
  using fleet = new Fleet()
  // Half of the processes call with fetch, half with axios; with each, half use node-redis, half ioredis.
  const tasks = Array.from(
    { length: processes },
    (_, nth): Task => ({
      ...{ environment, clientId, clientSecret, everyMs, durationMs },
      url: `${service.merchantUrl}/orders/${nth + 1}`,
      caller: nth % 4 < 2 ? 'fetch' : 'axios',
      store: redis && { url: redis.url, client: nth % 2 === 0 ? 'node-redis' : 'ioredis' },
      storeFails: plan.mark === 'c',
      marginMs: 0.05 * lifetimeMs,
    }),
  )
  using _ = new Progress(() => `   ${inWords(fleet.figures, service.counts.token)}`, 1_000)
  await inTime(fleet.start(tasks), START_LIMIT_MS, 'Some processes of the fleet were not ready')
  const over = new AbortController()
  const incidents = (plan.incidents ?? []).map(async ({ atLifetimes, happen }) => {
    await sleep(atLifetimes * lifetimeMs, undefined, { signal: over.signal })
    if (redis !== undefined) await happen(redis)
  })
  using lateness = monitorEventLoopDelay()
  lateness.enable()
  try {
    const ended = inTime(
      fleet.run(),
      MOST_DURATIONS * durationMs + END_LIMIT_MS,
      'Some processes of the fleet had not ended',
    )
    await Promise.all([ended, ...incidents])
  } finally {
    over.abort()
  }
  const tokenRequests = service.counts.token
  return { plan, processes: fleet.figures, tokenRequests, lifetimeMs, lateMs: lateness.max / 1e6 }
}

/** The figures of a run in a few words. */
export function inWords(figures: readonly Figures[], tokenRequests: number): string {
  const calls = figures.reduce((sum, each) => sum + each.calls, 0)
  const failed = figures.reduce((sum, each) => sum + failedCalls(each), 0)
  const requests = tokenRequests === 1 ? '1 token request' : `${tokenRequests} token requests`
  return `${figures.length} processes, ${calls} calls, ${failed} failed, ${requests}`
}

export function failedCalls({ failures }: Figures): number {
  return Object.values(failures).reduce((sum, count) => sum + count, 0)
}

/** The processes of one run. They are gone when this process is. */
class Fleet implements Disposable {
  readonly #members: Member[] = []
  readonly #onExit = (): void => this[Symbol.dispose]()

  constructor() {
    process.once('exit', this.#onExit)
  }

  get figures(): readonly Figures[] {
    return this.#members.map(({ figures }) => figures)
  }

  /** Starts the processes, a few at a time. Resolves when all are connected. */
  async start(tasks: readonly Task[]): Promise<void> {
    const start = async (task: Task): Promise<void> => {
      const member = new Member(task)
      this.#members.push(member)
      await member.ready
    }
    await Readable.from(tasks).forEach(start, { concurrency: availableParallelism() })
  }

  /** Lets all begin. Resolves when the last call of the last one has ended. */
  async run(): Promise<void> {
    for (const { child } of this.#members) child.send('begin', () => {})
    await Promise.all(this.#members.map(({ ended }) => ended))
  }

  [Symbol.dispose](): void {
    process.off('exit', this.#onExit)
    for (const { child } of this.#members) child.kill('SIGKILL')
  }
}

class Member {
  figures: Figures = noFigures()
  readonly ready: Promise<void>
  readonly ended: Promise<void>
  readonly child: ChildProcess = fork(WORKER, { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })

  constructor(task: Task) {
    const ready = Promise.withResolvers<void>()
    const ended = Promise.withResolvers<void>()
    this.ready = ready.promise
    this.ended = ended.promise
    for (const promise of [this.ready, this.ended]) promise.catch(() => {}) // another may be awaited first
    let stderr = ''
    this.child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-4_000)
    })
    this.child.on('message', (report: Report) => {
      if (report.type === 'ready') return ready.resolve()
      this.figures = report.figures
      if (report.last) ended.resolve()
    })
    const fail = (why: string): void => {
      const error = new Error(`A process of the fleet ${why}\n${stderr}`.trimEnd())
      ready.reject(error)
      ended.reject(error)
    }
    this.child.once('error', ({ message }) => fail(`could not be used: ${message}`))
    this.child.once('close', (code, signal) => fail(`has ended early (${signal ?? `exit code ${code}`})`))
    this.child.send(task, () => {}) // a process that cannot be reached has ended
  }
}

async function inTime(work: Promise<unknown>, limitMs: number, what: string): Promise<void> {
  const late = sleep(limitMs, undefined, { ref: false }).then(() => {
    throw new Error(`${what} after ${limitMs / 1000} s`)
  })
  await Promise.race([work, late])
}
