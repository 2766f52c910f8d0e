/** The outcomes in tables: on the screen, and on the page of the docs. */
import { readFileSync } from 'node:fs'
import { type Outcome, PHASES, type Waits } from './figures.ts'
import { type Scenario, type SimulationOptions, VARIANTS } from './scenario.ts'

type Cell = string | undefined
type Row = readonly [what: string, ...cells: string[]]

/** Everything, of the fleet to which everything happens. `outcomes` in the order of the variants. */
export function rowsOf(scenario: Scenario, outcomes: readonly Outcome[]): Row[] {
  const lifetimes = scenario.durationMs / scenario.lifetimeMs
  const row = (what: string, cell: (outcome: Outcome) => Cell): Row => [
    what,
    ...outcomes.map((outcome) => cell(outcome) ?? '–'),
  ]
  const shared = (what: string, cell: (outcome: Outcome) => string): Row =>
    row(what, (outcome) => (outcome.redisCommands === 0 ? undefined : cell(outcome)))
  const leased = (what: string, cell: (outcome: Outcome) => string): Row =>
    row(what, (outcome) => (outcome.leases === 0 ? undefined : cell(outcome)))
  return [
    row('token requests', ({ requests }) => count(requests)),
    row('– for each lifetime of a token', ({ requests }) => rate(requests / lifetimes)),
    row('– while Redis was down', ({ outageRequests }) => count(outageRequests)),
    row('– for each lifetime, Redis being up', ({ requests, outageRequests }) =>
      rate((requests - outageRequests) / lifetimes),
    ),
    row('– most in a minute', ({ requestsPerMinute }) => count(Math.max(...requestsPerMinute))),
    row('calls', ({ calls }) => count(calls)),
    row('– failed', ({ failed }) => count(failed)),
    row('– still waiting after a minute', ({ forgotten }) => count(forgotten)),
    row('– got an expired token', ({ expired }) => count(expired)),
    row('– waited for a token', ({ waits }) =>
      count(PHASES.reduce((sum, phase) => sum + waits[phase].calls, 0)),
    ),
    row('half of those waited at most', ({ medianWaitMs }) => duration(medianWaitMs)),
    row('99 % of those waited at most', ({ longWaitMs }) => duration(longWaitMs)),
    ...PHASES.map((phase) => row(`longest wait: ${phase}`, ({ waits }) => longest(waits[phase]))),
    row('– in a process that itself stood still', ({ standing }) => longest(standing)),
    row('calls that failed in such a process', ({ failedStanding }) => count(failedStanding)),
    shared('tokens taken from the store', ({ fromStore }) => count(fromStore)),
    shared('an older token took the place of a newer one', ({ olderWritten }) => count(olderWritten)),
    shared('calls with a token that was not the newest', ({ older }) => count(older)),
    shared('store operations that failed', ({ storeFailures }) => count(storeFailures)),
    shared('Redis commands', ({ redisCommands }) => count(redisCommands)),
    shared('– most in a second', ({ redisPeakPerSecond }) => count(redisPeakPerSecond)),
    row('processes replaced', ({ restarts }) => count(restarts)),
    shared('stood still while getting a token', ({ paused }) => count(paused)),
    shared('crashed while getting a token', ({ crashed }) => count(crashed)),
    leased('leases taken', ({ leases }) => count(leases)),
    leased('– lost', ({ leasesLost }) => count(leasesLost)),
  ]
}

/** What matters of the busy fleet. */
export function busyRowsOf(outcomes: readonly Outcome[]): Row[] {
  const row = (what: string, cell: (outcome: Outcome) => Cell): Row => [
    what,
    ...outcomes.map((outcome) => cell(outcome) ?? '–'),
  ]
  return [
    row('token requests in the first minute', ({ requestsPerMinute: [first = 0] }) => count(first)),
    row('token requests after that', ({ requests, requestsPerMinute: [first = 0] }) =>
      count(requests - first),
    ),
    row('longest wait of a call', ({ waits }) =>
      duration(Math.max(...PHASES.map((phase) => waits[phase].longestMs))),
    ),
    row('calls', ({ calls }) => count(calls)),
    row('– failed', ({ failed }) => count(failed)),
    row('most Redis commands in a second', ({ redisPeakPerSecond }) =>
      redisPeakPerSecond === 0 ? undefined : count(redisPeakPerSecond),
    ),
  ]
}

