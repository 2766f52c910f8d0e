/** Other packages for the same task, set up as their documentation says. */
import { createRequire } from 'node:module'
import type { HttpClient } from '@azure/core-rest-pipeline'
import type { CustomFetch } from 'openid-client'
import {
  axiosClient,
  axiosInstance,
  type Contender,
  fetchClient,
  fetchOf,
  headerClient,
  requestToken,
  requestTokenByAxios,
  statusOf,
  type TokenAnswer,
  undiciClient,
} from './contender.ts'

export const axiosTokenInterceptor: Contender = {
  name: 'axios-token-interceptor',
  kind: 'peer',
  client: 'axios',
  packages: ['axios-token-interceptor', 'axios-oauth-client', 'axios'],
  note: 'with axios-oauth-client for the token request, which cannot send an audience; it does not handle a 401 of the API',
  async create(service, transport) {
    const { default: tokenProvider } = await import('axios-token-interceptor')
    const { clientCredentials } = await import('axios-oauth-client')
    const { default: axios } = await import('axios')
    const { authUrl, clientId, clientSecret } = service
    const getClientCredentials = clientCredentials(
      axios.create(),
      `${authUrl}/oauth/token`,
      clientId,
      clientSecret,
    ) as (scope: string) => Promise<TokenAnswer>
    const cache = tokenProvider.tokenCache(() => getClientCredentials('merchant'), {
      getMaxAge: (body) => body.expires_in * 1_000,
    })
    const instance = await axiosInstance(service, transport)
    instance.interceptors.request.use(
      tokenProvider({ getToken: cache, headerFormatter: (body) => `Bearer ${body.access_token}` }),
    )
    return axiosClient(instance)
  },
}

export const axiosAuthRefresh: Contender = {
  name: 'axios-auth-refresh',
  kind: 'peer',
  client: 'axios',
  packages: ['axios-auth-refresh', 'axios'],
  note: 'the user writes the token request: one at set-up, as after a login, the others after a 401, since it knows no expiry',
  async create(service, transport) {
    const { createAuthRefresh } = await import('axios-auth-refresh')
    const instance = await axiosInstance(service, transport)
    let token = (await requestTokenByAxios(service)).access_token
    instance.interceptors.request.use((request) => {
      request.headers['Authorization'] = `Bearer ${token}`
      return request
    })
    // Its declarations refer to axios' declarations for CommonJS.
    createAuthRefresh(instance as Parameters<typeof createAuthRefresh>[0], async (failedRequest) => {
      token = (await requestTokenByAxios(service)).access_token
      failedRequest.response.config.headers['Authorization'] = `Bearer ${token}`
    })
    return axiosClient(instance)
  },
}

export const badgateway: Contender = {
  name: '@badgateway/oauth2-client',
  kind: 'peer',
  client: 'fetch',
  packages: ['@badgateway/oauth2-client'],
  note: 'its OAuth2Fetch; every call becomes a Request, which is cloned for a retry',
  async create(service, transport) {
    const { OAuth2Client, OAuth2Fetch } = await import('@badgateway/oauth2-client')
    const client = new OAuth2Client({
      server: `${service.authUrl}/`,
      clientId: service.clientId,
      clientSecret: service.clientSecret,
      tokenEndpoint: '/oauth/token',
      authenticationMethod: 'client_secret_post',
    })
    const wrapper = new OAuth2Fetch({
      client,
      getNewToken: () => client.clientCredentials({ extraParams: { audience: service.audience } }),
    })
    const { fetch } = transport ?? {}
    if (!fetch) return fetchClient(service, (url, init) => wrapper.fetch(url, init))
    // What its fetch method does, with another network.
    return fetchClient(service, async (url, init) =>
      wrapper.mw()(new Request(url, init), (req) => fetch(req)),
    )
  },
}

export const undiciOidcInterceptor: Contender = {
  name: 'undici-oidc-interceptor',
  kind: 'peer',
  client: 'undici',
  packages: ['undici-oidc-interceptor', 'undici'],
  note: 'with the undici 7 that it depends on: undici 8 does not pass its `dispatcher` option on, and a rejected call is repeated without a token',
  async create(service, transport) {
    const { createOidcInterceptor } = await import('undici-oidc-interceptor')
    const itsRequire = createRequire(import.meta.resolve('undici-oidc-interceptor'))
    const interceptor = createOidcInterceptor({
      clientId: service.clientId,
      clientSecret: service.clientSecret,
      idpTokenUrl: `${service.authUrl}/oauth/token`,
      audience: service.audience,
      urls: [new URL(service.apiUrl).origin],
    })
    return undiciClient(service, interceptor, transport, itsRequire('undici') as typeof import('undici'))
  },
}

