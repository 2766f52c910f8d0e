import { randomUUID } from 'node:crypto'
import axios from 'axios'
import axiosRetry from 'axios-retry'
import { attachAuth } from 'merchant-auth/axios'
import { config } from './config.ts'
import { tokens } from './tokens.ts'

export const api = axios.create({ baseURL: config.apiUrl, timeout: 5_000 })
attachAuth(api, tokens)

api.interceptors.request.use((request) => {
  request.headers.set('X-Request-Id', randomUUID())
  return request
})

api.interceptors.response.use(undefined, (error) => {
  const { method, url } = error.config
  console.warn(`${method.toUpperCase()} ${url}: ${error.response ? error.response.status : error.message}`)
  throw error
})

axiosRetry(api, { retries: 3, retryDelay: axiosRetry.exponentialDelay })
