/** A measurement in a process of its own: what it found, or why it found nothing. */
import { fork } from 'node:child_process'

export type Outcome<Found> = { readonly found: Found } | { readonly why: string }

export interface ApartOptions {
  /** What the program is to do. */
  readonly job: unknown
  /** After it (ms) the process is ended. */
  readonly timeoutMs: number
  /** The most memory (MB) that its objects may take. */
  readonly heapMb?: number
  /** Called with what the program tells by `tell`, before its end. */
  onTold?(told: string): void
}

type Message = { readonly found: unknown } | { readonly why: string } | { readonly told: string }

const DEFAULT_HEAP_MB = 2_048

/** Runs one of the programs of this folder, which ends with `reportTo`. */
export function measureApart<Found>(
  program: string,
  { job, timeoutMs, heapMb = DEFAULT_HEAP_MB, onTold }: ApartOptions,
): Promise<Outcome<Found>> {
  return new Promise((resolve) => {
    const child = fork(new URL(program, import.meta.url), [JSON.stringify(job)], {
      execArgv: ['--expose-gc', '--no-warnings', `--max-old-space-size=${heapMb}`],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    let errors = ''
    const end = (outcome: Outcome<Found>): void => {
      clearTimeout(timer)
      child.kill('SIGKILL')
      resolve(outcome)
    }
    const timer = setTimeout(() => end({ why: `not done after ${timeoutMs / 1_000} s` }), timeoutMs)
    child.stderr?.on('data', (chunk: Buffer) => {
      errors = (errors + chunk.toString()).slice(-20_000)
    })
    child.on('message', (message: Message) => {
      if ('told' in message) onTold?.(message.told)
      else end(message as Outcome<Found>)
    })
    child.on('close', (code) =>
      end({ why: errors.includes('heap out of memory') ? `more than ${heapMb} MB` : lastOf(errors, code) }),
    )
  })
}

function lastOf(errors: string, code: number | null): string {
  const line = errors.split('\n').find((one) => /Error\b/.test(one))
  return line?.trim().slice(0, 200) ?? `ended with code ${code}`
}

/** Does the job that the process was started for, and hands over what it finds. */
export function reportTo<Job>(measure: (job: Job) => Promise<unknown>): void {
  measure(JSON.parse(process.argv[2] ?? 'null') as Job).then(
    (found) => process.send?.({ found } satisfies Message),
    (error: unknown) => {
      const why = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
      process.send?.({ why: why.slice(0, 200) } satisfies Message)
    },
  )
}

/** Tells something to whoever started this process. */
export function tell(told: string): void {
  process.send?.({ told } satisfies Message)
}
