/**
 * A fleet of processes over a day, on simulated time: without a store, with one, and with one that has a lease.
 *
 * npm run simulate [-- --providers 10000 --hours 24 --lifetime 3600 --call-every 60 --seed 4]
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import type { Progress } from './simulate/fleet.ts'
import { type Job, runJobs } from './simulate/jobs.ts'
import { plot } from './simulate/plot.ts'
import { busyRowsOf, inText, pageOf, rowsOf } from './simulate/report.ts'
import {
  BUSY,
  DEFAULTS,
  type SimulationOptions,
  scenarioOf,
  UNGUARDED,
  VARIANTS,
} from './simulate/scenario.ts'

const USAGE = `npm run simulate -- [options]
  --providers N    processes of the fleet (${DEFAULTS.providers})
  --hours N        simulated hours (${DEFAULTS.hours})
  --lifetime N     of a token, in whole seconds (${DEFAULTS.lifetimeSeconds})
  --call-every N   mean time in seconds between two calls of a process (${DEFAULTS.callEverySeconds})
  --seed N         the same seed gives the same outcome (${DEFAULTS.seed})
Without options docs/fleet-simulation.svg and docs/fleet-simulation.md are written anew.`
const { stdout } = process

const { values } = parseArgs({
  options: {
    providers: { type: 'string' },
    hours: { type: 'string' },
    lifetime: { type: 'string' },
    'call-every': { type: 'string' },
    seed: { type: 'string' },
    help: { type: 'boolean' },
  },
})
const options: SimulationOptions = {
  providers: Number(values.providers ?? DEFAULTS.providers),
  hours: Number(values.hours ?? DEFAULTS.hours),
  lifetimeSeconds: Number(values.lifetime ?? DEFAULTS.lifetimeSeconds),
  callEverySeconds: Number(values['call-every'] ?? DEFAULTS.callEverySeconds),
  seed: Number(values.seed ?? DEFAULTS.seed),
  calm: false,
}
const { providers, hours, lifetimeSeconds, callEverySeconds, seed } = options
const whole = [providers, lifetimeSeconds].every((number) => Number.isInteger(number) && number > 0)
if (values.help || !whole || !Number.isInteger(seed) || !(hours > 0) || !(callEverySeconds > 0)) {
  console.log(USAGE)
  process.exit(values.help ? 0 : 2)
}

const isRecorded = Object.keys(values).length === 0
const startedAt = performance.now()
const scenario = scenarioOf(options)
const busy = { ...options, ...BUSY }
const jobs: Job[] = VARIANTS.map((variant) => ({ variant, scenario }))
const busyJobs: Job[] = isRecorded ? VARIANTS.map((variant) => ({ variant, scenario: scenarioOf(busy) })) : []

console.log(`${providers} processes over ${hours} hours, in ${VARIANTS.length} ways. Seed ${seed}.`)
const all = [...jobs, ...busyJobs]
const progresses = new Map<Job, Progress>()
const timer = setInterval(showProgress, stdout.isTTY ? 500 : 15_000)
const outcomes = await runJobs(all, (job, progress) => progresses.set(job, progress))
clearInterval(timer)
if (stdout.isTTY) stdout.write('\r\x1b[2K')

const mainOutcomes = outcomes.slice(0, jobs.length)
const rows = rowsOf(scenario, mainOutcomes)
console.log(`\n${inText(rows)}\n`)
if (isRecorded) {
  const busyRows = busyRowsOf(outcomes.slice(jobs.length))
  console.log(`The same fleet under steady load:\n\n${inText(busyRows)}\n`)
  const docs = new URL('../docs/', import.meta.url)
  writeFileSync(new URL('fleet-simulation.svg', docs), plot(scenario, mainOutcomes))
  writeFileSync(new URL('fleet-simulation.md', docs), pageOf(options, { rows, busyRows, busy }))
  console.log('docs/fleet-simulation.svg and docs/fleet-simulation.md are written.')
}
const bad = outcomes.filter(
  ({ failed, forgotten, expired }, nth) =>
    failed + forgotten > 0 || (expired > 0 && all[nth]?.variant !== UNGUARDED),
)
for (const { failure } of bad) console.log(`Not well: ${failure ?? 'a call waits, or got an expired token'}`)
console.log(`It took ${Math.round((performance.now() - startedAt) / 1_000)} s.`)
process.exitCode = bad.length === 0 ? 0 : 1

function showProgress(): void {
  const seconds = Math.round((performance.now() - startedAt) / 1_000)
  const parts = all.map((job) => {
    const { done = 0, requests = 0 } = progresses.get(job) ?? {}
    return `${job.variant}${job.scenario === scenario ? '' : ', busy'} ${Math.round(done * 100)} % (${requests})`
  })
  const line = `${seconds} s: ${parts.join('; ')}`
  stdout.write(stdout.isTTY ? `\r\x1b[2K${line.slice(0, stdout.columns - 1)}` : `${line}\n`)
}
