/** Other packages for axios, set up as their READMEs say. */
import type { Contender } from '../contender.ts'
import { axiosClient, axiosInstance } from './clients.ts'
import { requestToken, type TokenAnswer } from './token-request.ts'

export const axiosTokenInterceptor: Contender = {
  name: 'axios-token-interceptor',
  kind: 'peer',
  client: 'axios',
  packages: ['axios-token-interceptor', 'axios-oauth-client', 'axios'],
  note: 'with axios-oauth-client for the token request, which has no place for an audience; a 401 of the API is left to the caller',
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
  note: 'the token request is the user’s own: the first when it is set up, as after a login, all others after a 401, since it knows no expiry',
  async create(service, transport) {
    const { createAuthRefresh } = await import('axios-auth-refresh')
    const instance = await axiosInstance(service, transport)
    let token = (await requestToken(service)).access_token
    instance.interceptors.request.use((request) => {
      request.headers['Authorization'] = `Bearer ${token}`
      return request
    })
    // Its declarations mean those that axios has for CommonJS.
    createAuthRefresh(instance as Parameters<typeof createAuthRefresh>[0], async (failedRequest) => {
      token = (await requestToken(service)).access_token
      failedRequest.response.config.headers['Authorization'] = `Bearer ${token}`
    })
    return axiosClient(instance)
  },
}
