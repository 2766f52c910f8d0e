/** The simulated token endpoint: every token is another one, and it knows best when each expires. */
import type { Random } from '../soak/random.ts'
import type { Figures } from './figures.ts'
import type { Outage } from './outage.ts'
import type { SimulatedProcess } from './process.ts'
import type { Scenario } from './scenario.ts'
import type { World } from './world.ts'

const LEAST_MS = 80
const MOST_MS = 400
const MEDIAN_MS = 160
const SPREAD = 0.4
const PREFIX = 'head.body.'

export class SimulatedTokenEndpoint {
  readonly #world: World
  readonly #scenario: Scenario
  readonly #figures: Figures
  readonly #outage: Outage
  /** When the token of each number expires. */
  readonly #expiries: number[] = []

  readonly #onRequest: (process: SimulatedProcess) => void

  constructor(
    world: World,
    { scenario, figures, outage }: { scenario: Scenario; figures: Figures; outage: Outage },
    onRequest: (process: SimulatedProcess) => void,
  ) {
    this.#world = world
    this.#scenario = scenario
    this.#figures = figures
    this.#outage = outage
    this.#onRequest = onRequest
  }

  /** The number of a token: the higher, the newer. */
  numberOf(token: string): number {
    return Number(token.slice(PREFIX.length))
  }

  expiryOf(number: number): number {
    return this.#expiries[number] ?? Number.NEGATIVE_INFINITY
  }

  /** What one process sends its token requests with. */
  fetchFor(process: SimulatedProcess, random: Random): typeof fetch {
    const world = this.#world
    return (_input, init) =>
      new Promise((resolve, reject) => {
        if (!process.alive) return
        world.acts(process)
        this.#onRequest(process)
        const tookMs = latencyMs(random)
        const issuedAfterMs = tookMs * random.next()
        const answer = (): boolean => {
          const number = this.#issue()
          const read = (): boolean => {
            process.answered(number)
            resolve(this.#answer(number))
            return true
          }
          world.after(tookMs - issuedAfterMs, { kind: 'input', owner: process, run: read })
          return false
        }
        world.after(issuedAfterMs, { kind: 'input', run: answer })
        init?.signal?.addEventListener('abort', () => reject(init.signal?.reason), { once: true })
      })
  }

  #issue(): number {
    const { now } = this.#world
    this.#figures.tokenRequest(now)
    this.#outage.newestIssuedAt = now
    return this.#expiries.push(now + this.#scenario.lifetimeMs) - 1
  }

  #answer(number: number): Response {
    const expires_in = this.#scenario.lifetimeMs / 1_000
    return Response.json({ access_token: `${PREFIX}${number}`, expires_in, token_type: 'Bearer' })
  }
}

/** Log-normal, between 80 and 400 ms. */
function latencyMs(random: Random): number {
  const normal = Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next())
  return Math.min(MOST_MS, Math.max(LEAST_MS, MEDIAN_MS * Math.exp(SPREAD * normal)))
}
