/** The Redis of a fleet: the simulated one, with moods, and with somebody who watches its keys. */
import { READ, RELEASE, REMOVE, REMOVE_AS_OWNER } from '../../src/store/redis-scripts.ts'
import { SimulatedRedis } from '../support/simulated-redis.ts'
import type { Mood } from './actions.ts'
import type { Command } from './link.ts'

/** How a command ended. */
export type Outcome = { readonly result: unknown } | { readonly error: Error }

/** What stands under a key, and what remains of its time (ms). */
export interface Seen {
  readonly value: string | undefined
  readonly ttlMs: number
}

/** Told of each command that was executed, and of what there is after it. */
export interface Watcher {
  executed(by: string, command: Command, result: unknown, after: { entry: Seen; lease: Seen }): void
}

const SPARING = new Set([READ, RELEASE, REMOVE, REMOVE_AS_OWNER])

export class Server {
  #mood: Mood = 'well'
  /** Its own clock. */
  readonly nowMs: () => number
  readonly #redis: SimulatedRedis
  readonly #watcher: Watcher
  readonly #kept: (() => void)[] = []

  constructor(nowMs: () => number, watcher: Watcher) {
    this.nowMs = nowMs
    this.#redis = new SimulatedRedis(nowMs)
    this.#watcher = watcher
  }

  get mood(): Mood {
    return this.#mood
  }

  set mood(mood: Mood) {
    this.#mood = mood
    if (mood !== 'hangs') for (const take of this.#kept.splice(0)) take()
  }

  flush(): void {
    this.#redis.flush()
  }

  keys(): string[] {
    return this.#redis.keys()
  }

  /** Takes a command, and answers it when it comes to it. */
  take(by: string, command: Command, answer: (outcome: Outcome) => void): void {
    if (this.#mood === 'hangs') this.#kept.push(() => this.take(by, command, answer))
    else answer(this.#execute(by, command))
  }

  #execute(by: string, command: Command): Outcome {
    const { script, keys, args } = command
    if (this.#mood === 'down') return { error: Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }) }
    if (this.#mood === 'full' && !SPARING.has(script)) return { error: new Error('OOM command not allowed') }
    const result = this.#redis.execute(script, keys, args)
    const [entry = '', lease = ''] = keys
    this.#watcher.executed(by, command, result, { entry: this.#see(entry), lease: this.#see(lease) })
    return { result }
  }

  #see(key: string): Seen {
    const [value, ttlMs] = this.#redis.execute(READ, [key], []) as [string | null, number]
    return { value: value ?? undefined, ttlMs }
  }
}
