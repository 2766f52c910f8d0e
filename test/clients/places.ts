/** An API below /merchant on one port of the loopback, and on another a server that no token may reach. */
import type { TokenProvider } from 'merchant-auth'
import { createStaticTokenProvider } from 'merchant-auth/testing'
import { expect } from 'vitest'
import { scripted } from './world.ts'

const VALUE = 'the.one.token'

/** A request that a server received. */
export interface Arrival {
  readonly at: 'API' | 'evil'
  /** The target of the request line, unchanged. */
  readonly path: string
  /** Whether the token is anywhere in it: in any header, the path or the body. */
  readonly token: boolean
}

type Answers = (arrival: Arrival) => { status: number; location?: string }

export interface Places {
  readonly api: string
  readonly evil: string
  readonly arrivals: Arrival[]
  /** The responses of the servers; locations are templates for `fill`. */
  answer: Answers
  /** A provider with a static token for the API only. */
  readonly tokens: TokenProvider
  /** Replaces {API} and {EVIL} with the ports, and api.here and evil.here with the hosts. */
  fill(template: string): string
  /** The arrivals since the last look, in words. Fails if the token arrived anywhere but at the API. */
  look(): string[]
  /** The outcome of a call: its arrivals, or that nothing arrived. */
  outcome(call: () => Promise<unknown>): Promise<string>
  close(): Promise<void>
}

export async function openPlaces(host = '127.0.0.1'): Promise<Places> {
  const arrivals: Arrival[] = []
  const open = (at: Arrival['at']) =>
    scripted(({ path, body }, response) => {
      const token = [path, String(body), ...response.req.rawHeaders].some((part) => part.includes(VALUE))
      arrivals.push({ at, path, token })
      const { status, location } = places.answer({ at, path, token })
      response.writeHead(status, location === undefined ? {} : { location: fill(location) }).end('here')
    }, host)
  const [api, evil] = await Promise.all([open('API'), open('evil')])
  const hosts = { 'api.here': new URL(api.url).host, 'evil.here': new URL(evil.url).host }
  const fill = (template: string): string =>
    template
      .replaceAll('api.here', hosts['api.here'])
      .replaceAll('evil.here', hosts['evil.here'])
      .replaceAll('{API}', new URL(api.url).port)
      .replaceAll('{EVIL}', new URL(evil.url).port)
  const look = (): string[] =>
    arrivals.splice(0).map((arrival) => {
      assertInPlace(arrival)
      const { at, path, token } = arrival
      const withNames = path
        .replaceAll(hosts['api.here'], 'api.here')
        .replaceAll(hosts['evil.here'], 'evil.here')
      return `${token ? 'token' : 'no token'} at ${at} ${withNames}`
    })
  const environment = { authUrl: 'https://auth.example', audience: 'a', apiUrls: [`${api.url}/merchant`] }
  const places: Places = {
    answer: () => ({ status: 200 }),
    api: api.url,
    evil: evil.url,
    arrivals,
    tokens: createStaticTokenProvider({ environment, value: VALUE }),
    fill,
    look,
    outcome: async (call) => {
      const failed = await call().then(
        () => false,
        () => true,
      )
      const arrived = look()
      if (arrived.length === 0) return failed ? 'not sent' : 'answered without a request'
      return arrived.join(', then ')
    },
    close: async () => {
      for (const server of [api, evil]) await server[Symbol.asyncDispose]()
    },
  }
  return places
}

/** The token may arrive at the API only, at a raw path below /merchant. */
function assertInPlace({ at, path, token }: Arrival): void {
  if (!token) return
  expect(at).toBe('API')
  expect(path).toMatch(/^\/merchant(?:[/?]|$)/)
  expect(path.replace(/\?.*/, '')).not.toMatch(/%2f|%5c|\/(?:\.|%2e){1,2}(?:\/|$)/i)
}
