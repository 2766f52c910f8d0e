/** The most recently used of many merchants or stores. Named in docs/sharing.md. */
import type { AxiosInstance } from 'axios'
import type { TokenStore } from 'merchant-auth'
import { type Account, createShop, type Shop } from './shop.ts'

export interface ShopsOptions {
  /** Shops beyond this number are removed, the least recently used one first. */
  readonly most: number
  /** What your platform knows about a shop. The secret is a function, so that none is kept here. */
  readonly accountOf: (shopId: string) => Account
  readonly store?: TokenStore
}

export class Shops {
  readonly #options: ShopsOptions
  /** In the order of their last use. */
  readonly #known = new Map<string, Shop>()
  #isClosed = false

  constructor(options: ShopsOptions) {
    this.#options = options
  }

  /** Get it again for each call: the shop of one that you kept may have left. */
  apiOf(shopId: string): AxiosInstance {
    if (this.#isClosed) throw new Error('The shops are closed')
    const { most, accountOf, store } = this.#options
    const shop = this.#known.get(shopId) ?? createShop(shopId, accountOf(shopId), store)
    this.#known.delete(shopId)
    this.#known.set(shopId, shop)
    const [oldest] = this.#known.keys()
    // It is not closed, so its calls in flight continue. It has no timer, and is garbage collected after them.
    if (this.#known.size > most && oldest !== undefined) this.#known.delete(oldest)
    return shop.api
  }

  /** Discards the shop's token immediately. Calls that still wait for one reject. */
  async leave(shopId: string): Promise<void> {
    const shop = this.#known.get(shopId)
    this.#known.delete(shopId)
    await shop?.tokens.close()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#known.keys()].map((shopId) => this.leave(shopId)))
  }

  get size(): number {
    return this.#known.size
  }
}
