/** Leases of the file store in every order of the operations on its directory, within bounds. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, expect, inject, it, onTestFinished, vi } from 'vitest'
import { type Choose, explore } from '../exploration/explorer.ts'
import { untilIdle, VirtualFiles } from './virtual-files.ts'

const TTL_MS = 10_000
const NAME = '2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683' // SHA-256 of "key"

const directory = vi.hoisted(() => ({ api: {} as object }))
vi.mock('node:fs/promises', () => {
  const forwarded = ['lstat', 'mkdir', 'open', 'readdir', 'rename', 'rmdir', 'unlink'].map((name) => [
    name,
    (...args: unknown[]) => Reflect.get(directory.api, name)(...args),
  ])
  return Object.fromEntries(forwarded)
})
vi.resetModules() // in mutation tests another file may have loaded them
const { createFileTokenStore } = await import('merchant-auth/file')
const { removeUnused } = await import('../../src/store/file/unused-files.ts')
const { leaseNumbersIn } = await import('../../src/store/file/leases.ts')

const folder = mkdtempSync(join(tmpdir(), 'file-lease-')) // which stays empty
afterAll(() => rmSync(folder, { recursive: true }))
const keyFolder = join(folder, `${NAME}.lock`)
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] })
  vi.spyOn(Math, 'random').mockReturnValue(0)
})
afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

interface World {
  readonly processes: readonly string[]
  /** How often each process wants the lease. */
  readonly rounds: number
  /** How often another process may go on although the present one could. */
  readonly switches: number
  /** How many processes may be killed. */
  readonly kills?: number
  /** How often time may pass while operations wait. */
  readonly pauses?: number
  /** How long a pause takes (ms); by default a lease ends in it. */
  readonly pauseMs?: number
  /**
   * The leases at the beginning, by number: whether they are released, or belong to a process that was killed long ago. Without
   * it the key has no folder.
   */
  readonly left?: Readonly<Record<number, 'released' | 'expired'>>
  /** A further process, which removes what is no longer used. */
  readonly cleaner?: string
}

/** After that time a directory is listed again for what is no longer used. */
const LISTED_AGAIN_MS = 2 * 60 * 60 * 1_000
let startedAt = Date.now()

/** Runs one schedule. Throws if two processes have the lease at once, or if nobody can have it any more. */
async function run(world: World, choose: Choose): Promise<void> {
  const files = new VirtualFiles()
  directory.api = files.api
  startedAt += LISTED_AGAIN_MS
  vi.setSystemTime(startedAt)
  files.folders.set(folder, 0)
  if (world.left !== undefined) files.folders.set(keyFolder, 0)
  for (const [number, state] of Object.entries(world.left ?? {}))
    files.files.set(join(keyFolder, `${number}.lease`), {
      text: state === 'released' ? 'released' : JSON.stringify({ value: '', writtenAt: 0, endsAt: 1 }),
      mtimeMs: 0,
    })
  /** When their leases end. The time of a lease begins before it is granted. */
  const holders = new Map<string, number>()
  const hold = (by: string): void => {
    const isHeld = ([, endsAt]: [string, number]): boolean => endsAt > Date.now()
    holders.set(by, JSON.parse(files.writtenBy(by)).endsAt)
    const all = [...holders].filter(isHeld)
    if (all.length > 1) throw new Error(`${all.map(([name]) => name)} have the lease`)
  }
  const failures: unknown[] = []
  const begin = async (by: string): Promise<void> => {
    const store = createFileTokenStore(folder)
    for (let round = 0; round < world.rounds; round += 1) {
      const release = await store.lease?.('key', TTL_MS)
      if (release === undefined) continue
      hold(by)
      await files.work()
      holders.delete(by)
      await release()
    }
  }
  const start = async (by: string, act: () => Promise<void>): Promise<void> => {
    files.by = by
    act().catch((error) => failures.push(error))
    await untilIdle()
  }
  for (const by of world.processes) await start(by, () => begin(by))
  if (world.cleaner !== undefined) await start(world.cleaner, () => removeUnused(folder))
  let [current = ''] = world.processes
  let { switches, kills = 0, pauses = 0 } = world
  const { pauseMs = TTL_MS } = world
  while (files.waiting.length > 0 && failures.length === 0) {
    const isWaiting = files.waiting.some(({ by }) => by === current)
    const own = files.waiting.filter(({ by }) => by === current)
    const others = files.waiting.filter(({ by }) => by !== current)
    const next = isWaiting && switches === 0 ? own : [...own, ...others]
    const alternatives = [
      ...next.map((operation) => ({ name: `${operation.by}: ${operation.what}`, operation })),
      ...(kills > 0 && isWaiting ? [{ name: `kill ${current}`, operation: undefined }] : []),
      ...(pauses > 0 ? [{ name: 'pause', operation: undefined }] : []),
    ]
    const chosen = alternatives[choose(alternatives.map(({ name }) => name))]
    if (chosen?.operation !== undefined) {
      if (isWaiting && chosen.operation.by !== current) switches -= 1
      current = chosen.operation.by
      await files.perform(chosen.operation)
    } else if (chosen?.name === 'pause') {
      pauses -= 1
      vi.setSystemTime(Date.now() + pauseMs)
    } else {
      kills -= 1
      for (const operation of own) files.waiting.splice(files.waiting.indexOf(operation), 1)
    }
  }
  if (failures.length > 0) throw failures[0]
  // Whatever happened: when all times are over, the next process has the lease.
  vi.setSystemTime(Date.now() + TTL_MS)
  files.by = 'the last one'
  const last = createFileTokenStore(folder).lease?.('key', TTL_MS)
  await untilIdle()
  for (let steps = 0; files.waiting[0] !== undefined; steps += 1) {
    if (steps > 100) throw new Error('the last one never ends')
    await files.perform(files.waiting[0])
  }
  if ((await last) === undefined) throw new Error(`nobody has the lease: ${[...files.files.keys()]}`)
}

