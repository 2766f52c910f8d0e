/**
 * One call with each generated client, set up as in its recipe. Loaded once the environment variables are set.
 *
 * generated/hey-api-* is generated before this runs. generated/orval-* is committed: orval 8.38.0 generated it with
 * orval.config.js, and is too large to be installed here (63 MB).
 */
import './hey-api-axios.js'
import './hey-api-fetch.js'
import axios from 'axios'
import { attachAuth } from 'merchant-auth/axios'
import { createOrder as createWithHeyApiAxios } from './generated/hey-api-axios/index.js'
import { createOrder as createWithHeyApiFetch } from './generated/hey-api-fetch/index.js'
import { AccountApi, Configuration } from './generated/openapi-generator.js'
import { getMerchantAPI } from './generated/orval-axios.js'
import { createOrder as createWithOrvalFetch } from './generated/orval-fetch.js'
import { orders } from './openapi-generator.js'
import { environment, tokens } from './tokens.js'

/** Each creates an order with this amount, or an OAuth client with this name. */
export const calls: Readonly<Record<string, (id: number) => Promise<unknown>>> = {
  'openapi-generator (axios)': (id) => orders.createOAuth2Client({ oAuth2Client: { client_name: `${id}` } }),
  'orval (axios)': (amount) => getMerchantAPI().createOrder({ amount }),
  'orval (fetch)': (amount) => createWithOrvalFetch({ amount }),
  'hey-api (axios)': (amount) => createWithHeyApiAxios({ body: { amount }, throwOnError: true }),
  'hey-api (fetch)': (amount) => createWithHeyApiFetch({ body: { amount }, throwOnError: true }),
}

const api = axios.create()
attachAuth(api, tokens)
const { merchant } = environment.apiUrls
const ownToken = async (): Promise<string> => (await tokens.getToken()).value

/** Calls with a configuration mistake: the client also gets a token itself and sets the header itself. */
export const mistakes: Readonly<Record<string, () => Promise<unknown>>> = {
  'openapi-generator (axios)': () =>
    new AccountApi(new Configuration({ accessToken: ownToken }), merchant, api).getOidcUserInfo(),
  'hey-api (axios)': () => createWithHeyApiAxios({ body: { amount: 1 }, throwOnError: true, auth: ownToken }),
  'hey-api (fetch)': () => createWithHeyApiFetch({ body: { amount: 1 }, throwOnError: true, auth: ownToken }),
}

/** By default, hey-api returns errors instead of throwing them. */
export const results = {
  axios: () => createWithHeyApiAxios({ body: { amount: 1 } }),
  fetch: () => createWithHeyApiFetch({ body: { amount: 1 } }),
}
