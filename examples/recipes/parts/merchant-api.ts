/** An axios instance with the token that survives hot reloads. */
import axios, { type AxiosInstance } from 'axios'
import { createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'

function createMerchantApi(): AxiosInstance {
  const options = optionsFromEnv(process.env, { apis: ['merchant'] })
  const api = axios.create({ baseURL: options.environment.apiUrls.merchant })
  attachAuth(api, createTokenProvider(options))
  return api
}

/** On globalThis: a development server loads this module again after an edit. */
const shared = globalThis as typeof globalThis & { merchantApi?: AxiosInstance }

export function merchantApi(): AxiosInstance {
  shared.merchantApi ??= createMerchantApi()
  return shared.merchantApi
}
