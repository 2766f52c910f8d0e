import { waitUntil } from 'cloudflare:workers'
import { setTimeout } from 'node:timers/promises'
import { createAuthFetch, createTokenProvider, optionsFromEnv } from 'merchant-auth'

// process.env has the Worker's variables and secrets.
const options = optionsFromEnv(process.env, { apis: ['merchant'] })

// Outside of the handler: once for each isolate, not for each request.
const tokens = createTokenProvider({
  ...options,
  onEvent: ({ type }) => {
    // The request stays open until the token is there, even after its response or its cancellation.
    if (type === 'token-requested') waitUntil(setTimeout(10_000))
  },
})
const authFetch = createAuthFetch(tokens)

export default {
  async fetch(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url)
    return await authFetch(`${options.environment.apiUrls.merchant}${pathname}`)
  },
}
