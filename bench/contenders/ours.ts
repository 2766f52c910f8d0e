/** This package, in each of its forms. */
import type { Environment, TokenProvider } from 'merchant-auth'
import type { Dispatcher } from 'undici'
import type { Client, Contender, Service } from '../contender.ts'
import { axiosClient, axiosInstance, fetchClient, undiciClient } from './clients.ts'

const environments = new WeakMap<Service, Environment>()

/** A provider of one service. All have the same environment, as the clients of a platform do. */
export async function providerOf(service: Service): Promise<TokenProvider> {
  const { createTokenProvider, defineEnvironments } = await import('merchant-auth')
  const { authUrl, audience, clientId, clientSecret, apiUrl } = service
  const environment =
    environments.get(service) ?? defineEnvironments({ bench: { authUrl, audience, apiUrls: [apiUrl] } }).bench
  environments.set(service, environment)
  return createTokenProvider({ environment, clientId, clientSecret })
}

function closing(tokens: TokenProvider, client: Client): Client {
  return {
    ...client,
    async close() {
      await tokens.close()
      await client.close?.()
    },
  }
}

export const attachAuth: Contender = {
  name: 'attachAuth',
  kind: 'ours',
  client: 'axios',
  packages: ['merchant-auth', 'axios'],
  async create(service, transport) {
    const { attachAuth } = await import('merchant-auth/axios')
    const tokens = await providerOf(service)
    const instance = await axiosInstance(service, transport)
    attachAuth(instance, tokens)
    return closing(tokens, axiosClient(instance))
  },
}

export const createAuthInterceptor: Contender = {
  name: 'createAuthInterceptor',
  kind: 'ours',
  client: 'axios',
  packages: ['merchant-auth', 'axios'],
  async create(service, transport) {
    const { createAuthInterceptor } = await import('merchant-auth/axios')
    const tokens = await providerOf(service)
    const instance = await axiosInstance(service, transport)
    instance.interceptors.request.use(createAuthInterceptor(tokens))
    return closing(tokens, axiosClient(instance))
  },
}

export const createAuthFetch: Contender = {
  name: 'createAuthFetch',
  kind: 'ours',
  client: 'fetch',
  packages: ['merchant-auth'],
  async create(service, transport) {
    const { createAuthFetch } = await import('merchant-auth')
    const tokens = await providerOf(service)
    const authFetch = createAuthFetch(tokens, transport && { fetch: transport.fetch })
    return closing(tokens, fetchClient(service, authFetch))
  },
}

export const createAuthDispatch: Contender = {
  name: 'createAuthDispatch',
  kind: 'ours',
  client: 'undici',
  packages: ['merchant-auth', 'undici'],
  async create(service, transport) {
    const entry: string = 'merchant-auth/undici'
    const { createAuthDispatch } = (await import(entry)) as {
      createAuthDispatch: (tokens: TokenProvider) => Dispatcher.DispatcherComposeInterceptor
    }
    const tokens = await providerOf(service)
    return closing(
      tokens,
      await undiciClient(service, { transport, interceptor: createAuthDispatch(tokens) }),
    )
  },
}
