/** The queue of a store: how many operations are under way, how long each may take, and what one that hangs stops. */
import type { Clock } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { queueOf, StoreQueue, shareQueue } from '../../src/store/operation-queue.ts'
import { ManualClock, settled } from '../support/clock.ts'
import { rejection, rig, ScriptedEndpoint } from '../token/harness.ts'
import { MemoryStore, slow } from './memory-store.ts'

const LIMIT_MS = 1_000
/** With 200 ms for each operation, the last of them waits for 5 s. */
const CLIENTS = 200

/** A queue, and the operations that have begun in it, which end when the test says so. */
function begun({ slots = 2, clock = new ManualClock() as Clock } = {}) {
  const queue = new StoreQueue(slots)
  const started: PromiseWithResolvers<string>[] = []
  const add = ({ isUrgent = false, closed }: { isUrgent?: boolean; closed?: AbortSignal } = {}) => {
    const run = (): Promise<string> => {
      const operation = Promise.withResolvers<string>()
      started.push(operation)
      return operation.promise
    }
    return queue.run({ run, limitMs: LIMIT_MS, isUrgent, closed }, clock)
  }
  return { queue, started, add }
}

const timedOut = { code: 'ETIMEDOUT', message: 'The token store did not answer in time' }

describe('operations', () => {
  it('wait for a slot, in order, and get what they return', async () => {
    const { add, started } = begun()
    const results = [add(), add(), add(), add()]
    await settled()
    expect(started).toHaveLength(2)
    started[1]?.resolve('second')
    await settled()
    started[2]?.resolve('third')
    await settled()
    expect(started).toHaveLength(4)
    started[0]?.resolve('first')
    started[3]?.resolve('fourth')
    expect(await Promise.all(results)).toEqual(['first', 'second', 'third', 'fourth'])
  })

  it('that fail free their slots for those that wait, and reject with their own error', async () => {
    const { queue, add, started } = begun({ slots: 1 })
    const failing = rejection(add())
    const waiting = [add(), add()]
    await settled()
    started[0]?.reject(new Error('lost'))
    expect(await failing).toMatchObject({ message: 'lost' })
    await settled()
    started[1]?.resolve('second')
    await settled()
    started[2]?.resolve('third')
    expect(await Promise.all(waiting)).toEqual(['second', 'third'])
    const throwing = {
      run: (): Promise<void> => {
        throw new Error('thrown')
      },
      limitMs: LIMIT_MS,
      isUrgent: false,
    }
    expect(await rejection(queue.run(throwing, new ManualClock()))).toMatchObject({ message: 'thrown' })
    add()
    await settled()
    expect(started).toHaveLength(4)
  })

  it('have their whole time from their start, however long they waited', async () => {
    const clock = new ManualClock()
    const { add, started } = begun({ slots: 1, clock })
    const first = add()
    const second = rejection(add())
    await clock.advance(LIMIT_MS - 1)
    started[0]?.resolve('in time')
    await clock.advance(LIMIT_MS - 1)
    expect([await first, started.length]).toEqual(['in time', 2])
    await clock.advance(1)
    expect(await second).toMatchObject(timedOut)
    expect(clock.sleeping).toBe(0)
  })

  it('wait for a minute at most', async () => {
    const clock = new ManualClock()
    const queue = new StoreQueue(1)
    const never = { run: () => new Promise<void>(() => {}), isUrgent: false }
    queue.run({ ...never, limitMs: 100_000 }, clock).catch(() => {})
    let wasStarted = false
    const run = async (): Promise<void> => {
      wasStarted = true
    }
    const waiting = rejection(queue.run({ ...never, run, limitMs: LIMIT_MS }, clock))
    await clock.advance(60_000)
    expect(await waiting).toMatchObject(timedOut)
    await clock.advance(100_000)
    expect([wasStarted, clock.sleeping]).toEqual([false, 0])
  })

  it('that wait for a slot end with their provider, and leave it to others', async () => {
    const clock = new ManualClock()
    const { add, started } = begun({ slots: 1, clock })
    const first = add()
    const closing = new AbortController()
    const closed = rejection(add({ closed: closing.signal }))
    const third = add()
    await settled()
    const reason = new Error('closed')
    closing.abort(reason)
    expect(await closed).toBe(reason)
    expect(await rejection(add({ closed: closing.signal }))).toBe(reason)
    started[0]?.resolve('first')
    await settled()
    started[1]?.resolve('third')
    expect([await first, await third, started.length, clock.sleeping]).toEqual(['first', 'third', 2, 0])
  })
})

