/** What one call costs without a network, and whether it costs the same with ten thousand calls in flight. */
import { costSection, type Group, measureGroups, type Result, ratioToBaseline } from '../call-cost.ts'
import { contenders } from '../contenders/index.ts'
import { shown } from '../numbers.ts'
import { type Check, isAgainst, isCheck, runPart, type Section } from '../part.ts'
import { startService } from '../service.ts'
import { gate, stubTransport } from '../stub.ts'

const ROUNDS = { rounds: isCheck ? 25 : 121, sliceMs: isCheck ? 8 : 10, warmUpMs: isCheck ? 200 : 400 }
const ONE_BY_ONE: readonly Group[] = [
  {
    title: 'axios, no-op adapter',
    clients: ['axios'],
    transport: stubTransport,
    limits: { attachAuth: 1.03 },
    tolerance: 1.04,
  },
  {
    title: 'fetch, a stub that builds a Response',
    clients: ['fetch', 'other'],
    transport: stubTransport,
    // In a process with two clients, V8 compiles a faster baseline than in one with ten.
    ...(isCheck && { only: ['createAuthFetch', 'handwritten fetch', 'auth0', '@badgateway/oauth2-client'] }),
    limits: { createAuthFetch: 2.1 },
    tolerance: 1.15, // a tenth of a microsecond, which depends on what runs beside it
  },
  { title: 'undici, no-op dispatcher', clients: ['undici'], transport: stubTransport, tolerance: 1.1 },
]

const SIZES = [1, 100, 10_000]
const IN_FLIGHT = [
  { client: 'axios', names: ['attachAuth', 'handwritten interceptor', 'axios-token-interceptor'] },
  { client: 'fetch', names: ['createAuthFetch', 'handwritten fetch', '@badgateway/oauth2-client', 'auth0'] },
] as const

async function cost(): Promise<Section[]> {
  const { service, close } = await startService()
  const results = await measureGroups(ONE_BY_ONE, { service, rounds: ROUNDS })
  const inFlight: Result[] = []
  const checks: Check[] = []
  for (const { client, names } of isAgainst || isCheck ? [] : IN_FLIGHT) {
    const bySize: Result[] = []
    for (const size of SIZES) {
      const group: Group = {
        title: `${client}, ${shown(size)} in flight`,
        clients: [client],
        only: names,
        inFlight: size,
        transport: () => stubTransport(gate(size)),
        tolerance: 1.3,
      }
      // A run is at least one batch: a large one of axios takes 300 ms.
      const isLong = client === 'axios' && size > 1
      const rounds = { rounds: isLong ? 15 : 41, sliceMs: 8, warmUpMs: isLong ? 100 : 200 }
      bySize.push(...(await measureGroups([group], { service, rounds })))
    }
    inFlight.push(...bySize)
    const [first = Number.NaN, last = Number.NaN] = [bySize[0], bySize.at(-1)].map(
      (result) => result && ratioToBaseline(result, names[0]).ratio,
    )
    checks.push({
      name: `${names[0]}: ratio to the baseline with 10 000 calls in flight by that with one`,
      value: last / first,
      limit: 1.25,
      tolerance: 1.3, // a busy machine measured 0.89 to 1.36 for the same code
    })
  }
  await close()
  const oneByOneSection = costSection(
    {
      title: 'Cost of a call without a network',
      intro:
        'CPU time of a call with a valid token, with a stub in place of the network: the code around the call, and nothing else.',
      notes: contenders.flatMap(({ name, note }) => (note ? [`${name}: ${note}.`] : [])),
    },
    results,
  )
  const inFlightSection = costSection(
    {
      title: 'Calls in flight',
      intro:
        'The same with so many calls in flight: the stub answers no call of a batch before all of them have arrived. ' +
        'Where the ratio stays the same, waiting calls do not slow each other down.',
    },
    inFlight,
  )
  return [oneByOneSection, { ...inFlightSection, checks }]
}

await runPart(import.meta, cost)
