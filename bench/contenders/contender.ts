/** What a client under test is, and the one call that all clients of a kind make. */
import type { Readable } from 'node:stream'
import type { AxiosInstance, CreateAxiosDefaults } from 'axios'
import type { Dispatcher } from 'undici'

/** The payment service that a contender talks to. */
export interface Service {
  /** The token endpoint is `{authUrl}/oauth/token`. */
  readonly authUrl: string
  readonly audience: string
  readonly clientId: string
  readonly clientSecret: string
  /** Without a slash at its end. */
  readonly apiUrl: string
}

/** What calls to the API go through. A contender uses the one of its client, and the client's own where there is none. */
export interface Transport {
  readonly axios?: Pick<CreateAxiosDefaults, 'adapter' | 'httpAgent'>
  readonly fetch?: typeof fetch
  readonly dispatcher?: Dispatcher
}

export interface CallOptions {
  readonly signal?: AbortSignal
  readonly method?: 'POST'
  /** A web stream for fetch, one of Node.js for the others. */
  readonly body?: Readable | ReadableStream
  readonly duplex?: 'half'
}

export interface Client {
  /** Makes one call, a GET by default, to `{apiUrl}{path}` with the token, and resolves with the status, also of a 401. */
  call(path?: string, options?: CallOptions): Promise<number>
  /** As `call`, where `call` reads the status from an error: it rejects with that error. */
  send?(path?: string, options?: CallOptions): Promise<number>
  close?(): Promise<void>
}

export interface Contender {
  readonly name: string
  /** A `baseline` sends a constant header: nothing that looks for a token can cost less. */
  readonly kind: 'baseline' | 'ours' | 'before' | 'handwritten' | 'peer'
  readonly client: 'axios' | 'fetch' | 'undici' | 'other'
  /** What a user installs for it. */
  readonly packages: readonly string[]
  /** What a reader has to know to judge its figures. */
  readonly note?: string
  /** Sets it up as its documentation says. Token requests always go over the network. */
  create(service: Service, transport?: Transport): Promise<Client>
}

export interface TokenAnswer {
  readonly access_token: string
  readonly expires_in: number
}

function tokenRequest({ clientId, clientSecret, audience }: Service): Readonly<Record<string, string>> {
  return { client_id: clientId, client_secret: clientSecret, audience, grant_type: 'client_credentials' }
}

/** The token request as it is written by hand, for contenders that leave it to their users. */
export async function requestToken(service: Service): Promise<TokenAnswer> {
  const response = await fetch(`${service.authUrl}/oauth/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(tokenRequest(service)),
  })
  if (!response.ok) throw new Error(`The token endpoint answered ${response.status}`)
  return (await response.json()) as TokenAnswer
}

/** What the baselines send with every call. */
export async function constantHeader(service: Service): Promise<string> {
  return `Bearer ${(await requestToken(service)).access_token}`
}

/** The header of the lines that people write by hand: they keep the token until it expires. */
export function keptHeader(service: Service): () => Promise<string> {
  let token = ''
  let expiresAt = 0
  return async () => {
    if (Date.now() >= expiresAt) {
      const answer = await requestToken(service)
      token = answer.access_token
      expiresAt = Date.now() + answer.expires_in * 1_000
    }
    return `Bearer ${token}`
  }
}

/** The token request as users of axios write it. */
export async function requestTokenByAxios(service: Service): Promise<TokenAnswer> {
  const { default: axios } = await import('axios')
  return (await axios.post<TokenAnswer>(`${service.authUrl}/oauth/token`, tokenRequest(service))).data
}

const PATH = '/orders'

/** An instance of the one axios that all contenders share. */
export async function axiosInstance(service: Service, transport?: Transport): Promise<AxiosInstance> {
  const { default: axios } = await import('axios')
  return axios.create({ baseURL: service.apiUrl, ...transport?.axios })
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
    async send(path = PATH, { method = 'GET', body } = {}) {
      return (await instance.request({ url: path, method, ...(body && { data: body }) })).status
    },
  }
}

/** The status of the answer that an error of axios, or of Google's client, carries. */
export function statusOf(error: unknown): number {
  const { response } = error as { response?: { status: number } }
  if (!response) throw error
  return response.status
}

type Fetch = (url: string, init?: RequestInit) => Promise<Response>

export function fetchOf(transport: Transport | undefined): Fetch {
  return transport?.fetch ?? globalThis.fetch
}

/** Reads the body, as every caller does: an unread body keeps its connection. */
async function received(response: Response): Promise<number> {
  if (response.body) await response.arrayBuffer()
  return response.status
}

/** For something that is called like fetch. */
export function fetchClient(service: Service, fetch: Fetch): Client {
  return {
    async call(path = PATH, options) {
      return received(await fetch(service.apiUrl + path, options))
    },
  }
}

/** For a header value that the user asks for before each call. */
export function headerClient(service: Service, fetch: Fetch, header: () => Promise<string>): Client {
  return {
    async call(path = PATH, options) {
      const headers = { authorization: await header() }
      return received(await fetch(service.apiUrl + path, options ? { ...options, headers } : { headers }))
    },
  }
}

export async function undiciClient(
  service: Service,
  interceptor: Dispatcher.DispatcherComposeInterceptor,
  transport?: Transport,
  undici?: typeof import('undici'),
): Promise<Client> {
  const { Agent, request } = undici ?? (await import('undici'))
  const agent = transport?.dispatcher ?? new Agent()
  const dispatcher = agent.compose(interceptor)
  return {
    async call(path = PATH, options) {
      const init = options ? { ...(options as Parameters<typeof request>[1]), dispatcher } : { dispatcher }
      const { statusCode, body } = await request(service.apiUrl + path, init)
      await body.dump()
      return statusCode
    },
    close: () => agent.close(),
  }
}
