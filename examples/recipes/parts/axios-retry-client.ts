/** axios with attachAuth and axios-retry. Shown in docs/clients.md. */
import axios from 'axios'
import axiosRetry from 'axios-retry'
import { attachAuth } from 'merchant-auth/axios'
import { environment, tokens } from './tokens.ts'

export const api = axios.create({ baseURL: environment.apiUrls.merchant, timeout: 15_000 })
attachAuth(api, tokens)
axiosRetry(api, {
  retries: 2,
  retryDelay: axiosRetry.exponentialDelay,
  retryCondition: axiosRetry.isIdempotentRequestError, // the default repeats a POST: a payment may be made twice
})
