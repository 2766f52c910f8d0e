/** Token requests and calls through a proxy. Shown in docs/production.md. */
import { createAuthFetch, createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { ProxyAgent } from 'undici'
import { fetchWith } from './fetch-with.ts'

const proxied = fetchWith(new ProxyAgent(process.env['HTTPS_PROXY'] ?? 'http://user:password@proxy:8080'))
export const tokens = createTokenProvider({ ...optionsFromEnv(), fetch: proxied })
export const authFetch = createAuthFetch(tokens, { fetch: proxied })
