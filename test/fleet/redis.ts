/** The Redis of a fleet and the link of each process to it: commands and answers are delayed, lost and sent again. */
import type { Later } from '../model/endpoint.ts'
import { READ, RELEASE, REMOVE, REMOVE_AS_OWNER, SimulatedRedis } from '../support/simulated-redis.ts'
import type { Machine, Mood } from './actions.ts'
import { Steps } from './steps.ts'

/** How long a command or an answer is in transit (ms). */
const HALF_MS = [0.1, 2.5] as const

/** How a command ended. */
export type Outcome = { readonly result: unknown } | { readonly error: Error }

/** The value of a key, and its remaining TTL (ms). */
export interface Seen {
  readonly value: string | undefined
  readonly ttlMs: number
}

/** Observes each executed command, and the entry and lease after it. */
export interface Watcher {
  executed(by: string, command: Command, result: unknown, after: { entry: Seen; lease: Seen }): void
}

/** Scripts that need no memory. */
const MEMORY_FREE = new Set([READ, RELEASE, REMOVE, REMOVE_AS_OWNER])

export class Server {
  /** How many commands it got. */
  commands = 0
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

  /** Receives a command, and answers it after its execution. */
  take(by: string, command: Command, answer: (outcome: Outcome) => void): void {
    this.commands += 1
    if (this.#mood === 'hangs') this.#kept.push(() => this.take(by, command, answer))
    else answer(this.#execute(by, command))
  }

  #execute(by: string, command: Command): Outcome {
    const { script, keys, args } = command
    if (this.#mood === 'down')
      return { error: Object.assign(new Error('connect failed'), { code: 'ECONNREFUSED' }) }
    if (this.#mood === 'full' && !MEMORY_FREE.has(script))
      return { error: new Error('OOM command not allowed') }
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

/** A command, which its client keeps until it is answered. */
export interface Command {
  readonly sentAt: number
  readonly script: string
  readonly keys: readonly string[]
  readonly args: readonly (string | number)[]
  settle(outcome: Outcome): void
}

interface Connection {
  /** Commands in transit to the server. */
  readonly commands: Command[]
  readonly answers: { readonly command: Command; readonly outcome: Outcome }[]
  isLost: boolean
}

/** The two ends of a link. */
export interface LinkContext {
  readonly name: string
  readonly machine: Machine
  readonly server: Server
  /** The steps of the process. */
  readonly steps: Steps
  readonly later: Later
  /** Observes each command as it is sent. */
  onCommand(command: Command): void
}

export class Link {
  /** Whether a lease could not be released. */
  troubled = false
  readonly network: Steps
  readonly #context: LinkContext
  readonly #unanswered = new Set<Command>()
  readonly #givenUp = new Set<Command>()
  #lost: Connection | undefined
  #connection: Connection = { commands: [], answers: [], isLost: false }

  constructor(context: LinkContext) {
    this.#context = context
    this.network = new Steps(context.later)
  }

  /** Whether every command has been answered. */
  get idle(): boolean {
    return this.#unanswered.size === 0
  }

  /** The store no longer waits for the commands that are unanswered now. */
  giveUp(): void {
    for (const command of this.#unanswered) this.#givenUp.add(command)
  }

  /** Whether the store still waits for an unanswered command. */
  get isAwaited(): boolean {
    return [...this.#unanswered].some((command) => !this.#givenUp.has(command))
  }

  /** Runs a script. */
  readonly run = (
    script: string,
    keys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const settle = (outcome: Outcome): void => {
        this.#unanswered.delete(command)
        this.#givenUp.delete(command)
        if ('error' in outcome && script === RELEASE) this.troubled = true
        if ('error' in outcome) reject(outcome.error)
        else resolve(outcome.result)
      }
      const command = { sentAt: this.#context.server.nowMs(), script, keys, args, settle }
      this.#context.onCommand(command)
      this.#unanswered.add(command)
      if (!this.#connection.isLost) this.#send(this.#connection, command)
    })

  /** Loses the connection. Commands that have left the machine still arrive, before those of the next connection. */
  cut(arriving: number): void {
    const lost = this.#connection
    if (lost.isLost) return
    lost.isLost = true
    this.#lost?.commands.splice(0)
    lost.commands.length = Math.min(lost.commands.length, arriving)
    this.#context.steps.later(`${this.#context.name} notices that its connection is lost`).then(() => {
      this.#lost = lost
      this.#connection = { commands: [], answers: [], isLost: false }
      for (const command of this.#unanswered) {
        if (this.#context.machine.resends) this.#send(this.#connection, command)
        else command.settle({ error: Object.assign(new Error('Socket closed'), { code: 'ECONNRESET' }) })
      }
    })
  }

  #send(connection: Connection, command: Command): void {
    connection.commands.push(command)
    this.network.later(`a command of ${this.#context.name} reaches Redis`, HALF_MS).then(() => {
      if (connection !== this.#lost)
        for (const late of this.#lost?.commands.splice(0) ?? []) this.#arrive(this.#lost, late)
      const next = this.#next(connection.commands, command)
      if (next !== undefined) this.#arrive(connection, next)
    })
  }

  #arrive(connection: Connection | undefined, command: Command): void {
    this.#context.server.take(this.#context.name, command, (outcome) => {
      if (connection === undefined || connection.isLost) return
      const answer = { command, outcome }
      connection.answers.push(answer)
      this.#receive(connection, answer)
    })
  }

  async #receive(connection: Connection, answer: Connection['answers'][number]): Promise<void> {
    const label = `an answer of Redis reaches ${this.#context.name}`
    await this.network.later(label, HALF_MS)
    await this.#context.steps.ready(label)
    const next = this.#next(connection.answers, answer)
    if (!connection.isLost) next?.command.settle(next.outcome)
  }

  #next<T>(queue: T[], own: T): T | undefined {
    if (this.#context.machine.ordered) return queue.shift()
    const at = queue.indexOf(own)
    return at < 0 ? undefined : queue.splice(at, 1)[0]
  }
}
