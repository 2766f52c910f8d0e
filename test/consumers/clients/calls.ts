/**
 * One call with each generated client, set up as in its recipe. Loaded once the environment variables are set.
 *
 * generated/hey-api-* is generated before this runs. What two larger generators wrote is committed: orval 8.38.0 (63 MB)
 * with orval.config.js, and kubb 4.39.3 (120 MB) with kubb.config.js, without a file that nothing imports.
 */
import './hey-api-axios.js'
import './hey-api-fetch.js'
import './kubb.js'
import axios from 'axios'
import { GraphQLClient } from 'graphql-request'
import { createAuthFetch } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { createOrder as createWithHeyApiAxios } from './generated/hey-api-axios/index.js'
import { createOrder as createWithHeyApiFetch } from './generated/hey-api-fetch/index.js'
import { createOrder as createWithKubb } from './generated/kubb/clients.js'
import { AccountApi, Configuration } from './generated/openapi-generator.js'
import {
  AccountApi as FetchAccountApi,
  Configuration as FetchConfiguration,
  type FetchError,
} from './generated/openapi-generator-fetch.js'
import { getMerchantAPI } from './generated/orval-axios.js'
import { createOrder as createWithOrvalFetch } from './generated/orval-fetch.js'
import { graphql } from './graphql-request.js'
import { orders } from './openapi-generator.js'
import { orders as fetchOrders } from './openapi-generator-fetch.js'
import { environment, tokens } from './tokens.js'

const mutation = 'mutation CreateOrder($amount: Int!) { createOrder(amount: $amount) { path } }'

/** Each creates an order with this amount, or an OAuth client with this name. */
export const calls: Readonly<Record<string, (id: number) => Promise<unknown>>> = {
  'openapi-generator (axios)': (id) => orders.createOAuth2Client({ oAuth2Client: { client_name: `${id}` } }),
  'openapi-generator (fetch)': (id) =>
    fetchOrders.createOAuth2Client({ oAuth2Client: { client_name: `${id}` } }),
  'orval (axios)': (amount) => getMerchantAPI().createOrder({ amount }),
  'orval (fetch)': (amount) => createWithOrvalFetch({ amount }),
  'hey-api (axios)': (amount) => createWithHeyApiAxios({ body: { amount }, throwOnError: true }),
  'hey-api (fetch)': (amount) => createWithHeyApiFetch({ body: { amount }, throwOnError: true }),
  kubb: (amount) => createWithKubb({ amount }),
  'graphql-request': (amount) => graphql.request(mutation, { amount }),
}

const api = axios.create()
attachAuth(api, tokens)
const { merchant } = environment.apiUrls
const authFetch = createAuthFetch(tokens)
const ownToken = async (): Promise<string> => (await tokens.getToken()).value

/** Calls with a configuration mistake: the client also gets a token itself and sets the header itself. */
export const mistakes: Readonly<Record<string, () => Promise<unknown>>> = {
  'openapi-generator (axios)': () =>
    new AccountApi(new Configuration({ accessToken: ownToken }), merchant, api).getOidcUserInfo(),
  'openapi-generator (fetch)': () =>
    new FetchAccountApi(
      new FetchConfiguration({ basePath: merchant, fetchApi: authFetch, accessToken: ownToken }),
    ).getOidcUserInfo(),
  'hey-api (axios)': () => createWithHeyApiAxios({ body: { amount: 1 }, throwOnError: true, auth: ownToken }),
  'hey-api (fetch)': () => createWithHeyApiFetch({ body: { amount: 1 }, throwOnError: true, auth: ownToken }),
  'graphql-request': async () => {
    const headers = { authorization: `Bearer ${await ownToken()}` }
    return new GraphQLClient(`${merchant}/graphql`, { fetch: authFetch, headers }).request('{ orders }')
  },
}

/** Where the package's error is, in clients that do not throw it as it is. */
export const errors: Readonly<Record<string, () => Promise<unknown>>> = {
  'hey-api (axios)': () => createWithHeyApiAxios({ body: { amount: 1 } }),
  'hey-api (fetch)': async () => (await createWithHeyApiFetch({ body: { amount: 1 } })).error,
  'openapi-generator (fetch)': () =>
    fetchOrders.createOAuth2Client({ oAuth2Client: {} }).catch((error: FetchError) => error.cause),
}
