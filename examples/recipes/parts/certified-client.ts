/** Token requests and calls with a client certificate. Shown in docs/token-endpoint.md. */
import { readFileSync } from 'node:fs'
import { Agent as HttpsAgent } from 'node:https'
import axios from 'axios'
import { createAuthFetch, createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { Agent } from 'undici'
import { fetchWith } from './fetch-with.ts'

const certificate = { key: readFileSync('client.key'), cert: readFileSync('client.crt') }
const certified = fetchWith(new Agent({ connect: certificate }))
const options = optionsFromEnv(process.env, { apis: ['merchant'] })
export const tokens = createTokenProvider({ ...options, fetch: certified })

export const authFetch = createAuthFetch(tokens, { fetch: certified })
export const api = axios.create({
  baseURL: options.environment.apiUrls.merchant,
  httpsAgent: new HttpsAgent({ ...certificate, keepAlive: true }),
})
attachAuth(api, tokens)
