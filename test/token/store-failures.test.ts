/** A store that fails or returns invalid data: no call fails because of it, or waits for more than one operation. */
import { describe, expect, it } from 'vitest'
import { Fleet, failuresOf, type Process, quiet, sourcesOf } from '../store/fleet.ts'
import { answers, CODES, ERROR_TEXT, FAILURES, type Operation, slow } from '../store/memory-store.ts'
import { leaseHeldByAnother, longLived, renewedAfterRejection } from '../store/scenes.ts'
import { runProgram } from '../support/program.ts'
import { ENVIRONMENT, MERCHANT_URL, rejection, status } from './harness.ts'

const WAYS = ['throws', 'rejects', 'hangs'] as const
/** How long a call waits for the first operation of a process, and for a later one. */
const LIMITS_MS = { get: 2_000, lease: 1_000 }

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
    { operation: 'get', asked: ['get', 'get'] }, // and it waits until the store answers
    { operation: 'lease', asked: ['get', 'lease'] },
    { operation: 'set', asked: ['get', 'lease', 'get', 'get', 'set', 'release'] },
    { operation: 'release', asked: ['get', 'lease', 'get', 'get', 'set', 'release'] },
  ])(
    'fails no call, emits only a code, and ends the use of the store until the next acquisition: $operation',
    async ({ operation, asked }) => {
      const { fleet, provider, events } = fleetOf()
      fleet.store.faults[operation] = FAILURES[way]
      const waiting = provider.getToken()
      const isWaitedFor = way === 'hangs' && (operation === 'get' || operation === 'lease')
      expect(await fleet.tookMs(waiting)).toBe(isWaitedFor ? LIMITS_MS[operation] : 0)
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
      expect(fleet.store.operations).toEqual(['get', 'lease', 'get', 'get', 'set', 'release'])
      expect(failuresOf(events)).toHaveLength(1)
    },
  )

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

describe('a process whose first look at the store failed', () => {
  it('still writes the token that it then requests, once the store answers', async () => {
    const { fleet, provider } = fleetOf()
    const connected = fleet.clock.sleep(5_000)
    fleet.store.failAlways((run) => connected.then(run))
    expect(await fleet.tookMs(provider.getToken())).toBe(2_000)
    const token = provider.currentToken()?.value
    await fleet.pass(2_900)
    expect(fleet.store.keys).toEqual([])
    await fleet.pass(100)
    expect(fleet.store.entry(fleet.store.tokenKey)?.ttlMs).toBe(997_000) // counted from the request
    expect(await fleet.tokenOf()).toBe(token)
  })

  it('writes nothing after it was closed', async () => {
    const { fleet, provider } = fleetOf()
    const connected = fleet.clock.sleep(5_000)
    fleet.store.faults.get = (run) => connected.then(run)
    await fleet.tookMs(provider.getToken())
    expect(await fleet.tookMs(provider.close())).toBe(0)
    await fleet.pass(5_000)
    expect(fleet.store.keys).toEqual([])
  })
})

describe('a store that hangs', () => {
  /** Makes a call each second; resolves with how long (ms) those took that had to wait. */
  const waits = async (fleet: Fleet, call: () => Promise<unknown>): Promise<number[]> => {
    const tookMs: number[] = []
    for (let second = 0; second < 65; second += 1) {
      tookMs.push(await fleet.tookMs(call()))
      await fleet.skip(1_000)
    }
    return tookMs.filter((ms) => ms > 0)
  }

  it('holds up one call in 30 s at most while the token endpoint fails', async () => {
    const fleet = new Fleet()
    const { provider } = fleet.start({ retries: 0 })
    fleet.store.failAlways(FAILURES.hangs)
    fleet.endpoint.otherwise = status(503)
    expect(await waits(fleet, () => rejection(provider.getToken()))).toEqual([2_000, 1_000, 1_000])
  })

  it('holds up one call in 30 s at most while the rate limit allows no renewal', async () => {
    const fleet = longLived()
    const process = fleet.start()
    for (const seconds of [1, 2, 4, 8, 16, 32, 64, 128]) {
      expect(await renewedAfterRejection(fleet, process)).toBe(true)
      await fleet.skip(seconds * 1_000)
    }
    expect(await renewedAfterRejection(fleet, process)).toBe(true)
    fleet.store.failAlways(FAILURES.hangs)
    const token = await process.provider.getToken()
    await fleet.skip(1_000)
    const call = (): Promise<unknown> => process.provider.renewToken(token, { url: MERCHANT_URL })
    expect(await waits(fleet, call)).toEqual([1_000, 1_000, 1_000])
    expect(fleet.endpoint.count).toBe(10)
  })
})

describe('a slow store operation', () => {
  it('does not fail if it completes within the time limit', async () => {
    const { fleet, provider, events } = fleetOf()
    fleet.store.failAlways(slow(fleet.clock, 200))
    expect(await fleet.tookMs(provider.getToken())).toBe(800) // read, lease, read, read
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
  expect(fleet.store.operations).toEqual(['get', 'lease', 'get', 'get', 'set', 'release'])
  const emitted = { operation: 'get', code: 'UNREADABLE' }
  expect(sourcesOf(events)).toEqual(['endpoint'])
  expect(failuresOf(events)).toContainEqual(emitted)
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
