/**
 * Calls without end while the service fails in every way it can: each failed call must be explained by a fault.
 *
 * npm run soak -- --minutes 10 [--seed 1]
 */
import { getEventListeners } from 'node:events'
import { inspect, parseArgs } from 'node:util'
import { startSandbox } from 'merchant-auth/testing'
import { findLeaks } from '../test/support/leaks.ts'
import { Random } from '../test/support/random.ts'
import { makeCall } from './soak/call.ts'
import { Clients, ProviderFigures } from './soak/clients.ts'
import { heapUsed, Remains, StallWatch } from './soak/machine.ts'
import { breachOf, type EndedCall, explain } from './soak/oracle.ts'
import { Counts, PLACES, pause, Records, Service } from './soak/service.ts'

/** Callers that share a provider. */
interface Group {
  clients: Clients
  replaceAt: number
}

const CALLERS = 40
const CLIENTS_PER_PLACE = 3
const WARM_UP_MS = 1_000
/** Nothing goes wrong in the last part, in which no call may fail once the troubles are over for good. */
const HEALTHY_MS = 8_000
/** On a slow machine it may take longer to see that all is well again. */
const MOST_RECOVERY_MS = 120_000
const LAST_CALLS_MS = 60_000
/** A provider renews less and less often while its tokens are rejected: it is replaced before it renews no more. */
const PROVIDER_LIFE_MS = [4_000, 20_000] as const
/** Code that is compiled and caches that fill may take this much. */
const MOST_GROWTH_BYTES = 10 * 1024 * 1024
const MOST_SAMPLES = 120

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '0.25' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 32)) },
  },
})
const durationMs = Number(values.minutes) * 60_000
const seed = Number(values.seed)
if (!(durationMs >= WARM_UP_MS + HEALTHY_MS + 2_000)) throw new Error('--minutes must be at least 0.2')

console.log(`A soak of ${durationMs / 60_000} min with ${CALLERS} callers. Seed ${seed}.\n`)
using remains = new Remains()
using stalls = new StallWatch()
const random = new Random(seed)
const startedAt = Date.now()
const troubleEndsAt = startedAt + durationMs - HEALTHY_MS
const sandbox = await startSandbox()
sandbox.production.configure({ header: 'X-Api-Token', scheme: '' })
const records = new Records(sandbox)
const troubles = new Counts()
const services = PLACES.map(
  (place) => new Service(place, { sandbox, records, troubles, random: random.fork() }),
)
const figures = new ProviderFigures()
const groups: Group[] = Array.from({ length: CLIENTS_PER_PLACE * services.length }, (_, nth) => ({
  clients: new Clients(services[nth % services.length] as Service, figures, random),
  replaceAt: startedAt + random.between(...PROVIDER_LIFE_MS),
}))
const closing: Promise<void>[] = []
const stopped = new AbortController()
const shared = new AbortController().signal
const explained = new Counts()
const problems: string[] = []
/** What callers got, to be searched for secrets at the end. */
const samples: { readonly what: string; readonly got: unknown; readonly secrets: readonly string[] }[] = []
let [calls, succeeded, recovered, slowestMs, calling] = [0, 0, 0, 0, 0]
let mayLeave = false

// Calls, first without faults, then with, then without again.
const callers = Array.from({ length: CALLERS }, (_, nth) => callOnAndOn(nth))
const progress = setInterval(() => {
  const seconds = Math.round((Date.now() - startedAt) / 1_000)
  console.log(`${seconds} s: ${calls} calls, ${calls - succeeded} failed, ${problems.length} problems`)
}, 5_000)
await pause(WARM_UP_MS)
const heapAtStart = await heapUsed()
mayLeave = true
await Promise.all(services.map((service) => service.run(troubleEndsAt)))
mayLeave = false
await pause(startedAt + durationMs - Date.now())
const recoversBy = Date.now() + MOST_RECOVERY_MS
while (recovered < CALLERS && Date.now() < recoversBy) await pause(100)
stopped.abort()
const patience = new AbortController()
await Promise.race([Promise.all(callers), pause(LAST_CALLS_MS, patience.signal)])
patience.abort()
clearInterval(progress)
stalls[Symbol.dispose]()

