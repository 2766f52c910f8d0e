/** A TypeScript caller without any client package, which uses only global types that both Node.js and the DOM have. */
import {
  type AccessToken,
  type Clock,
  createAuthFetch,
  createTokenProvider,
  defineEnvironments,
  type Environment,
  optionsFromEnv,
  type TokenProvider,
  type TokenProviderOptions,
  TokenRequestError,
  type TokenStore,
} from 'merchant-auth'
import { type AxiosLike, attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { createRedisTokenStore } from 'merchant-auth/redis'
import { createStaticTokenProvider, type Sandbox, startSandbox } from 'merchant-auth/testing'

const environment: Environment = {
  name: undefined,
  authUrl: 'https://auth.example.com',
  tokenPath: undefined,
  audience: 'https://api.example.com',
  apiUrls: ['https://api.example.com/merchant'],
  allowInsecureRequests: undefined,
}

/** Every option accepts undefined, even with `exactOptionalPropertyTypes`. */
export const unset = {
  environment: defineEnvironments({ test: environment }).test,
  clientId: 'id',
  clientSecret: 'secret',
  clientAssertion: undefined,
  tokenEndpointAuthMethod: undefined,
  tokenParameters: undefined,
  timeoutMs: undefined,
  retries: undefined,
  refreshAheadMs: undefined,
  expiryMarginMs: undefined,
  bodyFormat: undefined,
  lifetimeIfMissingMs: undefined,
  store: undefined,
  encryptionKeys: undefined,
  fetch: undefined,
  onEvent: undefined,
  clock: undefined,
} satisfies TokenProviderOptions & Readonly<Record<keyof TokenProviderOptions, unknown>>
export const clock: Clock = {
  monotonicMs: () => 0,
  epochMs: () => 0,
  sleep: (_ms: number, signal?: AbortSignal) => Promise.reject(signal?.reason),
}
const given = { ...unset, fetch, clock, clientSecret: () => Promise.resolve('secret') }
export const tokens: TokenProvider = createTokenProvider(given)
export const basic: TokenProvider = createTokenProvider({
  ...optionsFromEnv(),
  tokenEndpointAuthMethod: 'client_secret_basic',
})

const unattached = { header: undefined, scheme: undefined, renewOnStatus: undefined }
export const authFetch: typeof fetch = createAuthFetch(tokens, { ...unattached, fetch: undefined })
export const nested: typeof fetch = createAuthFetch(tokens, { fetch: authFetch })

declare const instance: AxiosLike
export const detach: () => void = attachAuth(instance, tokens, unattached)
instance.interceptors.request.use(createAuthInterceptor(given, unattached))

const client = { isOpen: true, sendCommand() {}, eval: () => Promise.resolve(undefined) }
export const store: TokenStore = createRedisTokenStore(client, {
  keyPrefix: undefined,
})

export async function call(signal: AbortSignal): Promise<string> {
  await using provider = createTokenProvider({ ...unset, store })
  const sandbox: Sandbox = await startSandbox()
  try {
    const token: AccessToken = await provider.getToken({ signal: undefined })
    await provider.renewToken(token, { signal, url: new URL('https://api.example.com/merchant') })
    const headers = new Headers({ 'X-Trace': token.value })
    const request = new Request(`${sandbox.test.merchantUrl}/orders`, { method: 'POST', headers })
    const response: Response = await authFetch(request, { body: new Blob(['a']), signal })
    const first = sandbox.test.requests('merchant')[0]
    return `${response.status} ${first?.body?.byteLength} ${createStaticTokenProvider().currentToken()?.scope}`
  } catch (error) {
    return error instanceof TokenRequestError
      ? `${error.code} ${error.retryAfterMs?.toFixed()}`
      : 'another error'
  } finally {
    await sandbox.close()
  }
}
