/** An API below /merchant at one port of the loopback, and at another a server that no token may reach. */
import type { TokenProvider } from 'merchant-auth'
import { createStaticTokenProvider } from 'merchant-auth/testing'
import { expect } from 'vitest'
import { scripted } from './world.ts'

const VALUE = 'the.one.token'
const UNSEEN = /[\u007f-\u00a0\u00ad\u0400-\u04ff\u200b-\u200f\ufeff]|\p{M}/gu

/** A URL as a string literal in which nothing hides. */
export function shown(url: string): string {
  const literal = JSON.stringify(url).replace(
    UNSEEN,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
  return `\`${literal}\``
}

/** A request as a server saw it. */
export interface Arrival {
  readonly at: 'API' | 'evil'
  /** The target of the request line, to the letter. */
  readonly path: string
  /** Whether there is a token anywhere in it, under whatever name. */
  readonly token: boolean
}

type Answers = (arrival: Arrival) => { status: number; location?: string }

export interface Places {
  readonly api: string
  readonly evil: string
  readonly arrivals: Arrival[]
  /** What the servers answer with; redirects as templates for `fill`. */
  answer: Answers
  /** A static token for the API alone. */
  readonly tokens: TokenProvider
  /** A text with the ports in it: {API} and {EVIL} stand for them, api.here and evil.here for the hosts. */
  fill(template: string): string
  /** What arrived since the last look, in words. Fails where a token is out of place. */
  look(): string[]
  /** What a call came to: what arrived, or that nothing did. */
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
      const nameless = path
        .replaceAll(hosts['api.here'], 'api.here')
        .replaceAll(hosts['evil.here'], 'evil.here')
      return `${token ? 'token' : 'no token'} at ${at} ${nameless}`
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

/** A token is at the API only, below its path as it came over the wire. */
function assertInPlace({ at, path, token }: Arrival): void {
  if (!token) return
  expect(at).toBe('API')
  expect(path).toMatch(/^\/merchant(?:[/?]|$)/)
  expect(path.replace(/\?.*/, '')).not.toMatch(/%2f|%5c|\/(?:\.|%2e){1,2}(?:\/|$)/i)
}
