/** One merchant or store of many: a provider and an axios instance of its own. Shown in docs/sharing.md. */
import axios, { type AxiosInstance } from 'axios'
import { createTokenProvider, type Environment, type TokenProvider, type TokenStore } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'

export interface Account {
  readonly environment: Environment & { readonly apiUrls: { readonly merchant: string } }
  readonly clientId: string
  readonly clientSecret: () => Promise<string>
}

export interface Shop {
  readonly tokens: TokenProvider
  readonly api: AxiosInstance
}

export function createShop(shopId: string, account: Account, store?: TokenStore): Shop {
  const environment = { ...account.environment, name: shopId } // events say which shop
  const tokens = createTokenProvider({ ...account, environment, store })
  const api = axios.create({ baseURL: environment.apiUrls.merchant })
  attachAuth(api, tokens)
  return { tokens, api }
}
