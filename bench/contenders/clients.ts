/** One GET with axios, with fetch and with undici, the same for every contender of that kind. */
import type { AxiosInstance } from 'axios'
import type { Dispatcher } from 'undici'
import type { Client, Service, Transport } from '../contender.ts'

/** Where `call` goes if it is not told. */
const PATH = '/orders'

/** The contender's own instance of the one axios that all share. */
export async function axiosInstance(service: Service, transport?: Transport): Promise<AxiosInstance> {
  const { default: axios } = await import('axios')
  return axios.create({ baseURL: service.apiUrl, ...(transport && { adapter: transport.adapter }) })
}

export function axiosClient(instance: AxiosInstance): Client {
  return {
    async call(path = PATH, options) {
      try {
        return (await instance.get(path, options)).status
      } catch (error) {
        return statusOf(error)
      }
    },
  }
}

/** The status of the answer that an error carries, as those of axios and of Google's client do. */
export function statusOf(error: unknown): number {
  const { response } = error as { response?: { status: number } }
  if (!response) throw error
  return response.status
}

export type Fetch = (url: string, init?: RequestInit) => Promise<Response>

/** Reads the body, as every caller does: what is left unread keeps its connection. */
async function received(response: Response): Promise<number> {
  if (response.body) await response.arrayBuffer()
  return response.status
}

/** Of something that is called like fetch. */
export function fetchClient(service: Service, fetch: Fetch): Client {
  return {
    async call(path = PATH, options) {
      return received(await fetch(service.apiUrl + path, options))
    },
  }
}

/** Of a header value that has to be asked for before each call. */
export function headerClient(
  service: Service,
  { fetch, header }: { fetch: Fetch; header: () => Promise<string> },
): Client {
  return {
    async call(path = PATH, options) {
      const headers = { authorization: await header() }
      return received(await fetch(service.apiUrl + path, options ? { ...options, headers } : { headers }))
    },
  }
}

export async function undiciClient(
  service: Service,
  {
    transport,
    interceptor,
  }: { transport: Transport | undefined; interceptor: Dispatcher.DispatcherComposeInterceptor },
): Promise<Client> {
  const { Agent, request } = await import('undici')
  const agent = transport?.dispatcher ?? new Agent()
  const dispatcher = agent.compose(interceptor)
  return {
    async call(path = PATH, options) {
      const init = options ? { ...options, dispatcher } : { dispatcher }
      const { statusCode, body } = await request(service.apiUrl + path, init)
      await body.dump()
      return statusCode
    },
    close: () => agent.close(),
  }
}

/** For the contenders that leave the call to the network to fetch. */
export function networkOf(transport: Transport | undefined): Fetch {
  return transport?.fetch ?? globalThis.fetch
}
