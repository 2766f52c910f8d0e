/** Redis as the store sees it: executes each script atomically, on the clock of the test. */
import type { IORedisLike } from 'merchant-auth/redis'
import {
  LEASE,
  READ,
  RELEASE,
  REMOVE,
  REMOVE_AS_OWNER,
  type RunScript,
  WRITE,
  WRITE_AS_OWNER,
} from '../../src/store/redis-scripts.ts'

export * from '../../src/store/redis-scripts.ts'

/** A client that passes each script to a function. */
export function redisClient(run: RunScript): IORedisLike {
  const call = (): void => {} // identifies an ioredis client
  return Object.assign(
    { call },
    {
      status: 'ready',
      eval: (script: string, count: number, ...rest: string[]) =>
        run(script, rest.slice(0, count), rest.slice(count)),
    },
  )
}

interface Entry {
  readonly value: string
  readonly endsAt: number
}

export class SimulatedRedis {
  readonly #entries = new Map<string, Entry>()
  readonly #nowMs: () => number

  /** `nowMs` is the clock of the server. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  /** Executes one of the store's scripts. */
  execute(
    script: string,
    [entry = '', lease = '']: readonly string[],
    args: readonly (string | number)[],
  ): unknown {
    const [first, ...rest] = args.map(String)
    switch (script) {
      case READ:
        return [this.#get(entry) ?? null, this.#pttl(entry)]
      case WRITE:
        return this.#set(entry, String(first), Number(rest[0]))
      case REMOVE:
        return Number(this.#entries.delete(entry))
      case LEASE:
        if (this.#get(lease) === rest[1]) this.#entries.delete(lease)
        if (this.#get(lease) === undefined) this.#set(lease, String(first), Number(rest[0]))
        return Number(this.#get(lease) === first)
      case RELEASE:
        return this.#get(lease) === first ? Number(this.#entries.delete(lease)) : 0
      case WRITE_AS_OWNER: {
        if (this.#get(lease) !== first) return 0
        const lateMs = Math.max(0, Number(rest[2]) - this.#pttl(lease))
        const ms = Math.floor(Number(rest[1]) - lateMs)
        if (ms < 1) return 0
        this.#set(entry, String(rest[0]), ms)
        return 1
      }
      case REMOVE_AS_OWNER:
        return this.#get(lease) === first ? Number(this.#entries.delete(entry)) : 0
      default:
        throw new Error(`ERR unknown script ${script}`)
    }
  }

  /** Loses everything, as a restart without persistence does. */
  flush(): void {
    this.#entries.clear()
  }

  /** All keys that have not expired. */
  keys(): string[] {
    return [...this.#entries.keys()].filter((key) => this.#get(key) !== undefined)
  }

  #get(key: string): string | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined || entry.endsAt > this.#nowMs()) return entry?.value
    this.#entries.delete(key)
    return undefined
  }

  #pttl(key: string): number {
    const entry = this.#entries.get(key)
    return entry === undefined ? -2 : Math.max(0, Math.round(entry.endsAt - this.#nowMs()))
  }

  #set(key: string, value: string, ms: number): string {
    this.#entries.set(key, { value, endsAt: this.#nowMs() + ms })
    return 'OK'
  }
}
