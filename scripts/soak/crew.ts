/** One provider at a time with all clients that share it, replaced now and then by a fresh one. */
import axios, { type AxiosInstance } from 'axios'
import { createAuthFetch } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import type { Place } from './evidence.ts'
import type { Ledger } from './ledger.ts'
import { ObservedProvider, type ProviderFigures } from './provider.ts'
import type { Random } from './random.ts'
import type { Vault } from './vault.ts'

/** How long (ms) a provider lives. Its rations double with each renewal, so an old one would renew no more. */
const SHORTEST_LIFE_MS = 4_000
const LONGEST_LIFE_MS = 20_000

export interface CrewPlan {
  readonly name: string
  readonly place: Place
  readonly vault: Vault
  readonly ledger: Ledger
  readonly figures: ProviderFigures
  readonly random: Random
  /** Where the token goes. */
  readonly attach: { readonly header?: string; readonly scheme?: string }
  onFailure(inARow: number): void
}

/** A provider and the clients that send its token. */
export interface Clients {
  readonly observed: ObservedProvider
  readonly http: AxiosInstance
  readonly viaFetch: AxiosInstance
  readonly authFetch: typeof fetch
}

export class Crew {
  readonly place: Place
  readonly vault: Vault
  clients: Clients
  readonly #plan: CrewPlan
  #generation = 0
  #replaceAt = 0
  readonly #closing = new Set<Promise<void>>()

  constructor(plan: CrewPlan) {
    this.place = plan.place
    this.vault = plan.vault
    this.#plan = plan
    this.clients = this.#make()
  }

  get inARow(): number {
    return this.clients.observed.inARow
  }

  newestJti(): string | undefined {
    return [...this.clients.observed.tokens.keys()].at(-1)
  }

  /** Puts a fresh provider in the place of one that is old; callers may still wait for that one. */
  replaceIfOld(): void {
    if (Date.now() < this.#replaceAt) return
    const { observed } = this.clients
    this.clients = this.#make()
    const closing = observed.close().finally(() => this.#closing.delete(closing))
    this.#closing.add(closing)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#closing, this.clients.observed.close()])
  }

  #make(): Clients {
    const { name, place, vault, ledger, figures, random, attach, onFailure } = this.#plan
    this.#generation += 1
    this.#replaceAt = Date.now() + random.between(SHORTEST_LIFE_MS, LONGEST_LIFE_MS)
    const observed = new ObservedProvider({
      id: `${name}.${this.#generation}`,
      place,
      vault,
      ledger,
      figures,
      timeoutMs: random.between(1_600, 2_000),
      bodyFormat: random.chance(0.7) ? 'json' : 'form',
      onFailure,
    })
    const { provider } = observed
    const maxContentLength = random.chance(0.5) ? 4_000_000 : -1
    const instance = (adapter: 'http' | 'fetch'): AxiosInstance => {
      // axios' fetch adapter leaves the connection of an answer that is too long open for good.
      const made = axios.create({ adapter, ...(adapter === 'http' && { maxContentLength }) })
      attachAuth(made, provider, attach)
      return made
    }
    return {
      observed,
      http: instance('http'),
      viaFetch: instance('fetch'),
      authFetch: createAuthFetch(provider, attach),
    }
  }
}
