/** axios with attachAuth and axios-retry. Shown in docs/recipes.md. */
import axios from 'axios'
import axiosRetry from 'axios-retry'
import { attachAuth } from 'merchant-auth/axios'
import { environment, tokens } from './tokens.ts'

export const api = axios.create({ baseURL: environment.apiUrls.merchant })
attachAuth(api, tokens)
axiosRetry(api, {
  retries: 2,
  retryDelay: axiosRetry.exponentialDelay,
  retryCondition: axiosRetry.isIdempotentRequestError,
})
