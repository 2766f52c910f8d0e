/** An axios instance for each of many merchants or stores. Shown in docs/shops-and-terminals.md. */
import axios, { type AxiosInstance } from 'axios'
import { createTokenProvider, type Environment, type TokenProvider, type TokenStore } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'

/** What your platform knows about a shop: a merchant, or one of its stores. */
export interface Account {
  readonly environment: Environment & { readonly apiUrls: { readonly merchant: string } }
  readonly clientId: string
}

interface Shop {
  readonly tokens: TokenProvider
  readonly api: AxiosInstance
}

export interface ShopsOptions {
  /** Shops beyond this number are removed, the least recently used one first. */
  readonly most: number
  readonly accountOf: (shopId: string) => Account
  /** A function, so that no secret is kept here. */
  readonly secretOf: (shopId: string) => Promise<string>
  readonly store?: TokenStore
}

/** The most recently used shops, each with its own token. */
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
    const shop = this.#known.get(shopId) ?? this.#create(shopId)
    this.#known.delete(shopId)
    this.#known.set(shopId, shop)
    const [oldest] = this.#known.keys()
    // It is not closed, so its calls in flight continue. It has no timer, and is garbage collected after them.
    if (this.#known.size > this.#options.most && oldest !== undefined) this.#known.delete(oldest)
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

  #create(shopId: string): Shop {
    const { accountOf, secretOf, store } = this.#options
    const { environment, clientId } = accountOf(shopId)
    const clientSecret = (): Promise<string> => secretOf(shopId)
    const named = { ...environment, name: shopId } // events say which shop
    const tokens = createTokenProvider({ environment: named, clientId, clientSecret, store })
    const api = axios.create({ baseURL: environment.apiUrls.merchant })
    attachAuth(api, tokens)
    return { tokens, api }
  }
}
