/** The fleet: processes that are started, replaced and crash, all with the package's own provider and store. */
import { createTokenProvider, type TokenProvider, type TokenStore } from '../../src/index.ts'
import { createRedisTokenStore } from '../../src/store/redis.ts'
import { redisClient } from '../../test/support/simulated-redis.ts'
import { Random } from '../soak/random.ts'
import { Accidents } from './accidents.ts'
import { Figures, type Outcome } from './figures.ts'
import { Outage } from './outage.ts'
import { SimulatedProcess, type Surroundings } from './process.ts'
import { Quiet } from './quiet.ts'
import { RedisOnNetwork } from './redis.ts'
import type { Scenario, Variant } from './scenario.ts'
import { SimulatedTokenEndpoint } from './token-endpoint.ts'
import { World } from './world.ts'

const CLIENT = {
  environment: {
    authUrl: 'https://auth.test.example',
    audience: 'https://api.test.example',
    apiUrls: ['https://api.test.example/merchant'],
  },
  clientId: 'client-1',
  clientSecret: 'swordfish',
}
const PROGRESS_PARTS = 200

/** How far a run has come. */
export interface Progress {
  /** 0 to 1. */
  readonly done: number
  readonly requests: number
}

/** Runs one variant. The same seed gives the same outcome. */
export async function simulate(
  variant: Variant,
  scenario: Scenario,
  onProgress: (progress: Progress) => void = () => {},
): Promise<Outcome> {
  const random = new Random(scenario.seed)
  using quiet = new Quiet()
  using _ = seededMath(random.fork())
  await loadAll()
  const world = new World(quiet)
  const fleet = new Fleet(variant, { scenario, random, world })
  for (let part = 1; part <= PROGRESS_PARTS; part += 1) {
    await world.run((scenario.durationMs * part) / PROGRESS_PARTS)
    onProgress({ done: part / PROGRESS_PARTS, requests: fleet.figures.requests })
  }
  fleet.end()
  await quiet.settle()
  return fleet.figures.outcome()
}

class Fleet {
  readonly figures: Figures
  readonly #processes: SimulatedProcess[] = []
  readonly #around: Omit<Surroundings, 'random' | 'provider'>
  readonly #variant: Variant
  readonly #random: Random
  readonly #redis: RedisOnNetwork
  readonly #endpoint: SimulatedTokenEndpoint

  constructor(
    variant: Variant,
    { scenario, random, world }: { scenario: Scenario; random: Random; world: World },
  ) {
    this.#variant = variant
    this.#random = random
    const outage = new Outage(world, scenario)
    const figures = new Figures(scenario, outage)
    this.figures = figures
    const accidents = new Accidents(world, { scenario, figures, random: random.fork() }, ({ slot }) => {
      this.#restart(slot)
    })
    // Without a lease those who ask are those who get it for the fleet, unless Redis is down and all do.
    const onRequest = (process: SimulatedProcess): void => {
      if (variant === 'store without lease' && !outage.isOn) accidents.befall(process)
    }
    this.#endpoint = new SimulatedTokenEndpoint(world, { scenario, figures, outage }, onRequest)
    this.#redis = new RedisOnNetwork(world, { outage, figures, accidents })
    this.#around = { world, scenario, figures, endpoint: this.#endpoint, redis: this.#redis }
    for (let slot = 0; slot < scenario.providers; slot += 1) {
      this.#processes.push(this.#start(slot))
      for (const { from, until } of scenario.deploys) {
        const run = (): boolean => this.#restart(slot)
        world.after(from + random.next() * (until - from), { kind: 'input', run })
      }
    }
  }

  end(): void {
    for (const process of this.#processes) {
      this.figures.forgotten += process.forgottenCalls
      process.die()
    }
  }

  #start(slot: number): SimulatedProcess {
    const random = this.#random.fork()
    const provider = (process: SimulatedProcess): TokenProvider => this.#createProvider(process, random)
    return new SimulatedProcess(slot, { ...this.#around, random, provider })
  }

  /** The next one begins at once, and knows nothing. */
  #restart(slot: number): boolean {
    this.figures.restarts += 1
    this.#processes[slot]?.die()
    this.#processes[slot] = this.#start(slot)
    return true
  }

  #createProvider(process: SimulatedProcess, random: Random): TokenProvider {
    const store = this.#createStore(process, random)
    const { clock } = process
    return createTokenProvider({
      ...CLIENT,
      clock,
      store,
      fetch: this.#endpoint.fetchFor(process, random),
      onEvent: (event) => {
        if (event.type === 'store-failed') this.figures.storeFailures += 1
        if (event.type === 'token-acquired' && event.source === 'store') this.figures.fromStore += 1
      },
    })
  }

  #createStore(process: SimulatedProcess, random: Random): TokenStore | undefined {
    if (this.#variant === 'no store') return undefined
    const store = createRedisTokenStore(redisClient(this.#redis.runnerFor(process, random)))
    if (this.#variant === 'store with lease') return store
    return {
      get: (key) => store.get(key),
      set: (key, value, ttlMs) => store.set(key, value, ttlMs),
      delete: (key) => store.delete(key),
    }
  }
}

/** What is loaded when it is needed first comes from the disk, while simulated time would go on. */
async function loadAll(): Promise<void> {
  const kept = new Map<string, string>()
  const store: TokenStore = {
    get: async (key) => {
      const value = kept.get(key)
      return value === undefined ? undefined : { value, ttlMs: 60_000 }
    },
    set: async (key, value) => {
      kept.set(key, value)
    },
    delete: async () => {},
  }
  const answer = async (): Promise<Response> =>
    Response.json({ access_token: 'head.body.0', expires_in: 60, token_type: 'Bearer' })
  for (let reads = 0; reads < 2; reads += 1) {
    const tokens = createTokenProvider({ ...CLIENT, store, fetch: answer })
    await tokens.getToken()
    await tokens.close()
  }
}

/** The jitter of tokens comes again with the same seed, too. */
function seededMath(random: Random): Disposable {
  const { random: original } = Math
  Math.random = () => random.next()
  return {
    [Symbol.dispose]: () => {
      Math.random = original
    },
  }
}
