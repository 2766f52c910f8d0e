/** A store that fails or returns invalid data: no call fails because of it, or waits for more than one operation. */
import { describe, expect, it } from 'vitest'
import { Fleet, failuresOf, type Process, quiet, sourcesOf } from '../store/fleet.ts'
import { answers, CODES, ERROR_TEXT, FAILURES, type Operation, slow } from '../store/memory-store.ts'
import { leaseHeldByAnother } from '../store/scenes.ts'
import { runProgram } from '../support/program.ts'
import { ENVIRONMENT } from './harness.ts'

const WAYS = ['throws', 'rejects', 'hangs'] as const
const fleetOf = (): { fleet: Fleet } & Process => {
  const fleet = new Fleet()
  return { fleet, ...fleet.start() }
}

/** The event that is emitted when an operation fails. */
const failure = (operation: Operation, way: (typeof WAYS)[number]) => ({
  operation: operation === 'release' ? 'lease' : operation,
  code: CODES[way],
})

describe.each(WAYS)('a store operation that %s', (way) => {
  it.each<{ operation: Operation; asked: Operation[] }>([
    { operation: 'get', asked: ['get'] },
    { operation: 'lease', asked: ['get', 'lease'] },
    { operation: 'set', asked: ['get', 'lease', 'get', 'set', 'release'] },
    { operation: 'release', asked: ['get', 'lease', 'get', 'set', 'release'] },
  ])(
    'fails no call, emits only a code, and ends the use of the store until the next acquisition: $operation',
    async ({ operation, asked }) => {
      const { fleet, provider, events } = fleetOf()
      fleet.store.faults[operation] = FAILURES[way]
      const waiting = provider.getToken()
      const isWaitedFor = way === 'hangs' && (operation === 'get' || operation === 'lease')
      expect(await fleet.tookMs(waiting)).toBe(isWaitedFor ? 1_000 : 0)
      expect(await waiting).toBe(provider.currentToken())
      await fleet.pass(1_500)
      expect(fleet.store.operations).toEqual(asked)
      expect([sourcesOf(events), failuresOf(events)]).toEqual([['endpoint'], [failure(operation, way)]])
      expect(fleet.clock.sleeping).toBe(0)
      for (const word of ['v1.', ...ERROR_TEXT.split(/\W+/).filter(({ length }) => length > 2)])
        expect(JSON.stringify(events)).not.toContain(word)
      fleet.store.faults[operation] = undefined
      await fleet.skip(1_000_000)
      fleet.store.asked.length = 0
      await provider.getToken()
      await quiet()
      expect(fleet.store.operations).toEqual(['get', 'lease', 'get', 'set', 'release'])
      expect(failuresOf(events)).toHaveLength(1)
    },
  )

  it('in the read under the lease leads to a token that is not written to the store', async () => {
    const { fleet, provider, events } = fleetOf()
    fleet.store.faults.lease = (run) => {
      fleet.store.faults.get = FAILURES[way]
      return run()
    }
    expect(await fleet.tookMs(provider.getToken())).toBe(way === 'hangs' ? 1_000 : 0)
    await quiet()
    expect(fleet.store.operations).toEqual(['get', 'lease', 'get', 'release'])
    expect([fleet.store.keys, fleet.store.leased]).toEqual([[], 0])
    expect(failuresOf(events)).toEqual([failure('get', way)])
  })

  it.each<Operation>(['get', 'lease'])("ends the wait for another process's token: %s", async (operation) => {
    const { fleet } = await leaseHeldByAnother(60_000)
    const { provider, events } = fleet.start()
    const waiting = provider.getToken()
    await fleet.pass(500)
    fleet.store.faults[operation] = FAILURES[way]
    expect(await fleet.tookMs(waiting)).toBeLessThanOrEqual(50 + 1_000)
    expect([sourcesOf(events), failuresOf(events)]).toEqual([['endpoint'], [failure(operation, way)]])
  })
})

it.each([undefined, 'test'])(
  'store-failed has exactly the documented fields, with environment: %s',
  async (environment) => {
    const fleet = new Fleet()
    fleet.store.faults.get = FAILURES.rejects
    const { provider, events } = fleet.start({ environment: { ...ENVIRONMENT, name: environment } })
    await provider.getToken()
    const emitted = { type: 'store-failed', operation: 'get', code: 'ECONNREFUSED' }
    expect(events[0]).toEqual({ ...emitted, ...(environment && { environment }) })
  },
)

describe('a slow store operation', () => {
  it('does not fail if it completes within the time limit', async () => {
    const { fleet, provider, events } = fleetOf()
    fleet.store.failAlways(slow(fleet.clock, 200))
    expect(await fleet.tookMs(provider.getToken())).toBe(600) // read, lease, read
    await fleet.pass(400)
    const other = fleet.start()
    expect(await fleet.tookMs(other.provider.getToken())).toBe(200)
    expect([...failuresOf(events), ...failuresOf(other.events)]).toEqual([])
    expect([fleet.endpoint.count, fleet.store.leased]).toEqual([1, 0])
  })
})

it('an entry that cannot be decrypted counts as absent, emits store-failed, and is replaced', async () => {
  const { fleet, provider, events } = fleetOf()
  fleet.store.faults.get = answers({ value: 'text', ttlMs: 500_000 })
  await provider.getToken()
  await quiet()
  expect(fleet.store.operations).toEqual(['get', 'lease', 'get', 'set', 'release'])
  const emitted = { operation: 'get', code: 'UNREADABLE' }
  expect([sourcesOf(events), failuresOf(events)]).toEqual([['endpoint'], [emitted, emitted]])
  fleet.store.faults.get = undefined
  const other = fleet.start()
  await other.provider.getToken()
  expect(sourcesOf(other.events)).toEqual(['store'])
})

/** Runs a program whose provider has the store `{ get, set, ...store }`; resolves with output and exit code. */
const run = (store: string, work: string) =>
  runProgram(`
    const hang = () => new Promise(() => {})
    const tokens = createTokenProvider({
      environment: { authUrl: 'https://a.example', audience: 'b', apiUrls: ['https://c.example'] },
      clientId: 'c', clientSecret: 'swordfish',
      store: { get: async () => undefined, set: async () => {}, ...${store} },
      timeoutMs: 2_000,
      fetch: async () => Response.json({ access_token: 'a', expires_in: 600, token_type: 'bearer' }),
    })
    ${work}`)

const GET = "await tokens.getToken(); console.log('token')"
const CLOSE = "await tokens.close(); console.log('closed')"

describe.concurrent('a process with a store', () => {
  const others = '{ lease: async () => (looks += 1) > 5 ? async () => {} : undefined }'
  it.each([
    ['stays alive while a call waits for a store that hangs', '{ get: hang }', GET, 'token'],
    ['stays alive while a call waits for another process', others, `globalThis.looks = 0; ${GET}`, 'token'],
    ['is not kept alive by a write that hangs', '{ set: hang }', GET, 'token'],
    ['stays alive while close() waits for a store', '{ set: hang }', `${GET}; ${CLOSE}`, 'token\nclosed'],
  ])('%s', async (_, store, work, said) => {
    expect(await run(store, work)).toEqual({ said, code: 0 })
  })
})