describe('while an operation hangs', () => {
  /** One of two operations has timed out. `answered`: another one ended before. */
  const hanging = async ({ answered = false, slots = 2 } = {}) => {
    const clock = new ManualClock()
    const made = begun({ clock, slots })
    if (answered) {
      const first = made.add()
      await settled()
      made.started.shift()?.resolve('first')
      await first
    }
    const hangs = rejection(made.add())
    await clock.advance(LIMIT_MS)
    expect(await hangs).toMatchObject(timedOut)
    return { clock, ...made }
  }

  it('no further one begins, and none is waited for', async () => {
    const { add, started, clock } = await hanging()
    expect(await rejection(add())).toMatchObject(timedOut)
    expect([started.length, clock.sleeping]).toEqual([1, 0])
  })

  it('those that wait for a slot are not waited for any more', async () => {
    const clock = new ManualClock()
    const { add, started } = begun({ slots: 1, clock })
    const all = [add(), add(), add()].map((operation) => rejection(operation))
    await clock.advance(LIMIT_MS)
    expect(await Promise.all(all)).toMatchObject([timedOut, timedOut, timedOut])
    expect([started.length, clock.sleeping]).toEqual([1, 0])
  })

  it('an urgent one begins if the store has never answered', async () => {
    const { add, started } = await hanging()
    const urgent = add({ isUrgent: true })
    await settled()
    expect(started).toHaveLength(2)
    started[1]?.resolve('written')
    expect(await urgent).toBe('written')
    expect(await rejection(add({ isUrgent: true }))).toMatchObject(timedOut) // now it has
  })

  it('no urgent one begins if the store has answered before, or if it has to wait for a slot', async () => {
    for (const { add, started } of [await hanging({ answered: true }), await hanging({ slots: 1 })]) {
      expect(await rejection(add({ isUrgent: true }))).toMatchObject(timedOut)
      expect(started).toHaveLength(1)
    }
  })

  it.each(['resolves', 'rejects'])('they do again as soon as it %s', async (how) => {
    const { add, started } = await hanging()
    if (how === 'resolves') started[0]?.resolve('late')
    else started[0]?.reject(new Error('late'))
    await settled()
    const next = add()
    await settled()
    started[1]?.resolve('next')
    expect(await next).toBe('next')
  })

  it('all that hang have to end first', async () => {
    const clock = new ManualClock()
    const { add, started } = begun({ clock })
    const both = [rejection(add()), rejection(add())]
    await clock.advance(LIMIT_MS)
    await Promise.all(both)
    started[0]?.resolve('late')
    await settled()
    expect(await rejection(add())).toMatchObject(timedOut)
    started[1]?.resolve('late')
    await settled()
    add().catch(() => {})
    await settled()
    expect(started).toHaveLength(3)
  })

  it('none of its slot is freed, however long it hangs', async () => {
    const { add, started, clock } = await hanging({ slots: 1 })
    await clock.advance(1_000_000)
    expect(await rejection(add())).toMatchObject(timedOut)
    expect(started).toHaveLength(1)
  })
})

describe('a queue', () => {
  it('belongs to a store, or to what several stores share', () => {
    const clock = new ManualClock()
    const [one, other] = [new MemoryStore(clock), new MemoryStore(clock)]
    expect(queueOf(one)).toBe(queueOf(one))
    expect(queueOf(one)).not.toBe(queueOf(other))
    const connection = {}
    const [first, second] = [1, 2].map(() => shareQueue(new MemoryStore(clock), queueOf(connection, 3)))
    expect(queueOf(first ?? {})).toBe(queueOf(second ?? {}))
  })
})

describe('hundreds of clients of a slow store', () => {
  it('share their tokens through it when they start again, as a few do, and with 8 operations at a time', async () => {
    const clock = new ManualClock()
    const endpoint = new ScriptedEndpoint([])
    const store = new MemoryStore(clock)
    let underWay = 0
    let most = 0
    store.failAlways(async (run) => {
      underWay += 1
      most = Math.max(most, underWay)
      await slow(clock, 200)(run)
      underWay -= 1
      return await run()
    })
    const start = async () => {
      const clients = Array.from({ length: CLIENTS }, (_, n) =>
        rig([], { clock, store, fetch: endpoint.fetch, clientId: `client-${n}` }),
      )
      const tokens = Promise.all(clients.map(({ provider }) => provider.getToken()))
      let isOver = false
      tokens.finally(() => {
        isOver = true
      })
      while (!isOver) await clock.advance(200)
      for (const { provider } of clients) provider.close()
      return {
        failures: clients.flatMap(({ events }) => events.filter(({ type }) => type === 'store-failed')),
      }
    }
    expect((await start()).failures).toEqual([])
    expect((await start()).failures).toEqual([])
    expect([endpoint.count, most]).toEqual([CLIENTS, 8])
  })
})
