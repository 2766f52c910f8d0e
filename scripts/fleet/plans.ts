/** The runs: with which store, and what happens to Redis in the middle. */
import type { RedisServer } from '../../test/support/redis-server.ts'

/** Something that happens to Redis during a run. */
export interface Incident {
  readonly atLifetimes: number
  /** What is to be seen of it from then on. */
  readonly says?: string
  happen(redis: RedisServer | undefined): unknown
}

export interface RunPlan {
  readonly mark: 'a' | 'b' | 'c' | 'd'
  /** At the head of its column. */
  readonly name: string
  readonly title: string
  readonly store: boolean
  readonly incidents: readonly Incident[]
}

export const RUNS: readonly RunPlan[] = [
  {
    mark: 'a',
    name: 'no store',
    title: 'Each process for itself: the store in memory',
    store: false,
    incidents: [],
  },
  {
    mark: 'b',
    name: 'one Redis',
    title: 'One Redis for all: half of them with node-redis, half with ioredis',
    store: true,
    incidents: [],
  },
  {
    mark: 'c',
    name: 'killed',
    title: 'One Redis for all, and it is killed half-way',
    store: true,
    incidents: [{ atLifetimes: 1, says: 'Redis is dead', happen: (redis) => redis?.kill() }],
  },
]

/** Redis hangs just when the first token is due. */
export const FROZEN: RunPlan = {
  mark: 'd',
  name: 'frozen',
  title: 'One Redis for all, and it hangs while the token is due',
  store: true,
  incidents: [
    { atLifetimes: 0.7, says: 'Redis hangs', happen: (redis) => redis?.freeze() },
    { atLifetimes: 1.1, says: 'Redis is back', happen: (redis) => redis?.thaw() },
  ],
}
