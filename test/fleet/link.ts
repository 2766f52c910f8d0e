/** A process's way to Redis: its client and the network, where commands and answers are held up, lost and sent again. */
import { RELEASE, type RunScript } from '../../src/store/redis-scripts.ts'
import type { Machine } from './actions.ts'
import type { Outcome, Server } from './server.ts'
import { type Later, Steps } from './steps.ts'

/** A command as its client keeps it until it is answered. */
export interface Command {
  readonly sentAt: number
  readonly script: string
  readonly keys: readonly string[]
  readonly args: readonly (string | number)[]
  settle(outcome: Outcome): void
}

interface Connection {
  /** On their way to the server. */
  readonly commands: Command[]
  readonly answers: { readonly command: Command; readonly outcome: Outcome }[]
  isLost: boolean
}

/** Whose link it is, and what it goes to. */
export interface LinkContext {
  readonly name: string
  readonly machine: Machine
  readonly server: Server
  /** What the process does. */
  readonly steps: Steps
  readonly later: Later
  /** Told of each command, as it is sent. */
  onCommand(command: Command): void
}

export class Link {
  /** Whether a lease could not be given back. */
  troubled = false
  readonly network: Steps
  readonly #context: LinkContext
  readonly #unanswered = new Set<Command>()
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

  readonly run: RunScript = (script, keys, args) =>
    new Promise((resolve, reject) => {
      const settle = (outcome: Outcome): void => {
        this.#unanswered.delete(command)
        if ('error' in outcome && script === RELEASE) this.troubled = true
        if ('error' in outcome) reject(outcome.error)
        else resolve(outcome.result)
      }
      const command = { sentAt: this.#context.server.nowMs(), script, keys, args, settle }
      this.#context.onCommand(command)
      this.#unanswered.add(command)
      if (!this.#connection.isLost) this.#send(this.#connection, command)
    })

  /** Loses the connection. What has left the machine arrives all the same, before what is sent on the next one. */
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
    this.network.later(`a command of ${this.#context.name} reaches Redis`).then(() => {
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
    await this.network.later(label)
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
