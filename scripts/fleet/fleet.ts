/** The processes of one run: started, told to begin together, and gone when this process is. */
import { type ChildProcess, fork } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { type Figures, MOST_DURATIONS, noFigures, type Report, type Task } from './protocol.ts'

const WORKER = fileURLToPath(new URL('./worker.ts', import.meta.url))
const START_LIMIT_MS = 300_000
/** For calls under way, and to let go of a Redis that is gone. */
const END_LIMIT_MS = 120_000

/** The processes of one run. */
export class Fleet implements Disposable {
  readonly #tasks: readonly Task[]
  readonly #members: Member[] = []
  readonly #onExit = (): void => this[Symbol.dispose]()

  constructor(tasks: readonly Task[]) {
    this.#tasks = tasks
    process.once('exit', this.#onExit)
  }

  get readyCount(): number {
    return this.#members.filter(({ isReady }) => isReady).length
  }

  get figures(): readonly Figures[] {
    return this.#members.map(({ figures }) => figures)
  }

  /** Starts the processes, a few at a time. Resolves when all are connected. */
  async start(): Promise<void> {
    const tasks = this.#tasks.values()
    const startOneByOne = async (): Promise<void> => {
      for (const task of tasks) {
        const member = new Member(this.#members.length + 1, task)
        this.#members.push(member)
        await inTime(member.ready, START_LIMIT_MS, 'A process of the fleet was not ready')
      }
    }
    await Promise.all(Array.from({ length: availableParallelism() }, startOneByOne))
  }

  /** Lets all begin. Resolves when the last call of the last one has ended. */
  async run(): Promise<void> {
    for (const member of this.#members) member.begin()
    const limitMs =
      MOST_DURATIONS * Math.max(...this.#tasks.map(({ durationMs }) => durationMs)) + END_LIMIT_MS
    const allEnded = Promise.all(this.#members.map(({ ended }) => ended))
    await inTime(allEnded, limitMs, 'Some processes of the fleet had not ended')
  }

  [Symbol.dispose](): void {
    process.off('exit', this.#onExit)
    for (const member of this.#members) member.kill()
  }
}

class Member {
  figures: Figures = noFigures()
  isReady = false
  readonly ready: Promise<void>
  readonly ended: Promise<void>
  readonly #child: ChildProcess

  constructor(nth: number, task: Task) {
    const ready = Promise.withResolvers<void>()
    const ended = Promise.withResolvers<void>()
    this.ready = ready.promise
    this.ended = ended.promise
    this.ready.catch(() => {}) // those of the others may be waited for first
    this.ended.catch(() => {})
    const child = fork(WORKER, { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
    this.#child = child
    let said = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-4_000)
    })
    child.on('message', (report: Report) => {
      if (report.type === 'ready') {
        this.isReady = true
        ready.resolve()
        return
      }
      this.figures = report.figures
      if (report.last) ended.resolve()
    })
    const failed = (why: string): void => {
      const error = new Error(`Process ${nth} of the fleet ${why}\n${said}`.trimEnd())
      ready.reject(error)
      ended.reject(error)
    }
    child.once('error', ({ message }) => failed(`could not be used: ${message}`))
    child.once('close', (code, signal) => failed(`has ended early (${signal ?? `exit code ${code}`})`))
    child.send(task, () => {}) // where it cannot be told, it has ended
  }

  begin(): void {
    this.#child.send('begin', () => {})
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }
}

async function inTime(work: Promise<unknown>, limitMs: number, what: string): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const timeUp = new Promise<never>((_, reject) => {
    const late = (): void => reject(new Error(`${what} after ${limitMs / 1000} s`))
    timer = setTimeout(late, limitMs)
  })
  try {
    await Promise.race([work, timeUp])
  } finally {
    clearTimeout(timer)
  }
}
