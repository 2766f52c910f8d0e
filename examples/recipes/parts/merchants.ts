/** A provider and an axios instance for each merchant of a platform. Shown in docs/recipes.md. */
import axios, { type AxiosInstance } from 'axios'
import { createTokenProvider, type Environment, type TokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'

/** What your platform knows about a merchant. */
export interface Account {
  readonly environment: Environment & { readonly apiUrls: { readonly merchant: string } }
  readonly clientId: string
}

interface Merchant {
  readonly tokens: TokenProvider
  readonly api: AxiosInstance
}

export interface MerchantsOptions {
  /** Merchants beyond this number are removed, the least recently used one first. */
  readonly most: number
  readonly accountOf: (merchantId: string) => Account
  /** Called before each token request, so that no secret is kept here. */
  readonly secretOf: (merchantId: string) => Promise<string>
}

/** The most recently used merchants, each with its own token. */
export class Merchants {
  readonly #options: MerchantsOptions
  /** In the order of their last use. */
  readonly #known = new Map<string, Merchant>()

  constructor(options: MerchantsOptions) {
    this.#options = options
  }

  /** Get it again for each call: the merchant of one that you kept may have left. */
  apiOf(merchantId: string): AxiosInstance {
    const merchant = this.#known.get(merchantId) ?? this.#create(merchantId)
    this.#known.delete(merchantId)
    this.#known.set(merchantId, merchant)
    const [oldest] = this.#known.keys()
    // It is not closed, so its calls in flight continue. It has no timer, and is garbage collected after them.
    if (this.#known.size > this.#options.most && oldest !== undefined) this.#known.delete(oldest)
    return merchant.api
  }

  /** Discards the merchant's token immediately. Calls that still wait for one reject. */
  async leave(merchantId: string): Promise<void> {
    const merchant = this.#known.get(merchantId)
    this.#known.delete(merchantId)
    await merchant?.tokens.close()
  }

  async close(): Promise<void> {
    await Promise.all([...this.#known.keys()].map((merchantId) => this.leave(merchantId)))
  }

  get size(): number {
    return this.#known.size
  }

  #create(merchantId: string): Merchant {
    const { environment, clientId } = this.#options.accountOf(merchantId)
    const clientSecret = (): Promise<string> => this.#options.secretOf(merchantId)
    const tokens = createTokenProvider({ environment, clientId, clientSecret })
    const api = axios.create({ baseURL: environment.apiUrls.merchant })
    attachAuth(api, tokens)
    return { tokens, api }
  }
}
