/** The Worker that workers.mts starts: each isolate has one provider, and a request says what to do with it. */

import { waitUntil } from 'cloudflare:workers'
import { setTimeout } from 'node:timers/promises'
import axios from 'axios'
import {
  type AuthEvent,
  type Clock,
  createAuthFetch,
  createTokenProvider,
  optionsFromEnv,
  type TokenStore,
} from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { createTelemetry } from 'merchant-auth/opentelemetry'
import { createStaticTokenProvider } from 'merchant-auth/testing'
import { tokenStore } from '../../examples/recipes/cloudflare/token-store.ts'

export { TokenEntries } from '../../examples/recipes/cloudflare/token-store.ts'

let aheadMs = 0
const clock: Clock = {
  monotonicMs: () => performance.now() + aheadMs,
  epochMs: () => Date.now() + aheadMs,
  sleep: (ms, signal) => setTimeout(ms, undefined, { signal }),
}

/** A write that takes longer than its limit, and ends with its request. */
const slowStore: TokenStore = {
  ...tokenStore,
  async set(...entry) {
    await setTimeout(5_000)
    await tokenStore.set(...entry)
  },
}
const STORES: Readonly<Record<string, TokenStore>> = { fast: tokenStore, slow: slowStore }
const store = STORES[process.env['STORE'] ?? '']
const options = optionsFromEnv()
const telemetry = createTelemetry()
const tokens = createTokenProvider({
  ...options,
  clock,
  ...(store && { store }),
  onEvent(event: AuthEvent) {
    telemetry(event)
    if (process.env['WAIT_UNTIL'] && event.type === 'token-requested') waitUntil(setTimeout(10_000))
  },
})
const api = axios.create({ validateStatus: () => true })
attachAuth(api, tokens)
const clients: Readonly<Record<string, (url: string, signal: AbortSignal) => Promise<{ status: number }>>> = {
  fetch: (url, signal) => createAuthFetch(tokens)(url, { signal }),
  axios: (url, signal) => api.get(url, { signal }),
  static: (url, signal) => createAuthFetch(createStaticTokenProvider(options))(url, { signal }),
}

export default {
  async fetch(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url)
    aheadMs += Number(searchParams.get('ahead'))
    if (pathname === '/current') return new Response(tokens.currentToken()?.value)
    const client = clients[searchParams.get('client') ?? 'fetch']
    const signal = AbortSignal.timeout(Number(searchParams.get('timeout') ?? 20_000))
    try {
      const response = await client?.(`${options.environment.apiUrls['merchant']}/orders`, signal)
      return new Response(null, { status: response?.status ?? 404 })
    } catch (error) {
      return new Response(`${error}`, { status: 500 })
    }
  },
}
