/**
 * Many processes of one service, and their token requests: each for itself, then with one store for all of them.
 *
 * npm run fleet -- --processes 32 [--lifetime 5] [--frozen]
 */
import { styleText } from 'node:util'
import { redisMissing } from '../test/support/redis-server.ts'
import { type FleetOptions, LIFETIMES, readOptions, USAGE } from './fleet/options.ts'
import { tableOf, verdictsOf } from './fleet/results.ts'
import { FROZEN, inWords, RUNS, type RunResult, run } from './fleet/run.ts'

/** Servers that stand still for longer let processes wait for each other. */
const BUSY_MS = 250

const options = optionsOrLeave()
const missing = redisMissing()
if (missing !== undefined) leave(`${missing}\nThe fleet cannot be shown without it.`, 1)

// The processes of the fleet end with this one.
process.on('SIGINT', () => leave('\nInterrupted.', 130))
process.on('SIGTERM', () => process.exit(143))
process.on('SIGHUP', () => process.exit(129))

const { processes, lifetimeS, everyMs, frozen } = options
const plans = frozen ? [...RUNS, FROZEN] : RUNS
const seconds = lifetimeS * LIFETIMES
console.log(
  `A fleet of ${processes} processes that start together, ${plans.length} runs of ${seconds} s each.\n` +
    `A token lives for ${lifetimeS} s. Each process calls the API ${perSecond(everyMs)} times a second.\n`,
)
const results: RunResult[] = []
for (const plan of plans) {
  console.log(`${plan.mark}  ${plan.title}`)
  const result = await run(plan, options).catch((error: Error) => leave(`\n${error.message}`, 1))
  console.log(`   ${inWords(result.processes, result.tokenRequests)}\n`)
  results.push(result)
}
console.log(`${tableOf(results)}\n`)

let allGood = true
for (const result of results) {
  for (const { good, text } of verdictsOf(result)) {
    console.log(`${good ? styleText('green', '✔') : styleText('red', '✘')} ${result.plan.mark}  ${text}`)
    allGood &&= good
  }
}
const lateMs = Math.round(Math.max(...results.map((result) => result.lateMs)))
if (!allGood && lateMs > BUSY_MS)
  console.log(
    `\nThis machine was busy: its servers stood still for up to ${lateMs} ms. If that is the reason,\n` +
      'fewer processes or a longer --lifetime say more.',
  )
process.exitCode = allGood ? 0 : 1

function optionsOrLeave(): FleetOptions {
  try {
    return readOptions(process.argv.slice(2)) ?? leave(USAGE, 0)
  } catch (error) {
    return leave(`${(error as Error).message}\n\n${USAGE}`, 2)
  }
}

function perSecond(ms: number): string {
  return (1_000 / ms).toFixed(1).replace(/\.0$/, '')
}

function leave(text: string, code: number): never {
  if (code === 0) console.log(text)
  else console.error(text)
  process.exit(code)
}
