import { createAuthFetch, createTokenProvider, optionsFromEnv } from 'merchant-auth'

const shared = globalThis as typeof globalThis & { merchantFetch?: typeof fetch }

function createMerchantFetch(): typeof fetch {
  const tokens = createTokenProvider({
    ...optionsFromEnv(),
    // Next.js replaces fetch by one that may cache the response, and with it the token.
    fetch: (input, init) => fetch(input, { ...init, cache: 'no-store' }),
  })
  return createAuthFetch(tokens)
}

/** Created at the first call: `next build` imports this module, too. On globalThis: a hot reload imports it again. */
export const merchantFetch: typeof fetch = (input, init) => {
  shared.merchantFetch ??= createMerchantFetch()
  return shared.merchantFetch(input, init)
}
