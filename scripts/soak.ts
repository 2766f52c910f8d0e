/**
 * Calls without end while the service fails in every way it can: each failed call must be explained by a fault.
 *
 * npm run soak -- --minutes 10 [--seed 1] [--record]
 */
import { parseArgs } from 'node:util'
import { startSandbox } from 'merchant-auth/testing'
import { Caller } from './soak/caller.ts'
import { Crew } from './soak/crew.ts'
import { Ledger, PLACES } from './soak/ledger.ts'
import { Mischief, pause } from './soak/mischief.ts'
import { Progress } from './soak/progress.ts'
import { Random } from './soak/random.ts'
import { heapUsed, listenersOf, Remains } from './soak/remains.ts'
import { inText, mebibytes, record } from './soak/report.ts'
import { problemsOf, type Results, rowsOf } from './soak/results.ts'
import { StallWatch } from './soak/stalls.ts'
import { Tally } from './soak/tally.ts'
import { Vault } from './soak/vault.ts'

const CALLERS = 40
const CREWS_PER_PLACE = 3
const WARM_UP_MS = 1_000
/** Faults end 5 s before the part in which none may fail any more. */
const HEALTHY_MS = 8_000
/** On a machine that stands still now and then it may take longer to see that all is well again. */
const MOST_RECOVERY_MS = 120_000
/** No call is ready to wait this long. */
const LAST_CALLS_MS = 60_000

const { values } = parseArgs({
  options: { minutes: { type: 'string' }, seed: { type: 'string' }, record: { type: 'boolean' } },
})
const durationMs = Number(values.minutes ?? '0.25') * 60_000
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 32))
if (!(durationMs >= WARM_UP_MS + HEALTHY_MS + 2_000) || !Number.isInteger(seed)) {
  console.error('Usage: npm run soak -- --minutes N (at least 0.2) [--seed N] [--record]')
  process.exit(2)
}

console.log(`A soak of ${durationMs / 60_000} min with ${CALLERS} callers. Seed ${seed}.\n`)
const remains = new Remains()
const random = new Random(seed)
const sandbox = await startSandbox()
const ledger = new Ledger(sandbox)
const tally = new Tally(ledger)
const stopped = new AbortController()
const shared = new AbortController().signal
const startedAt = Date.now()
const mischiefEndsAt = startedAt + durationMs - HEALTHY_MS
let mayLeave = false
let interrupted = false

const onInterrupt = (): void => {
  if (interrupted) process.exit(130)
  interrupted = true
  stopped.abort()
}
process.on('SIGINT', onInterrupt)

// The test environment rotates its secret; production has the token in another header.
sandbox.production.configure({ header: 'X-Api-Token', scheme: '' })
const all: Crew[] = []
const mischiefs = PLACES.map((place) => {
  const vault = new Vault(ledger, place, place === 'test')
  const crews: Crew[] = []
  const mischief = new Mischief(place, { random: random.fork(), ledger, crews })
  for (let nth = 0; nth < CREWS_PER_PLACE; nth += 1) {
    const crew = new Crew({
      name: `${place}-${nth + 1}`,
      place,
      vault,
      ledger,
      figures: tally.figures,
      random: random.fork(),
      attach: place === 'test' ? {} : { header: 'X-Api-Token', scheme: '' },
      onFailure: (inARow) => mischief.onFailure(inARow),
    })
    crews.push(crew)
    all.push(crew)
  }
  return mischief
})

const progress = new Progress(durationMs, () => {
  const { token } = tokenCounts()
  return [
    `${tally.calls} calls`,
    `${tally.explainedCount} failed and explained`,
    `${tally.unexplained} unexplained`,
    `${token} token requests`,
    `heap ${mebibytes(process.memoryUsage().heapUsed)}`,
  ].join(', ')
})
const stallWatch = new StallWatch(ledger)
const housekeeping = setInterval(() => {
  ledger.sweep()
  ledger.prune()
  if (mayLeave) for (const crew of all) crew.replaceIfOld()
}, 250)

// Calls, first without faults, then with, then without again.
let calling = 0
const callers = Array.from({ length: CALLERS }, async (_, nth) => {
  const crew = all[nth % all.length] as Crew
  calling += 1
  await new Caller({
    name: `call-${nth + 1}`,
    place: crew.place,
    crew,
    ledger,
    random: random.fork(),
    shared,
    mayLeave: () => mayLeave,
    onEnd: (call, story, got) => {
      stallWatch.look()
      tally.ended(call, story, got, crew.vault.secrets)
    },
  }).run(stopped.signal)
  calling -= 1
})
await pause(WARM_UP_MS, stopped.signal)
const heapAtStart = await heapUsed()
mayLeave = true
await Promise.all(mischiefs.map((mischief) => mischief.run(mischiefEndsAt, stopped.signal)))
mayLeave = false
await pause(startedAt + durationMs - Date.now(), stopped.signal)
const recoversBy = Date.now() + MOST_RECOVERY_MS
while (tally.observed < CALLERS && Date.now() < recoversBy && !stopped.signal.aborted)
  await pause(100, stopped.signal)
stopped.abort()
const patience = new AbortController()
await Promise.race([Promise.all(callers), pause(LAST_CALLS_MS, patience.signal)])
patience.abort()

// What is left of it.
const ranMs = Date.now() - startedAt
progress.end()
clearInterval(housekeeping)
stallWatch.end()
ledger.sweep()
const counts = tokenCounts()
await Promise.all(all.map((crew) => crew.close()))
const listenersLeft = listenersOf(shared)
await sandbox.close()
process.off('SIGINT', onInterrupt)
const handles = await remains.openHandles()
const { searched, leaks } = await tally.searchSamples()
ledger.clear()
const heapAtEnd = await heapUsed()
remains.end()

const results: Results = {
  tally,
  ledger,
  ranMs,
  seed,
  callers: CALLERS,
  calling,
  interrupted,
  counts,
  heapAtStart,
  heapAtEnd,
  listeners: [
    ...(listenersLeft > 0 ? [`${listenersLeft} on a signal that calls shared`] : []),
    ...remains.processListeners(),
  ],
  handles,
  remains,
  leaks,
  searched,
}
const rows = rowsOf(results)
const problems = problemsOf(results)
console.log(`\n${inText(rows)}\n`)
for (const told of [...tally.told, ...tally.figures.breaches.slice(0, 20), ...leaks.slice(0, 20)])
  console.log(`${told}\n`)
for (const reason of remains.unhandled.slice(0, 5)) console.log(reason)
console.log(problems.length === 0 ? 'All is well.' : `Not well: ${problems.join('; ')}.`)
if (interrupted) console.log('It was interrupted.')
if (values.record && problems.length === 0 && !interrupted) {
  record(new URL('../docs/faults.md', import.meta.url), rows)
  console.log('The figures are in docs/faults.md.')
}
process.exitCode = problems.length > 0 ? 1 : interrupted ? 130 : 0

function tokenCounts(): { token: number; unauthorized: number } {
  const [production, test] = [sandbox.production.counts, sandbox.test.counts]
  return {
    token: production.token + test.token,
    unauthorized: production.unauthorized + test.unauthorized,
  }
}
