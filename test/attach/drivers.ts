/** The clients behind one interface: the behavior of every client is tested with these drivers. */
import axios, {
  type AxiosError,
  type AxiosInstance,
  type AxiosStatic,
  CanceledError,
  type CreateAxiosDefaults,
} from 'axios'
import { type AttachOptions, createAuthFetch, type TokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'

/** One call, in terms that all clients share. */
export interface Call {
  /** fetch also accepts a Request. */
  readonly url: string | Request
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly signal?: AbortSignal
  /** Further options of this client. */
  readonly options?: object
}

export interface Answer {
  readonly status: number
  readonly text: string
  header(name: string): string | undefined
  /** The client's own response object. */
  readonly own: unknown
}

/** Makes a call. Resolves for every status. */
export type Client = (call: Call) => Promise<Answer>

export interface Driver {
  readonly name: string
  /** A client with the token attached; without a provider, a plain client. */
  create(tokens?: TokenProvider, attach?: AttachOptions): Client
  /** Whether this is the error that callers of this client get for an aborted signal. */
  isAbort(error: unknown, reason: unknown): boolean
}

/** An axios instance with the token attached. */
export function axiosWith(
  tokens: TokenProvider,
  config: CreateAxiosDefaults = {},
  { attach, copy = axios }: { attach?: AttachOptions | undefined; copy?: AxiosStatic } = {},
): AxiosInstance {
  const api = copy.create(config)
  attachAuth(api, tokens, attach)
  return api
}

function axiosDriver(name: string, adapter: NonNullable<CreateAxiosDefaults['adapter']>): Driver {
  return {
    name,
    create: (tokens, attach) => {
      const config = { adapter, proxy: false, validateStatus: () => true } as const
      const api = tokens ? axiosWith(tokens, config, { attach }) : axios.create(config)
      return async ({ url, body: data, options, ...call }) => {
        const config = { url: url as string, data, responseType: 'text', ...call, ...options } as const
        const own = await api.request({ transformResponse: [(text) => text], ...config })
        const header = (name: string): string | undefined => own.headers[name]
        return { status: own.status, text: String(own.data), header, own }
      }
    },
    isAbort: (error) => error instanceof CanceledError && (error as AxiosError).code === 'ERR_CANCELED',
  }
}

export const AXIOS_HTTP: Driver = axiosDriver('axios http', 'http')
export const AXIOS_FETCH: Driver = axiosDriver('axios fetch', 'fetch')
/** A custom adapter that wraps axios' own. */
export const AXIOS_FUNCTION: Driver = axiosDriver('axios function', (config) =>
  axios.getAdapter('http')(config),
)

export const AXIOS_FUNCTION_FETCH: Driver = axiosDriver('axios function around fetch', (config) =>
  axios.getAdapter('fetch', config as never)(config),
)

export const FETCH: Driver = {
  name: 'fetch',
  create: (tokens, attach) => {
    const send = tokens === undefined ? fetch : createAuthFetch(tokens, attach)
    return async ({ url, body, options, ...init }) => {
      const own = await send(url, {
        ...init,
        ...options,
        ...(body === undefined ? {} : { body: body as string, duplex: 'half' }),
      })
      const header = (name: string): string | undefined => own.headers.get(name) ?? undefined
      return { status: own.status, text: await own.text(), header, own }
    }
  },
  isAbort: (error, reason) => error === reason,
}

/** The part of undici that is used here, in any version. */
export interface Undici {
  readonly Agent: new () => { compose(interceptor: unknown): unknown }
  request(url: string, options: object): Promise<UndiciAnswer>
}

interface UndiciAnswer {
  readonly statusCode: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: { text(): Promise<string> }
}

/** undici is a parameter because it has to be loaded last: it may change Node's own fetch. */
export function undiciDriver(
  name: string,
  undici: Undici,
  createAuthDispatch: (tokens: TokenProvider, attach?: AttachOptions) => unknown,
): Driver {
  return {
    name,
    create: (tokens, attach) => {
      const agent = new undici.Agent()
      const dispatcher = tokens === undefined ? agent : agent.compose(createAuthDispatch(tokens, attach))
      return async ({ url, body, options, ...call }) => {
        const given = { dispatcher, ...(body === undefined ? {} : { body }), ...call, ...options }
        const own = await undici.request(url as string, given)
        const header = (name: string): string | undefined => own.headers[name]?.toString()
        return { status: own.statusCode, text: await own.body.text(), header, own }
      }
    },
    isAbort: (error, reason) => error === reason,
  }
}
