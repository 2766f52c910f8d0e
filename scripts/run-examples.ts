/** Runs every example and recipe but the demo, two at once. Fails if one fails, or takes longer than 2 min. */
import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const LIMIT_MS = 120_000
const AT_ONCE = 2

interface Outcome {
  /** What it wrote to stdout and stderr. */
  readonly output: string
  readonly ms: number
  /** Why it failed; undefined: it did not. */
  readonly failure: string | undefined
}

const root = fileURLToPath(new URL('../', import.meta.url))
const names = ['examples', 'examples/recipes']
  .flatMap((folder) => readdirSync(`${root}${folder}`).map((name) => `${folder}/${name}`))
  .filter((name) => name.endsWith('.ts') && name !== 'examples/demo.ts')
  .sort()

const outcomes = new Map<string, Outcome>()
const waiting = [...names]
const shown = [...names]
const startedAt = performance.now()
await Promise.all(Array.from({ length: AT_ONCE }, runWaiting))

const failed = [...outcomes.values()].filter(({ failure }) => failure !== undefined)
console.log('\n--- Summary')
for (const name of names) {
  const { ms = 0, failure } = outcomes.get(name) ?? {}
  console.log(`${seconds(ms).padStart(6)}  ${name}${failure === undefined ? '' : `: FAILED (${failure})`}`)
}
const end = failed.length === 0 ? 'all passed' : `${failed.length} failed`
console.log(`${seconds(performance.now() - startedAt).padStart(6)}  for ${names.length} programs: ${end}`)
process.exitCode = failed.length === 0 && names.length > 0 ? 0 : 1

async function runWaiting(): Promise<void> {
  for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
    outcomes.set(name, await run(name))
    showNext()
  }
}

function run(name: string): Promise<Outcome> {
  const begunAt = performance.now()
  const child = spawn(process.execPath, [name], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  let late = false
  const limit = setTimeout(() => {
    late = true
    child.kill('SIGKILL')
    // Its own child processes may keep these open.
    child.stdout.destroy()
    child.stderr.destroy()
  }, LIMIT_MS)
  return new Promise((resolve) => {
    child.once('error', (error) => {
      output += `${error}\n`
    })
    child.once('close', (code, signal) => {
      clearTimeout(limit)
      const reason = late ? `longer than ${seconds(LIMIT_MS)}` : (signal ?? `exit code ${code}`)
      resolve({ output, ms: performance.now() - begunAt, failure: code === 0 ? undefined : reason })
    })
  })
}

/** Prints the outcomes in the order of the names. */
function showNext(): void {
  for (let name = shown[0]; name !== undefined; name = shown[0]) {
    const outcome = outcomes.get(name)
    if (outcome === undefined) return
    console.log(`\n--- ${name}\n${outcome.output.trimEnd()}`)
    shown.shift()
  }
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`
}