export const simpleOauth2: Contender = {
  name: 'simple-oauth2',
  kind: 'peer',
  client: 'fetch',
  packages: ['simple-oauth2'],
  note: 'only requests tokens: the user checks the expiry and sets the header, and concurrent calls share nothing',
  async create(service, transport) {
    const { ClientCredentials } = await import('simple-oauth2')
    const client = new ClientCredentials({
      client: { id: service.clientId, secret: service.clientSecret },
      auth: { tokenHost: service.authUrl, tokenPath: '/oauth/token' },
      options: { authorizationMethod: 'body' },
    })
    const params = { audience: service.audience }
    let accessToken: Awaited<ReturnType<typeof client.getToken>> | undefined
    return headerClient(service, fetchOf(transport), async () => {
      if (!accessToken || accessToken.expired()) accessToken = await client.getToken(params)
      return `Bearer ${accessToken.token['access_token']}`
    })
  },
}

export const openidClient: Contender = {
  name: 'openid-client',
  kind: 'peer',
  client: 'fetch',
  packages: ['openid-client'],
  note: 'calls through its fetchProtectedResource, which takes no signal; the user caches the token, and concurrent calls share nothing',
  async create(service, transport) {
    const openid = await import('openid-client')
    const { authUrl, audience, clientId, clientSecret } = service
    const server = { issuer: authUrl, token_endpoint: `${authUrl}/oauth/token` }
    const config = new openid.Configuration(server, clientId, clientSecret)
    openid.allowInsecureRequests(config)
    let tokens: Awaited<ReturnType<typeof openid.clientCredentialsGrant>> | undefined
    async function accessToken(): Promise<string> {
      if (!tokens?.expiresIn()) {
        tokens = await openid.clientCredentialsGrant(config, { audience })
        if (transport?.fetch) config[openid.customFetch] = transport.fetch as CustomFetch
      }
      return tokens.access_token
    }
    return fetchClient(service, async (url, { method = 'GET', body } = {}) =>
      openid.fetchProtectedResource(
        config,
        await accessToken(),
        new URL(url),
        method,
        body as ReadableStream,
      ),
    )
  },
}

export const auth0: Contender = {
  name: 'auth0',
  kind: 'peer',
  client: 'fetch',
  packages: ['auth0'],
  note: 'its TokenProvider, asked before each call; it requires https, so its `fetch` option turns https into http here',
  async create(service, transport) {
    const { TokenProvider } = await import('auth0/management')
    const tokenProvider = new TokenProvider({
      domain: new URL(service.authUrl).host,
      clientId: service.clientId,
      clientSecret: service.clientSecret,
      audience: service.audience,
      fetch: (input, init) =>
        fetch(String(input).replace(/^https:/, new URL(service.authUrl).protocol), init),
    })
    return headerClient(
      service,
      fetchOf(transport),
      async () => `Bearer ${await tokenProvider.getAccessToken()}`,
    )
  },
}

export const google: Contender = {
  name: 'google-auth-library',
  kind: 'peer',
  client: 'other',
  packages: ['google-auth-library'],
  note: 'does not support client credentials: its OAuth2Client with a `refreshHandler`, in which the user writes the token request',
  async create(service, transport) {
    const { OAuth2Client } = await import('google-auth-library')
    const client = new OAuth2Client(
      transport?.fetch ? { transporterOptions: { fetchImplementation: transport.fetch } } : {},
    )
    client.refreshHandler = async () => {
      const { access_token, expires_in } = await requestToken(service)
      return { access_token, expiry_date: Date.now() + expires_in * 1_000 }
    }
    return {
      async call(path = '/orders', options) {
        try {
          return (await client.request({ url: service.apiUrl + path, ...options })).status
        } catch (error) {
          return statusOf(error)
        }
      },
    }
  },
}

export const azure: Contender = {
  name: '@azure/core-rest-pipeline',
  kind: 'peer',
  client: 'other',
  packages: ['@azure/core-rest-pipeline'],
  note: 'its bearerTokenAuthenticationPolicy alone in a pipeline, over fetch; it requires https, so the client behind the policy turns https into http here',
  async create(service, transport) {
    const { bearerTokenAuthenticationPolicy, createEmptyPipeline, createHttpHeaders, createPipelineRequest } =
      await import('@azure/core-rest-pipeline')
    const fetch = fetchOf(transport)
    const https = service.apiUrl.replace(/^http:/, 'https:')
    const httpClient: HttpClient = {
      async sendRequest(request) {
        const response = await fetch(service.apiUrl + request.url.slice(https.length), {
          headers: request.headers.toJSON({ preserveCase: true }),
          ...(request.abortSignal && { signal: request.abortSignal as AbortSignal }),
        })
        const bodyAsText = response.body ? await response.text() : ''
        return {
          request,
          headers: createHttpHeaders(Object.fromEntries(response.headers)),
          status: response.status,
          bodyAsText,
        }
      },
    }
    const pipeline = createEmptyPipeline()
    const credential = {
      async getToken() {
        const { access_token, expires_in } = await requestToken(service)
        return { token: access_token, expiresOnTimestamp: Date.now() + expires_in * 1_000 }
      },
    }
    pipeline.addPolicy(bearerTokenAuthenticationPolicy({ credential, scopes: service.audience }))
    return {
      async call(path = '/orders', options) {
        const request = createPipelineRequest({
          url: https + path,
          ...(options?.signal && { abortSignal: options.signal }),
        })
        return (await pipeline.sendRequest(httpClient, request)).status
      },
    }
  },
}