// What is left of it.
records.sweep()
const counts = [sandbox.production.counts, sandbox.test.counts]
const unauthorized = counts.reduce((sum, count) => sum + count.unauthorized, 0)
const requested = counts.reduce((sum, count) => sum + count.token, 0)
await Promise.all([...closing, ...groups.map(({ clients }) => clients.close())])
await sandbox.close()
const handles = await remains.openHandles()
const searched = samples.length + 1
const secrets = samples.flatMap((sample) => sample.secrets)
for (const sample of [...samples.splice(0), { what: 'events', got: figures.events.splice(0), secrets }])
  for (const where of findLeaks(sample.got, new Set(sample.secrets)))
    problems.push(`A secret in ${sample.what}: ${where}`)
const heapAtEnd = await heapUsed()
const sharedListeners = getEventListeners(shared, 'abort').length

problems.push(...figures.breaches)
if (calling > 0) problems.push(`${calling} callers wait for their last call`)
if (recovered === 0) problems.push('No call ended after the recovery')
if (heapAtEnd - heapAtStart > MOST_GROWTH_BYTES) problems.push('The heap grew')
if (sharedListeners > 0) problems.push(`${sharedListeners} listeners left on a signal that calls share`)
if (handles.length > 0) problems.push(`Open handles left: ${handles.join(', ')}`)
problems.push(...remains.warnings, ...remains.unhandled.map((reason) => `Unhandled rejection: ${reason}`))

const { expiring, rejected } = figures.renewed
console.log(`
${calls} calls by ${CALLERS} callers, ${succeeded} succeeded, ${recovered} of them after the recovery; the slowest took ${slowestMs} ms
failed and explained: ${explained}
faults met: ${records.faultsMet}
troubles: ${troubles}
${requested} token requests by ${figures.providers} providers, ${figures.failedAttempts} failed
${unauthorized} 401s, ${figures.suppressed} of them without a renewal
${expiring} renewals in the background, ${rejected} after a rejection
heap: ${mebibytes(heapAtStart)}, at the end ${mebibytes(heapAtEnd)}; ${searched} errors and answers searched for secrets`)
for (const problem of problems.slice(0, 20)) console.log(`\n${problem}`)
console.log(problems.length === 0 ? '\nAll is well.' : `\n${problems.length} problems.`)
process.exitCode = problems.length > 0 ? 1 : 0

async function callOnAndOn(nth: number): Promise<void> {
  const group = groups[nth % groups.length] as Group
  const own = random.fork()
  calling += 1
  for (let made = 1; !stopped.signal.aborted; made += 1) {
    if (mayLeave && Date.now() >= group.replaceAt) replace(group)
    const { clients } = group
    const id = `call-${nth + 1}-${made}`
    const { call, got } = await makeCall(clients, { id, random: own, shared, mayLeave })
    const stalledMs = (from: number, to: number): number => stalls.stalledMs(from, to)
    // A redirect may have led it to the other environment.
    const places = new Set([call.place, ...call.arrivals.map(({ place }) => place)])
    const met = services.filter(({ place }) => places.has(place)).flatMap((service) => service.troubles)
    note({ ...call, troubles: met, stalledMs }, clients, got)
    await pause(own.between(40, 160), stopped.signal)
  }
  calling -= 1
}

/** Callers may still wait for the provider that is closed. */
function replace(group: Group): void {
  closing.push(group.clients.close())
  group.clients = new Clients(group.clients.service, figures, random)
  group.replaceAt = Date.now() + random.between(...PROVIDER_LIFE_MS)
}

function note(call: EndedCall, { service, tokens }: Clients, got: unknown): void {
  calls += 1
  slowestMs = Math.max(slowestMs, call.endedAt - call.startedAt)
  if (call.startedAt > Math.max(troubleEndsAt, service.recoveredAt)) recovered += 1
  const breach = breachOf(call)
  if (breach !== undefined) problems.push(breach)
  const { outcome } = call
  if (outcome.kind === 'ok') {
    succeeded += 1
    return
  }
  const why = explain(call)
  if (why !== undefined) explained.add(why)
  else problems.push(`Nothing explains this failure: ${inspect(call, { depth: 5 })}\n${String(got)}`)
  if (samples.length < MOST_SAMPLES)
    samples.push({ what: `${call.id}, ${call.client}`, got, secrets: [...service.secrets, ...tokens] })
}

function mebibytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`
}
