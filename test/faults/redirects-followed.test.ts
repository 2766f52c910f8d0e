// Where redirects of an API take the token, under Authorization and under another header (contract 5.4).
import { AxiosError } from 'axios'
import { type AttachOptions, createAuthFetch } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { rejectionOf } from '../attach/calls.ts'
import type { Rig } from '../token/harness.ts'
import {
  type Answers,
  type Arrival,
  CLIENTS,
  type Client,
  client,
  HEADERS,
  HOWS,
  openPlaces,
} from './places.ts'
import { tell } from './told.ts'

const STATUSES = [301, 302, 303, 307, 308] as const
const METHODS = ['GET', 'POST'] as const
type Method = (typeof METHODS)[number]

const WITH = 'followed with the token'
const WITHOUT = 'followed without it'

/** Here the other server is one of the apiUrls, too. A call may have the token there; a redirect may not. */
const OTHER_API = 'another of the apiUrls, on another port'

/** Where to, and what comes of it by axios' http adapter and, for `Authorization`, by the two kinds of fetch. */
const PLACES: readonly { to: string; hops: readonly string[]; http: string; fetch: string }[] = [
  { to: 'another path of the API', hops: ['/merchant/y'], http: WITH, fetch: WITH },
  {
    to: 'another path of the API, and another',
    hops: ['/merchant/a', '/merchant/y'],
    http: WITH,
    fetch: WITH,
  },
  { to: 'outside apiUrls, on the same origin', hops: ['/outside'], http: WITHOUT, fetch: WITH },
  { to: 'outside apiUrls by dots', hops: ['%2e%2e/outside'], http: WITHOUT, fetch: WITH },
  { to: 'a path of the API with %2f', hops: ['/merchant/..%2fy'], http: WITHOUT, fetch: WITH },
  { to: 'outside apiUrls, and back', hops: ['/outside', '/merchant/y'], http: WITHOUT, fetch: WITH },
  { to: 'another port', hops: ['http://evil.here/merchant/y'], http: WITHOUT, fetch: WITHOUT },
  { to: OTHER_API, hops: ['http://evil.here/merchant/y'], http: WITHOUT, fetch: WITHOUT },
  { to: 'another port, without a scheme', hops: ['//evil.here/merchant/y'], http: WITHOUT, fetch: WITHOUT },
  { to: 'another port, by backslashes', hops: ['\\\\evil.here\\merchant\\y'], http: WITHOUT, fetch: WITHOUT },
  {
    to: 'another host name, same port',
    hops: ['http://localhost:{API}/merchant/y'],
    http: WITHOUT,
    fetch: WITHOUT,
  },
  {
    to: 'another port, and back to the API',
    hops: ['http://evil.here/merchant/x', 'http://api.here/merchant/y'],
    http: WITHOUT,
    fetch: WITHOUT,
  },
]

const CASES = PLACES.flatMap(({ to, hops, http, fetch }) =>
  STATUSES.flatMap((status) =>
    CLIENTS.flatMap((by) =>
      Object.keys(HEADERS).map((header) => {
        const stays = by !== 'axios http' && header !== 'Authorization'
        return {
          ...{ to, hops, status, by, header },
          expected: stays ? `not followed: ${status}` : by === 'axios http' ? http : fetch,
        }
      }),
    ),
  ),
)

/** Redirects as often as there are hops. */
function redirecting(status: number, hops: readonly string[]): Answers {
  let taken = 0
  return ({ path }) => {
    if (path === '/merchant/to') taken = 0
    const location = hops[taken]
    taken += 1
    return location === undefined ? { status: 200 } : { status, location }
  }
}

/** A call to the API in each way that its client has; resolves with the status that the caller got. */
function calls(
  by: Client,
  auth: () => Rig,
  url: string,
  attach: AttachOptions,
): ((method: Method) => Promise<number>)[] {
  const bodyOf = (method: Method): string | null => (method === 'POST' ? 'payload' : null)
  if (by === 'fetch') {
    const authFetch = createAuthFetch(auth().provider, attach)
    return [
      async (method) => (await authFetch(url, { method, body: bodyOf(method) })).status,
      async (method) => (await authFetch(new URL(url), { method, body: bodyOf(method) })).status,
      async (method) => (await authFetch(new Request(url, { method, body: bodyOf(method) }))).status,
    ]
  }
  const adapter = by === 'axios http' ? 'http' : 'fetch'
  return HOWS.map((how) => {
    const api = client(auth(), how, { adapter }, attach)
    return async (method) => (await api.request({ url, method, data: bodyOf(method) ?? undefined })).status
  })
}

/** What came of a redirect, in words. */
function cellOf([first, ...further]: readonly Arrival[], status: number): string {
  expect(first).toMatchObject({ at: 'API', path: '/merchant/to', token: true })
  if (further.length === 0) return `not followed: ${status}`
  if (further.every(({ token }) => token)) return WITH
  return further.some(({ token }) => token) ? 'followed, the token at some' : WITHOUT
}

describe('a redirect', () => {
  it.for(CASES)('$status to $to, $by, $header: $expected', async (one, { task }) => {
    const { to, hops, status, by, header, expected } = one
    await using places = await openPlaces(redirecting(status, hops))
    const auth = (): Rig => places.auth(to === OTHER_API)
    const cells: string[] = []
    for (const call of calls(by, auth, places.fill('http://api.here/merchant/to'), HEADERS[header] ?? {})) {
      for (const method of METHODS) {
        const got = await call(method)
        const arrivals = places.arrivals.splice(0)
        cells.push(cellOf(arrivals, got))
        expect(
          arrivals.filter(({ at, host, token }) => token && (at === 'evil' || /local/.test(host))),
        ).toEqual([])
        expect(arrivals.length).toBe(expected.startsWith('not') ? 1 : hops.length + 1)
        const changed = method === 'POST' && status < 307
        for (const further of arrivals.slice(1)) {
          expect(further.method).toBe(changed ? 'GET' : method)
          expect(further.body).toBe(method === 'POST' && !changed ? 'payload' : '')
        }
      }
    }
    expect(cells).toEqual(cells.map(() => expected))
    const [cell = ''] = cells
    tell(task, { table: 'redirects', group: to, row: String(status), column: `${by}, ${header}`, cell })
  })

  it.each(STATUSES)(
    '%i that is not followed is an AxiosError with the answer, as axios has it',
    async (status) => {
      await using places = await openPlaces(redirecting(status, ['http://evil.here/x']))
      for (const how of HOWS) {
        const api = client(places.auth(), how, { adapter: 'fetch' }, { header: 'X-Access-Token', scheme: '' })
        const error = await rejectionOf(
          api.get(`${places.api}/merchant/to`, { validateStatus: (code) => code < 300 }),
        )
        expect(error).toBeInstanceOf(AxiosError)
        expect((error as AxiosError).response?.status).toBe(status)
        expect((error as AxiosError).response?.headers['location']).toBe(`${places.evil}/x`)
        expect(places.arrivals.splice(0).map(({ at }) => at)).toEqual(['API'])
      }
    },
  )
})
