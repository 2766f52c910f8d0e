/** The simulated Redis on its network: each command takes its time, and in the outage for ever. */

import { LEASE, RELEASE, type RunScript, WRITE, WRITE_AS_OWNER } from '../../src/store/redis-scripts.ts'
import { SimulatedRedis } from '../../test/support/simulated-redis.ts'
import type { Random } from '../soak/random.ts'
import type { Accidents } from './accidents.ts'
import type { Figures } from './figures.ts'
import type { Outage } from './outage.ts'
import type { SimulatedProcess } from './process.ts'
import type { World } from './world.ts'

const LEAST_MS = 0.2
const MOST_MS = 5

export class RedisOnNetwork {
  readonly #world: World
  readonly #outage: Outage
  readonly #figures: Figures
  readonly #accidents: Accidents
  readonly #redis: SimulatedRedis
  /** The number of the token that is there. */
  #kept = -1
  /** The highest number that was ever there. */
  newest = -1

  constructor(
    world: World,
    { outage, figures, accidents }: { outage: Outage; figures: Figures; accidents: Accidents },
  ) {
    this.#world = world
    this.#outage = outage
    this.#figures = figures
    this.#accidents = accidents
    this.#redis = new SimulatedRedis(() => world.now)
    outage.onEnd = () => {
      this.#redis.flush()
      this.#kept = -1
    }
  }

  /** What one process runs its scripts with. In the outage nothing ever comes of them. */
  runnerFor(process: SimulatedProcess, random: Random): RunScript {
    const world = this.#world
    return (script, keys, args) =>
      new Promise((resolve) => {
        if (!process.alive) return
        world.acts(process)
        this.#figures.redisCommand(world.now)
        const tookMs = LEAST_MS + random.next() * (MOST_MS - LEAST_MS)
        const executedAfterMs = tookMs * random.next()
        const execute = (): boolean => {
          if (this.#outage.isOn) return false
          const answer = this.#redis.execute(script, keys, args)
          this.#note(script, answer, process)
          const read = (): boolean => {
            resolve(answer)
            return true
          }
          world.after(tookMs - executedAfterMs, { kind: 'input', owner: process, run: read })
          return false
        }
        world.after(process.holdsBackMs + executedAfterMs, { kind: 'input', run: execute })
      })
  }

  #note(script: string, answer: unknown, process: SimulatedProcess): void {
    if (script === LEASE && answer === 1) {
      this.#figures.leases += 1
      process.holdsLease = true
      this.#accidents.befall(process)
    }
    if (script === RELEASE) {
      if (answer === 0 && process.holdsLease) this.#figures.leasesLost += 1
      process.holdsLease = false
    }
    if ((script === WRITE_AS_OWNER && answer === 1) || script === WRITE) {
      if (process.newestToken < this.#kept) this.#figures.olderWritten += 1
      this.#kept = process.newestToken
      this.newest = Math.max(this.newest, this.#kept)
    }
  }
}
