import 'server-only'
import { createAuthFetch, createTokenProvider, optionsFromEnv } from 'merchant-auth'

function createMerchant() {
  const options = optionsFromEnv(process.env, { apis: ['merchant'] })
  return { url: options.environment.apiUrls.merchant, fetch: createAuthFetch(createTokenProvider(options)) }
}

/** On globalThis: a framework may load this module more than once, for pages and handlers, or after a change. */
const shared = globalThis as typeof globalThis & { merchant?: ReturnType<typeof createMerchant> }

/** Calls the merchant API: `merchantFetch('/orders')`. */
export async function merchantFetch(path: string, init?: RequestInit): Promise<Response> {
  shared.merchant ??= createMerchant() // at the first call: a build loads this module without the variables
  return await shared.merchant.fetch(shared.merchant.url + path, init)
}
