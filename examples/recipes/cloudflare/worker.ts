import { waitUntil } from 'cloudflare:workers'
import { setTimeout } from 'node:timers/promises'
import { createAuthFetch, createTokenProvider, optionsFromEnv } from 'merchant-auth'

process.on('warning', (warning) => console.warn(warning.message)) // Workers do not log them

// process.env has the Worker's variables and secrets.
const options = optionsFromEnv(process.env, { apis: ['merchant'] })

// Outside of the handler: once for each isolate, not for each request.
const tokens = createTokenProvider({
  ...options,
  onEvent: (event) => {
    // The request stays open until the token is there, even after its response or its cancellation.
    if (event.type === 'token-requested') waitUntil(setTimeout(10_000))
    if (event.type === 'store-failed') console.warn('token store failed:', event.operation, event.code)
  },
})
const authFetch = createAuthFetch(tokens)

export default {
  async fetch(request: Request): Promise<Response> {
    if (request.method !== 'GET') return new Response(null, { status: 405, headers: { Allow: 'GET' } })
    const { pathname, search } = new URL(request.url)
    return await authFetch(`${options.environment.apiUrls.merchant}${pathname}${search}`)
  },
}
