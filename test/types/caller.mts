/** A caller in TypeScript, as a service would write it. Compiled as ESM and as CommonJS against the built declarations. */
import axios, { type AxiosInstance } from 'axios'
import {
  type AuthEvent,
  createAuthFetch,
  createTokenProvider,
  defineEnvironments,
  isMerchantAuthError,
  type TokenProvider,
  type TokenProviderOptions,
} from 'merchant-auth'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { createStaticTokenProvider, startSandbox } from 'merchant-auth/testing'

export const environments = defineEnvironments({
  test: {
    authUrl: 'https://auth.test.example.com',
    audience: 'https://api.test.example.com',
    apiUrls: ['https://api.test.example.com/merchant', 'https://api.test.example.com/in-store'],
  },
})

export const options: TokenProviderOptions = {
  environment: environments.test,
  clientId: 'id',
  clientSecret: async () => 'secret',
  onEvent: (event) => console.log(told(event)),
}

export const tokens: TokenProvider = createTokenProvider(options)
export const api: AxiosInstance = axios.create({ baseURL: environments.test.apiUrls[0] })
export const detach: () => void = attachAuth(api, tokens, { header: 'X-Access-Token', scheme: '' })
export const plain = axios.create()
export const interceptor: number = plain.interceptors.request.use(createAuthInterceptor(options))
plain.interceptors.request.use(createAuthInterceptor(tokens, { renewOnStatus: [] }))
attachAuth(axios, tokens)

export const authFetch: typeof fetch = createAuthFetch(tokens, { fetch: globalThis.fetch })

/** Every event by its `type`, each with the fields of its own. The compiler says when one is missing. */
export function told(event: AuthEvent): string {
  switch (event.type) {
    case 'token-requested':
      return `attempt ${event.attempt.toFixed()}`
    case 'token-acquired':
      return `${event.source} ${event.durationMs.toFixed()} ${event.lifetimeMs.toFixed()}`
    case 'token-request-failed':
      return `${event.attempt.toFixed()} ${event.code} ${event.status?.toFixed()} ${event.error} ${event.nextTryMs?.toFixed()}`
    case 'token-rejected':
      return event.api?.toUpperCase() ?? ''
    case 'token-renewed':
      return event.reason
    case 'renewal-suppressed':
      return `${event.api} ${event.nextRenewalMs.toFixed()}`
    case 'token-withheld':
      return `${event.reason} ${event.url.toUpperCase()}`
    case 'store-failed':
      return event.operation
    default:
      return event satisfies never
  }
}

export async function call(): Promise<string> {
  const sandbox = await startSandbox()
  const none = createStaticTokenProvider()
  try {
    const response: Response = await authFetch(`${sandbox.test.merchantUrl}/orders`)
    return `${response.status} ${(await none.getToken({ signal: AbortSignal.timeout(1) })).value}`
  } catch (error) {
    return isMerchantAuthError(error) ? error.code : 'another error'
  } finally {
    await sandbox.close()
  }
}

// @ts-expect-error: the name of an option is checked
createTokenProvider({ ...options, timeout: 1 })
// @ts-expect-error: what is no axios instance cannot have a token
attachAuth({}, tokens)
