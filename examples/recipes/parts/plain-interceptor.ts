/** An axios interceptor that only attaches the token. */
import axios from 'axios'
import { createAuthInterceptor } from 'merchant-auth/axios'
import { environment, tokens } from './tokens.ts'

export const api = axios.create({ baseURL: environment.apiUrls.merchant })
api.interceptors.request.use(createAuthInterceptor(tokens))
