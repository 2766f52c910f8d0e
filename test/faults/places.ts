/** What the tests of destinations and redirects share: an API beside a server that must see no token, and clients. */
import { Agent, createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import axios, { type AxiosInstance, type CreateAxiosDefaults } from 'axios'
import { type AttachOptions, createAuthFetch } from 'merchant-auth'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { expect } from 'vitest'
import { ADAPTERS } from '../attach/calls.ts'
import { ENVIRONMENT, type Rig, rig } from '../token/harness.ts'

/** What every token of the scripted token endpoint begins with. */
export const TOKEN_BEGINS = 'head.body.signature-'
const UNSEEN = /[\u007f-\u00a0\u00ad\u0400-\u04ff\u200b-\u200f\ufeff]|\p{M}/gu

/** A URL as a string literal in which nothing hides. */
export function shown(url: string): string {
  const literal = JSON.stringify(url).replace(
    UNSEEN,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
  return `\`${literal}\``
}

/** One word for what all ways came to. */
export function agreed(all: readonly string[]): string {
  const [first = 'nothing'] = all
  return all.every((one) => one === first) ? first : all.join('; ')
}

/** What fetch can be given for a URL. */
export function inputsOf(url: string): (string | URL | Request)[] {
  const inputs: (string | URL | Request)[] = [url]
  for (const make of [() => new URL(url), () => new Request(url)]) {
    try {
      inputs.push(make())
    } catch {
      // Not every string is a URL, and no Request takes user info.
    }
  }
  return inputs
}

export type How = 'attachAuth' | 'createAuthInterceptor'

export const HOWS: readonly How[] = ['attachAuth', 'createAuthInterceptor']

/** An axios instance whose connections end with each call: none of them knows of the call before. */
export function instance(config: CreateAxiosDefaults): AxiosInstance {
  const httpAgent = new Agent({ keepAlive: false })
  return axios.create({ validateStatus: () => true, proxy: false, httpAgent, ...config })
}

/** The same with the token, by either of the two ways. */
export function client(
  { provider }: Rig,
  how: How,
  config: CreateAxiosDefaults,
  attach?: AttachOptions,
): AxiosInstance {
  const api = instance(config)
  if (how === 'attachAuth') attachAuth(api, provider, attach)
  else api.interceptors.request.use(createAuthInterceptor(provider, attach))
  return api
}

/** The three that follow redirects, and the two kinds of headers, which they treat in different ways. */
export const CLIENTS = ['axios http', 'axios fetch', 'fetch'] as const
export type Client = (typeof CLIENTS)[number]
export const HEADERS: Readonly<Record<string, AttachOptions>> = {
  Authorization: {},
  'X-Access-Token': { header: 'X-Access-Token', scheme: '' },
}

/** A GET by one of the clients. */
export async function get(
  by: Client,
  auth: Rig,
  url: string,
  header: string,
): Promise<{ readonly status: number }> {
  if (by === 'fetch') return await createAuthFetch(auth.provider, HEADERS[header])(url)
  const adapter = by === 'axios http' ? 'http' : 'fetch'
  return await client(auth, 'attachAuth', { adapter }, HEADERS[header]).get(url)
}

/** A request as a server saw it. */
export interface Arrival {
  readonly at: 'API' | 'evil'
  readonly method: string
  /** The Host header: the name that the server was called by. */
  readonly host: string
  /** The target of the request line, to the letter. */
  readonly path: string
  /** Whether there is a token anywhere in it, under whatever name. */
  readonly token: boolean
  readonly body: string
}

/** What a server answers with: a status, and where it redirects to, as a template for `fill`. */
export type Answers = (arrival: Arrival) => { status: number; location?: string | undefined }

/** An API below /merchant at one port, and at another a server that no token may reach. */
export interface Places extends AsyncDisposable {
  readonly api: string
  readonly evil: string
  /** What arrived, in turn. */
  readonly arrivals: Arrival[]
  /** A text with the ports in it, where {API} and {EVIL} stand for them, and api.here and evil.here for the hosts. */
  fill(template: string): string
  /** A provider whose `apiUrls` is the API's; and, if it is said, one at the other server too. */
  auth(evilToo?: boolean): Rig
  /** What arrived since the last call, in words; it is taken. Fails where a token is out of place. */
  take(): string[]
}

export async function openPlaces(
  answer: Answers = () => ({ status: 200 }),
  host = '127.0.0.1',
): Promise<Places> {
  const arrivals: Arrival[] = []
  const open = async (at: Arrival['at']): Promise<{ port: number; server: Server }> => {
    const server = createServer(async (request, response) => {
      const { method = '', url: path = '', headers, rawHeaders } = request
      const { host: calledBy = '' } = headers
      const body = await text(request).catch(() => '')
      const token = [path, body, ...rawHeaders].some((part) => part.includes(TOKEN_BEGINS))
      const arrival = { at, method, host: calledBy, path, token, body }
      arrivals.push(arrival)
      const { status, location } = answer(arrival)
      response.writeHead(status, location === undefined ? {} : { location: fill(location) }).end('here')
    })
    await new Promise<void>((resolve) => void server.listen(0, host, resolve))
    return { port: (server.address() as AddressInfo).port, server }
  }
  const [api, evil] = await Promise.all([open('API'), open('evil')])
  const at = host.includes(':') ? `[${host}]` : host
  const fill = (template: string): string =>
    template
      .replaceAll('api.here', `${at}:${api.port}`)
      .replaceAll('evil.here', `${at}:${evil.port}`)
      .replaceAll('{API}', String(api.port))
      .replaceAll('{EVIL}', String(evil.port))
  const apiUrls = ['http://api.here/merchant', 'http://evil.here/merchant'].map(fill)
  return {
    api: `http://${at}:${api.port}`,
    evil: `http://${at}:${evil.port}`,
    arrivals,
    fill,
    auth: (evilToo = false) =>
      rig([], { environment: { ...ENVIRONMENT, apiUrls: evilToo ? apiUrls : apiUrls.slice(0, 1) } }),
    take: () => {
      const taken = arrivals.splice(0)
      for (const arrival of taken) assertInPlace(arrival)
      return taken.map(
        ({ at: where, path, token }) => `${token ? 'token' : 'no token'} at ${where} ${nameless(path, fill)}`,
      )
    },
    [Symbol.asyncDispose]: async () => {
      for (const { server } of [api, evil]) {
        server.closeAllConnections()
        await new Promise((resolve) => server.close(resolve))
      }
    },
  }
}

/** A token is at the API only, below its path as it came over the wire. */
function assertInPlace({ at, path, token }: Arrival): void {
  if (!token) return
  expect(at).toBe('API')
  expect(path).toMatch(/^\/merchant(?:[/?]|$)/)
  expect(path.replace(/\?.*/, '')).not.toMatch(/%2f|%5c|\/(?:\.|%2e){1,2}(?:\/|$)/i)
}

/** A path without this run's ports. */
function nameless(path: string, fill: (template: string) => string): string {
  return path.replaceAll(fill('api.here'), 'api.here').replaceAll(fill('evil.here'), 'evil.here')
}

/** What a call came to: what arrived, or that nothing did. */
export async function outcome(places: Places, call: () => Promise<unknown>): Promise<string> {
  const failed = await call().then(
    () => false,
    () => true,
  )
  const arrived = places.take()
  if (arrived.length === 0) return failed ? 'not sent' : 'answered without a request'
  return arrived.join(', then ')
}

/** What an axios call came to by both adapters and both ways of attaching; told apart where the adapters differ. */
export async function byBothAdapters(
  places: Places,
  call: (api: AxiosInstance) => Promise<unknown>,
  config: CreateAxiosDefaults = {},
  attach?: AttachOptions,
): Promise<string> {
  const came: string[] = []
  for (const adapter of ADAPTERS) {
    const ways: string[] = []
    for (const how of HOWS) {
      const api = client(places.auth(), how, { adapter, ...config }, attach)
      ways.push(await outcome(places, () => call(api)))
    }
    expect(ways).toEqual([ways[0], ways[0]])
    came.push(ways[0] ?? '')
  }
  return came[0] === came[1] ? (came[0] ?? '') : `http: ${came[0]}; fetch: ${came[1]}`
}