const isDeep = inject('deep')
const [one, several, many] = isDeep ? [2, 3, 5] : [1, 2, 3]

it.each<[string, World]>([
  ['two processes that start at once', { processes: ['A', 'B'], rounds: 1, switches: 99, left: {} }],
  ['two processes that create the folder', { processes: ['A', 'B'], rounds: 1, switches: many }],
  [
    'two processes that find an expired lease',
    { processes: ['A', 'B'], rounds: 1, switches: many, left: { 7: 'expired' } },
  ],
  ['two processes, twice each', { processes: ['A', 'B'], rounds: 2, switches: many, left: {} }],
  [
    'three processes that start at once',
    { processes: ['A', 'B', 'C'], rounds: 1, switches: several, left: {} },
  ],
  [
    'three processes that find an expired lease',
    { processes: ['A', 'B', 'C'], rounds: 1, switches: several, left: { 7: 'expired' } },
  ],
  [
    'three processes, twice each, and a released lease',
    { processes: ['A', 'B', 'C'], rounds: 2, switches: one, left: { 3: 'released' } },
  ],
  [
    'two processes, one of which is killed, and a time that ends',
    { processes: ['A', 'B'], rounds: 1, switches: one, kills: 1, pauses: 1, left: { 7: 'expired' } },
  ],
  [
    'two processes, one of which takes more than a second to create its lease',
    {
      processes: ['A', 'B'],
      rounds: 1,
      switches: 3, // with fewer, a process that does not look again after it created its lease is not found
      pauses: 1,
      pauseMs: 2_000,
      left: { 7: 'expired' },
    },
  ],
  [
    'a process, and one that removes the unused folder',
    { processes: ['A'], rounds: 1, switches: 2 * many, left: { 7: 'expired' }, cleaner: 'D' },
  ],
  [
    'two processes, and one that removes the unused folder',
    { processes: ['A', 'B'], rounds: 1, switches: several + 1, left: { 7: 'expired' }, cleaner: 'D' },
  ],
  [
    'two processes, and one that removes the empty folder',
    { processes: ['A', 'B'], rounds: 1, switches: several, left: {}, cleaner: 'D' },
  ],
  [
    'three processes, and times that end',
    { processes: ['A', 'B', 'C'], rounds: 1, switches: one, pauses: 1, left: { 7: 'expired' } },
  ],
])('%s: one has the lease, and it is never lost', async (_, world) => {
  const schedules = await explore((choose) => run(world, choose), { most: 1_000_000 })
  onTestFinished(() => console.log(`${schedules} schedules`))
  expect(schedules).toBeGreaterThan(50)
})

/** Each step: a process goes on until its next operation is the one described, or until it has none. */
function inOrder(steps: readonly (readonly [by: string, next: RegExp])[]): Choose {
  const rest = [...steps]
  return (alternatives) => {
    for (; rest[0] !== undefined; rest.shift()) {
      const [by, next] = rest[0]
      const index = alternatives.findIndex((name) => name.startsWith(by))
      if (index >= 0 && !next.test(alternatives[index] ?? '')) return index
    }
    return 0
  }
}

it('a process that wakes so late that its number was removed does not use it again', async () => {
  const left = { 1: 'expired' } as const
  const world = { processes: ['A', 'B', 'C'], rounds: 2, switches: 99, pauses: 1, left }
  const order = inOrder([
    ['A', /open 1\.lease/],
    ['B', /work/],
    ['pause', /never/],
    ['C', /remove 2\.lease/],
    ['C', /list/],
    ['A', /work/],
    ['B', /never/], // it releases the lease that it had: number 2
  ])
  await run(world, order)
})

it('a process whose lease was removed with the folder before it was written does not have it', async () => {
  const left = { 1: 'expired' } as const
  const world = {
    processes: ['A', 'B'],
    rounds: 1,
    switches: 99,
    pauses: 1,
    pauseMs: 2_000,
    left,
    cleaner: 'D',
  }
  const order = inOrder([
    ['D', /list \S+\.lock/], // it found the folder unused
    ['A', /write/],
    ['pause', /never/],
    ['D', /never/],
    ['B', /list/], // it has created the folder again
    ['A', /work/],
    ['B', /never/],
  ])
  await run(world, order)
})

it('a lease is a file whose name is a number', () => {
  const names = ['12.lease', '1.leases', 'x1.lease', `${'9'.repeat(16)}.lease`, '.lease', '7.entry']
  expect(leaseNumbersIn(names)).toEqual([12])
})
