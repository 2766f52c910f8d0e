/** The processes of one run of the fleet. */
import { type ChildProcess, fork } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { type Figures, noFigures, type Report, type Task } from './protocol.ts'

const WORKER = fileURLToPath(new URL('worker.ts', import.meta.url))

/** They are gone when this process is. */
export class Fleet implements Disposable {
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
  readonly child: ChildProcess = fork(WORKER, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })

  constructor(task: Task) {
    const ready = Promise.withResolvers<void>()
    const ended = Promise.withResolvers<void>()
    this.ready = ready.promise
    this.ended = ended.promise
    for (const promise of [this.ready, this.ended]) promise.catch(() => {}) // another may be awaited first
    this.child.on('message', (report: Report) => {
      if (report === 'ready') return ready.resolve()
      this.figures = report.figures
      if (report.last) ended.resolve()
    })
    const fail = (why: unknown): void => {
      const error = new Error(`A process of the fleet has ended early (${why})`)
      ready.reject(error)
      ended.reject(error)
    }
    this.child.once('error', fail)
    this.child.once('close', (code, signal) => fail(signal ?? `exit code ${code}`))
    this.child.send(task, () => {}) // a process that cannot be reached has ended
  }
}
