/** Other packages for fetch, set up as their READMEs say. */
import type { CustomFetch } from 'openid-client'
import type { Contender } from '../contender.ts'
import { fetchClient, headerClient, networkOf } from './clients.ts'

export const badgateway: Contender = {
  name: '@badgateway/oauth2-client',
  kind: 'peer',
  client: 'fetch',
  packages: ['@badgateway/oauth2-client'],
  note: 'its OAuth2Fetch; every call becomes a Request, which is cloned for a second try',
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
    if (!transport) return fetchClient(service, (url, init) => wrapper.fetch(url, init))
    // What its fetch method does, with another network.
    const { fetch } = transport
    return fetchClient(service, async (url, init) =>
      wrapper.mw()(new Request(url, init), (req) => fetch(req)),
    )
  },
}

export const simpleOauth2: Contender = {
  name: 'simple-oauth2',
  kind: 'peer',
  client: 'fetch',
  packages: ['simple-oauth2'],
  note: 'gets tokens only: the look at the expiry and the header are the user’s own, and nothing is shared',
  async create(service, transport) {
    const { ClientCredentials } = await import('simple-oauth2')
    const client = new ClientCredentials({
      client: { id: service.clientId, secret: service.clientSecret },
      auth: { tokenHost: service.authUrl, tokenPath: '/oauth/token' },
      options: { authorizationMethod: 'body' },
    })
    const params = { audience: service.audience }
    let accessToken: Awaited<ReturnType<typeof client.getToken>> | undefined
    return headerClient(service, {
      fetch: networkOf(transport),
      async header() {
        if (!accessToken || accessToken.expired()) accessToken = await client.getToken(params)
        return `Bearer ${accessToken.token['access_token']}`
      },
    })
  },
}

export const openidClient: Contender = {
  name: 'openid-client',
  kind: 'peer',
  client: 'fetch',
  packages: ['openid-client'],
  note: 'calls by its fetchProtectedResource, which takes no signal; keeping the token is the user’s own, and nothing is shared',
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
        if (transport) config[openid.customFetch] = transport.fetch as CustomFetch
      }
      return tokens.access_token
    }
    return fetchClient(service, async (url) =>
      openid.fetchProtectedResource(config, await accessToken(), new URL(url), 'GET'),
    )
  },
}

export const auth0: Contender = {
  name: 'auth0',
  kind: 'peer',
  client: 'fetch',
  packages: ['auth0'],
  note: 'its TokenProvider, asked before each call; it insists on https for the token endpoint, so that its own `fetch` option turns https into http here',
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
    return headerClient(service, {
      fetch: networkOf(transport),
      header: async () => `Bearer ${await tokenProvider.getAccessToken()}`,
    })
  },
}
