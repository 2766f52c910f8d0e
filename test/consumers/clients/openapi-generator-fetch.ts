import { createAuthFetch } from 'merchant-auth'
import { Configuration, OrdersApi } from './generated/openapi-generator-fetch.js'
import { environment, tokens } from './tokens.js'

const configuration = new Configuration({
  basePath: environment.apiUrls.merchant,
  fetchApi: createAuthFetch(tokens),
})
export const orders = new OrdersApi(configuration)
