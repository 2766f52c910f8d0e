/**
 * The tables of bench/QUOTAS.md: 96 simulated hours of processes whose token endpoint counts refused requests, too, and says
 * nothing but 429. No tool knows the rules that are simulated; the simulation is that of test/token.
 *
 * npm run quotas
 */
import { Fleet } from '../test/store/fleet.ts'
import { Random } from '../test/support/random.ts'
import {
  DAY_MS,
  HOUR_MS,
  MINUTE_MS,
  type Outcome,
  type Service,
  type SetUp,
  simulate,
} from '../test/token/spent-quota.ts'

const HOURS = 96
const HOUR_AND_DAY: Service = {
  quotas: [
    [10, HOUR_MS],
    [50, DAY_MS],
  ],
  lifetimeS: 86_400,
}
const HALF_DAY: Service = { quotas: [[50, 12 * HOUR_MS]], lifetimeS: 3_600 }

type Row = readonly [name: string, setUp: { readonly processes: number; readonly shared?: boolean }]
const ONE: Row = ['1', { processes: 1 }]
const SEPARATE: readonly Row[] = [
  ['2 without a store', { processes: 2 }],
  ['4 without a store', { processes: 4 }],
]
const SHARED: Row = ['2 or 4 with a store', { processes: 4, shared: true }]

/** Each with fixed windows, then with sliding ones. */
const bothWindows = (service: Service): readonly Service[] => [service, { ...service, sliding: true }]

async function outcomeOf(setUp: SetUp): Promise<Outcome> {
  const random = new Random(1)
  Math.random = () => random.next()
  return await simulate({ ...setUp, hours: HOURS })
}

function inTime(minutes: number): string {
  if (minutes < 1) return 'none'
  return minutes < 5 * 60 ? `${Math.round(minutes)} min` : `${Math.round(minutes / 60)} h`
}

async function printRow([name, ...setUps]: [string, ...SetUp[]], cellOf: (outcome: Outcome) => string) {
  const cells: string[] = []
  for (const setUp of setUps) cells.push(cellOf(await outcomeOf(setUp)))
  console.log(`| ${[name, ...cells].join(' | ')} |`)
}

function printHead(first: string, columns: readonly string[]): void {
  console.log(`\n| ${[first, ...columns].join(' | ')} |\n|---|${'---:|'.repeat(columns.length)}`)
}

await new Fleet().begin() // loads what a provider imports on first use, which takes real time

printHead('processes', [
  'the hour is spent: fixed windows',
  'sliding windows',
  'the day is spent: fixed windows',
  'sliding windows',
])
const recovery = ({ recoveredMin, requests }: Outcome): string =>
  `${recoveredMin === undefined ? '**never**' : inTime(recoveredMin)}, ${requests}`
const afterDeployment = (service: Service, setUp: Row[1]): SetUp[] =>
  [10, 50].flatMap((spent) => bothWindows(service).map((each) => ({ ...setUp, service: each, spent })))
for (const [name, setUp] of [ONE, ...SEPARATE, SHARED])
  await printRow([name, ...afterDeployment(HOUR_AND_DAY, setUp)], recovery)
const saysWhen = afterDeployment({ ...HOUR_AND_DAY, saysWhen: 'retry-after' }, { processes: 4 })
await printRow(['4 without a store, with an exact `Retry-After`', ...saysWhen], recovery)

printHead('processes', [
  '10 an hour and 50 a day, tokens of 24 h: fixed windows',
  'sliding windows',
  '50 in 12 h, tokens of 1 h: fixed windows',
  'sliding windows',
])
const callsWithoutToken = (processes: number) => (outcome: Outcome) => {
  const calls = (processes * HOURS * HOUR_MS) / (MINUTE_MS / 6)
  return `${Math.round((100 * outcome.failedCalls) / calls)} %, ${inTime(outcome.downMin)}, ${outcome.requests}`
}
for (const [name, setUp] of [ONE, ...SEPARATE, SHARED]) {
  const services = [HOUR_AND_DAY, HALF_DAY].flatMap(bothWindows)
  const setUps = services.map((service): SetUp => ({ ...setUp, service, spent: 0, rejects: true }))
  await printRow([name, ...setUps], callsWithoutToken(setUp.processes))
}
