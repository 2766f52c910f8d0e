import { randomUUID } from 'node:crypto'
import axios from 'axios'
import axiosRetry from 'axios-retry'
import { config } from './config.ts'
import { forgetToken, getToken } from './tokens.ts'

export const api = axios.create({ baseURL: config.apiUrl, timeout: 5_000 })

api.interceptors.request.use(async (request) => {
  request.headers.set('Authorization', `Bearer ${await getToken()}`)
  return request
})

api.interceptors.request.use((request) => {
  request.headers.set('X-Request-Id', randomUUID())
  return request
})

api.interceptors.response.use(undefined, (error) => {
  if (error.response?.status !== 401 || error.config.isRepeated) throw error
  forgetToken()
  return api.request({ ...error.config, isRepeated: true })
})

api.interceptors.response.use(undefined, (error) => {
  const { method, url } = error.config
  console.warn(`${method.toUpperCase()} ${url}: ${error.response ? error.response.status : error.message}`)
  throw error
})

axiosRetry(api, { retries: 3, retryDelay: axiosRetry.exponentialDelay })
