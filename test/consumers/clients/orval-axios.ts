import axios, { type AxiosRequestConfig } from 'axios'
import { attachAuth } from 'merchant-auth/axios'
import { environment, tokens } from './tokens.js'

const api = axios.create({ baseURL: environment.apiUrls.merchant })
attachAuth(api, tokens)

export async function callApi<T>(config: AxiosRequestConfig, options?: AxiosRequestConfig): Promise<T> {
  const headers = { ...config.headers, ...options?.headers }
  const { data } = await api.request<T>({ ...config, ...options, headers })
  return data
}
