/** A test runner that works the same in every runtime: one line per check, and the differences of the runtime. */
import type { Report, Summary } from './report.ts'

// Both also report a version of Node.js.
export const isBun: boolean = process.versions['bun'] !== undefined
export const isDeno: boolean = process.versions['deno'] !== undefined

interface Check {
  readonly group: string
  readonly name: string
  run(): Promise<void>
}

/** A check that hangs must not block the others. */
const LIMIT_MS = 60_000

const checks: Check[] = []
let currentGroup = ''
let differences: string[] = []
let absent = false

/** Assigns the checks that follow to this group, which is one row of the table. */
export function group(name: string): void {
  currentGroup = name
}

export function check(name: string, run: () => Promise<void>): void {
  checks.push({ group: currentGroup, name, run })
}

/**
 * Records a difference of this runtime, if it applies; the sentence is a note of the table. Returns whether it applies,
 * so that the check can assert the difference.
 */
export function differs(applies: boolean, sentence: string): boolean {
  if (applies) differences.push(sentence)
  return applies
}

/** Records that this runtime lacks what a check tests, if that applies. The check then asserts that it is missing. */
export function lacks(applies: boolean, sentence: string): boolean {
  absent ||= applies
  return differs(applies, sentence)
}

/** Runs all checks in sequence, and logs their results. */
export async function runChecks(): Promise<void> {
  const reports: Report[] = []
  for (const { group, name, run } of checks) {
    differences = []
    absent = false
    const startedAt = performance.now()
    const problem = await limited(run).then(
      () => undefined,
      (error: unknown) => (error instanceof Error ? String(error.stack ?? error) : String(error)),
    )
    const ms = Math.round(performance.now() - startedAt)
    reports.push({
      group,
      name,
      ms,
      differences,
      absent,
      ...(problem === undefined ? undefined : { problem }),
    })
    const mark = problem === undefined ? (differences.length === 0 ? '✔' : '≠') : '✘'
    console.log(`${mark} ${group}: ${name} (${ms} ms)${problem === undefined ? '' : `\n${problem}`}`)
  }
  const { node, bun, deno } = process.versions as Partial<Record<string, string>>
  const summary: Summary = { version: String(bun ?? deno ?? node), reports }
  console.log(`REPORT ${JSON.stringify(summary)}`)
  if (reports.some(({ problem }) => problem !== undefined)) process.exitCode = 1
}

async function limited(run: () => Promise<void>): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`did not end within ${LIMIT_MS} ms`)), LIMIT_MS)
  try {
    await Promise.race([run(), promise])
  } finally {
    clearTimeout(timer)
  }
}
