/** The token in a header of another name, without a scheme. */
import axios from 'axios'
import { createAuthFetch } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { environment, tokens } from './tokens.ts'

const attach = { header: 'X-Auth-Token', scheme: '' }
export const authFetch = createAuthFetch(tokens, attach)
export const api = axios.create({ baseURL: environment.apiUrls.merchant })
attachAuth(api, tokens, attach)
