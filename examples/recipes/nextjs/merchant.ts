import { createAuthFetch, createTokenProvider, optionsFromEnv } from 'merchant-auth'

const shared = globalThis as typeof globalThis & { merchantFetch?: typeof fetch }

function createMerchantFetch(): typeof fetch {
  return createAuthFetch(createTokenProvider(optionsFromEnv()))
}

/** Created at the first call: `next build` imports this module, too. On globalThis: a hot reload imports it again. */
export const merchantFetch: typeof fetch = (input, init) => {
  shared.merchantFetch ??= createMerchantFetch()
  return shared.merchantFetch(input, init)
}
