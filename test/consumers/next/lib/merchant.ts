import 'server-only'
import { createAuthFetch, createTokenProvider, optionsFromEnv } from 'merchant-auth'

const shared = globalThis as typeof globalThis & { merchantFetch?: typeof fetch }

/** On globalThis: pages and route handlers have copies of this module. At the first call: `next build` loads it. */
export const merchantFetch: typeof fetch = (input, init) => {
  shared.merchantFetch ??= createAuthFetch(createTokenProvider(optionsFromEnv()))
  return shared.merchantFetch(input, init)
}
