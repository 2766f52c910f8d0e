/** A test runner that is the same in every runtime: one line for each check, and what a runtime does in its own way. */
import type { Report, Summary } from './report.ts'

// Both say that they are Node.js, too.
export const isBun: boolean = process.versions['bun'] !== undefined
export const isDeno: boolean = process.versions['deno'] !== undefined

interface Check {
  readonly group: string
  readonly name: string
  run(): Promise<void>
}

/** A check that hangs must not take the others along. */
const LIMIT_MS = 60_000

const checks: Check[] = []
let currentGroup = ''
let differences: string[] = []
let absent = false

/** The checks that are given from now on belong to this group, which is one row of the table. */
export function group(name: string): void {
  currentGroup = name
}

export function check(name: string, run: () => Promise<void>): void {
  checks.push({ group: currentGroup, name, run })
}

/**
 * Notes, where it applies, what this runtime does in its own way; the sentence is for the table. Returns whether it
 * applies: the check goes on to assert that it really is that way.
 */
export function differs(applies: boolean, sentence: string): boolean {
  if (applies) differences.push(sentence)
  return applies
}

/** Notes that what a check is about does not exist in this runtime. The check goes on to assert that. */
export function lacks(applies: boolean, sentence: string): boolean {
  absent ||= applies
  return differs(applies, sentence)
}

/** Runs all checks one after the other, and logs what came of them. */
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
  const timer = setTimeout(() => reject(new Error(`not over after ${LIMIT_MS} ms`)), LIMIT_MS)
  try {
    await Promise.race([run(), promise])
  } finally {
    clearTimeout(timer)
  }
}