export function inText(rows: readonly Row[]): string {
  const table: Row[] = [['', ...VARIANTS], ...rows]
  const widths = [0, 1, 2, 3].map((at) => Math.max(...table.map((row) => (row[at] ?? '').length)))
  const padded = (cell: string, at: number): string =>
    at === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[at] ?? 0)
  return table.map((row) => row.map(padded).join('  ').trimEnd()).join('\n')
}

function inMarkdown(rows: readonly Row[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [line(['', ...VARIANTS]), '| --- | ---: | ---: | ---: |', ...rows.map(line)].join('\n')
}

/** A whole page. */
export function pageOf(
  options: SimulationOptions,
  { rows, busyRows, busy }: { rows: readonly Row[]; busyRows: readonly Row[]; busy: SimulationOptions },
): string {
  const { providers, hours, lifetimeSeconds, callEverySeconds, seed } = options
  return `# A day of a fleet, simulated

\`npm run simulate\` runs the package's own provider and Redis store in ${count(providers)} simulated processes over ${hours} simulated
hours, three times: without a store, with a store that has no lease, and with \`merchant-auth/redis\` as it is. Time, network,
Redis and the token endpoint are simulated: each process has clocks of its own that are wrong by minutes or hours and is called
every ${callEverySeconds} s on average, at random; the token endpoint takes 80 to 400 ms and gives tokens of ${lifetimeSeconds / 60} minutes; Redis takes
0.2 to 5 ms. All processes start together and know nothing. Three times a day all of them are replaced within half an hour. A
quarter of the processes that have the lease (or ask, without one) stand still for 10.5 to 40 s in the middle of it, longer than the lease
lasts, and a tenth of them crash. For half an hour Redis answers nothing, at the worst moment: when the fleet's token falls
due. Then it is back, and empty.

![Token requests and longest waits in each hour, for the three ways](fleet-simulation.svg)

${inMarkdown(rows)}

While Redis is down each process whose token falls due asks by itself, once: that is the price of an outage, and no call fails
for it. A token that is not the newest is still a valid one. Calls without a token wait for somebody who has died with the lease
in hand for as long as it lasts, 10 s, and a second for the one who has it next; then their process asks by itself.
Without a lease, a process that stands still just before it writes leaves its token in the store for longer than that lives, or puts
it in the place of a newer one.

## Under steady load

The same fleet, each process being called every ${busy.callEverySeconds === 1 ? 'second' : `${busy.callEverySeconds} s`} on average, for ${busy.hours === 1 ? 'an hour' : `${busy.hours} hours`} in which nothing is replaced and nothing goes
wrong. Without a lease all those ask who find no fresh token before the first one has written its own.

${inMarkdown(busyRows)}

Made by \`npm run simulate\` on ${new Date().toISOString().slice(0, 10)} with Node.js ${process.versions.node}, merchant-auth ${ownVersion()}, seed ${seed}.
`
}

function count(number: number): string {
  return String(number).replace(/\B(?=(\d{3})+$)/g, '\u00a0')
}

function rate(number: number): string {
  return number < 100 ? number.toFixed(1) : count(Math.round(number))
}

function longest({ calls, longestMs }: Waits): Cell {
  return calls === 0 ? undefined : duration(longestMs)
}

function duration(ms: number): string {
  return ms < 10
    ? `${ms.toFixed(1)} ms`
    : ms < 1_000
      ? `${Math.round(ms)} ms`
      : `${(ms / 1_000).toFixed(1)} s`
}

function ownVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  return String((manifest as { version?: unknown }).version)
}
