/** This package in each of its forms; for a comparison of two builds, the earlier build too. */
import type { Environment, TokenProvider } from 'merchant-auth'
import {
  axiosClient,
  axiosInstance,
  type Client,
  type Contender,
  fetchClient,
  type Service,
  undiciClient,
} from './contender.ts'

/** `merchant-auth-before` is what `--against` installs. */
type Package = 'merchant-auth' | 'merchant-auth-before'
type Axios = typeof import('merchant-auth/axios')
type Undici = typeof import('merchant-auth/undici')

export const ours: readonly Contender[] = contendersOf('merchant-auth')
export const oursBefore: readonly Contender[] = contendersOf('merchant-auth-before')

/** The name of the same contender in the earlier build. */
export function before(name: string): string {
  return `${name}, before`
}

const environments = new WeakMap<Service, Environment>()

/** All providers of a service have the same environment, as the clients of a platform do. */
export async function providerOf(
  service: Service,
  from: Package = 'merchant-auth',
): Promise<{ tokens: TokenProvider; createAuthFetch: typeof import('merchant-auth').createAuthFetch }> {
  const entry: typeof import('merchant-auth') = await import(from)
  const { authUrl, audience, clientId, clientSecret, apiUrl } = service
  const environment = environments.get(service) ?? { authUrl, audience, apiUrls: [apiUrl] }
  environments.set(service, environment)
  const tokens = entry.createTokenProvider({ environment, clientId, clientSecret })
  return { tokens, createAuthFetch: entry.createAuthFetch }
}

function contendersOf(from: Package): Contender[] {
  const isBefore = from === 'merchant-auth-before'
  const contender = (name: string, client: Contender['client'], create: Contender['create']): Contender => ({
    name: isBefore ? before(name) : name,
    kind: isBefore ? 'before' : 'ours',
    client,
    packages: client === 'fetch' ? ['merchant-auth'] : ['merchant-auth', client],
    create,
  })
  return [
    contender('attachAuth', 'axios', async (service, transport) => {
      const { attachAuth }: Axios = await import(`${from}/axios`)
      const { tokens } = await providerOf(service, from)
      const instance = await axiosInstance(service, transport)
      attachAuth(instance, tokens)
      return closing(tokens, axiosClient(instance))
    }),
    contender('createAuthInterceptor', 'axios', async (service, transport) => {
      const { createAuthInterceptor }: Axios = await import(`${from}/axios`)
      const { tokens } = await providerOf(service, from)
      const instance = await axiosInstance(service, transport)
      instance.interceptors.request.use(createAuthInterceptor(tokens))
      return closing(tokens, axiosClient(instance))
    }),
    contender('createAuthFetch', 'fetch', async (service, transport) => {
      const { tokens, createAuthFetch } = await providerOf(service, from)
      const options = transport?.fetch && { fetch: transport.fetch }
      return closing(tokens, fetchClient(service, createAuthFetch(tokens, options)))
    }),
    contender('createAuthDispatch', 'undici', async (service, transport) => {
      const { createAuthDispatch }: Undici = await import(`${from}/undici`)
      const { tokens } = await providerOf(service, from)
      return closing(tokens, await undiciClient(service, createAuthDispatch(tokens), transport))
    }),
  ]
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
