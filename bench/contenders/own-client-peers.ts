/** Packages that bring a client of their own, set up as their documentation says. */
import type { HttpClient } from '@azure/core-rest-pipeline'
import type { Contender } from '../contender.ts'
import { networkOf, statusOf } from './clients.ts'
import { requestToken } from './token-request.ts'

export const google: Contender = {
  name: 'google-auth-library',
  kind: 'peer',
  client: 'other',
  packages: ['google-auth-library'],
  note: 'knows no client credentials: its OAuth2Client with a `refreshHandler`, in which the token request is the user’s own',
  async create(service, transport) {
    const { OAuth2Client } = await import('google-auth-library')
    const client = new OAuth2Client(
      transport ? { transporterOptions: { fetchImplementation: transport.fetch } } : {},
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
  note: 'its bearerTokenAuthenticationPolicy alone in a pipeline, over fetch; it insists on https, so that the client behind the policy turns https into http here',
  async create(service, transport) {
    const { bearerTokenAuthenticationPolicy, createEmptyPipeline, createHttpHeaders, createPipelineRequest } =
      await import('@azure/core-rest-pipeline')
    const fetch = networkOf(transport)
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
