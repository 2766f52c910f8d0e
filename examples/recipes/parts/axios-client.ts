/** An axios instance that attaches the token. */
import axios from 'axios'
import { createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'

const options = optionsFromEnv(process.env, { apis: ['merchant'] })
export const tokens = createTokenProvider(options)
export const api = axios.create({ baseURL: options.environment.apiUrls.merchant })
attachAuth(api, tokens)
