/** Types of the packages that come without. */
declare module 'axios-token-interceptor' {
  import type { InternalAxiosRequestConfig } from 'axios'

  interface TokenCache<T> {
    (): Promise<T>
    reset(): void
  }
  interface TokenInterceptor {
    <T>(options: {
      getToken: () => Promise<T>
      headerFormatter: (token: T) => string
    }): (config: InternalAxiosRequestConfig) => Promise<InternalAxiosRequestConfig>
    tokenCache<T>(getToken: () => Promise<T>, options: { getMaxAge: (token: T) => number }): TokenCache<T>
  }
  const tokenInterceptor: TokenInterceptor
  export default tokenInterceptor
}

declare module 'simple-oauth2' {
  interface AccessToken {
    readonly token: Readonly<Record<string, unknown>>
    expired(windowSeconds?: number): boolean
  }
  export class ClientCredentials {
    constructor(config: {
      client: { id: string; secret: string }
      auth: { tokenHost: string; tokenPath?: string }
      options?: { authorizationMethod?: 'header' | 'body' }
    })
    getToken(params: Readonly<Record<string, string>>): Promise<AccessToken>
  }
}

declare module 'undici-oidc-interceptor' {
  import type { Dispatcher } from 'undici'

  export function createOidcInterceptor(options: {
    clientId: string
    clientSecret: string
    idpTokenUrl: string
    audience: string
    urls: readonly string[]
  }): Dispatcher.DispatcherComposeInterceptor
}
