/** What a part of the benchmark is: what it yields, how it runs, and how it measures something in a process of its own. */
import { fork } from 'node:child_process'
import type { Contender } from './contenders/contender.ts'

/** A short run of a few parts, only of what has a check: `npm run bench -- --check`. */
export const isCheck: boolean = process.env['BENCH_MODE'] === 'check'
/** A comparison with an earlier build, installed as `merchant-auth-before`: `npm run bench -- --against FOLDER`. */
export const isAgainst: boolean = process.env['BENCH_MODE'] === 'against'

/** A promise about a figure. */
export interface Check {
  readonly name: string
  readonly value: number
  readonly limit: number
  /** Room for noise: the run fails where the value is greater than `limit * tolerance`. */
  readonly tolerance: number
}

export interface Section {
  readonly title: string
  readonly intro: string
  readonly columns: readonly string[]
  readonly rows: readonly (readonly (string | number)[])[]
  readonly notes?: readonly string[]
  readonly checks: readonly Check[]
}

const job = process.env['BENCH_JOB']

/**
 * Every part ends with it: writes what the part yields as JSON to stdout, if the module of that `import.meta` is the one
 * that Node.js was started with. Progress goes to stderr.
 */
export async function runPart(
  meta: ImportMeta,
  part: () => Promise<Section | readonly Section[]>,
): Promise<void> {
  if (meta.main && job === undefined) process.stdout.write(`${JSON.stringify([await part()].flat())}\n`)
}

export type Outcome<Found> = { readonly found: Found } | { readonly why: string }

/**
 * Makes a function of this part run in a process of its own, which is started from the same file.
 * @returns what it found, or why it found nothing.
 */
export function inOwnProcess<Job, Found>(
  meta: ImportMeta,
  measure: (job: Job) => Promise<Found>,
): (job: Job, timeoutMs: number) => Promise<Outcome<Found>> {
  if (meta.main && job !== undefined) {
    const given = JSON.parse(job) as { name: string; input: Job }
    // Not before the module has been evaluated: `measure` uses what is below.
    if (given.name === measure.name) setImmediate(() => report(measure(given.input)))
  }
  return (input, timeoutMs) =>
    new Promise((resolve) => {
      const child = fork(new URL(meta.url), {
        execArgv: ['--expose-gc', '--no-warnings', `--max-old-space-size=${HEAP_MB}`],
        stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
        env: { ...process.env, BENCH_JOB: JSON.stringify({ name: measure.name, input }) },
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
      child.on('message', (outcome: Outcome<Found>) => end(outcome))
      child.on('close', (code) => end({ why: reasonIn(errors) ?? `ended with code ${code}` }))
    })
}

const HEAP_MB = 2_048

function report(found: Promise<unknown>): void {
  found.then(
    (value) => process.send?.({ found: value }),
    (error: unknown) => process.send?.({ why: String(error).slice(0, 200) }),
  )
}

function reasonIn(errors: string): string | undefined {
  if (errors.includes('heap out of memory')) return `more than ${HEAP_MB} MB`
  return errors
    .split('\n')
    .find((line) => /Error\b/.test(line))
    ?.trim()
    .slice(0, 200)
}

/** @throws where this package could not be measured; a peer that could not be measured has a line that says so. */
export function mustBeFound(
  { name, kind }: Pick<Contender, 'name' | 'kind'>,
  outcome: Outcome<unknown>,
): void {
  if (kind === 'ours' && 'why' in outcome) throw new Error(`${name}: ${outcome.why}`)
}

/** Does something with each item, at most `width` at a time, and keeps the order. */
export async function eachOf<Item, Result>(
  items: readonly Item[],
  width: number,
  act: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = new Array(items.length)
  const queue = items.entries()
  const worker = async (): Promise<void> => {
    for (const [index, item] of queue) results[index] = await act(item)
  }
  await Promise.all(Array.from({ length: width }, worker))
  return results
}

export function progress(line: string): void {
  process.stderr.write(`  ${line}\n`)
}
