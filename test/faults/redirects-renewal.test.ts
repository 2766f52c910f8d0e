// A 401 that no API sent in answer to the token renews nothing: from elsewhere, or after a redirect (contract 5.4).
import { describe, expect, it } from 'vitest'
import type { Rig } from '../token/harness.ts'
import { type Answers, CLIENTS, client, get, HEADERS, openPlaces, type Places } from './places.ts'
import { tell } from './told.ts'

const HANDED_OUT = '401 handed out; no renewal'
const RENEWED = 'renewed once, sent twice'

/** What is called, where it redirects to, and what comes of it where the redirect is followed. */
const PLACES: readonly { row: string; url: string; hops: readonly string[]; cell: string }[] = [
  { row: 'the API itself, no redirect', url: 'http://api.here/merchant/x', hops: [], cell: RENEWED },
  { row: 'outside apiUrls, no redirect', url: 'http://api.here/outside', hops: [], cell: HANDED_OUT },
  { row: 'another port, no redirect', url: 'http://evil.here/merchant/x', hops: [], cell: HANDED_OUT },
  ...[
    { row: 'another path of the API', hops: ['/merchant/y'] },
    { row: 'the same path of the API, once more', hops: ['/merchant/to?again'] },
    { row: 'outside apiUrls, on the same origin', hops: ['/outside'] },
    { row: 'another port', hops: ['http://evil.here/merchant/y'] },
    { row: 'another host name, same port', hops: ['http://localhost:{API}/merchant/y'] },
    { row: 'another port, and back to the API', hops: ['http://evil.here/x', 'http://api.here/merchant/y'] },
  ].map(({ row, hops }) => ({
    row: `redirect to ${row}`,
    url: 'http://api.here/merchant/to',
    hops,
    cell: HANDED_OUT,
  })),
]

const CASES = PLACES.flatMap((place) =>
  CLIENTS.flatMap((by) =>
    Object.keys(HEADERS).map((header) => {
      const stays = by !== 'axios http' && header !== 'Authorization' && place.hops.length > 0
      return { ...place, by, header, expected: stays ? 'not followed; no renewal' : place.cell }
    }),
  ),
)

/** Redirects along the hops, and says 401 at the end of them. */
function refusing(status: number, hops: readonly string[]): Answers {
  let taken = 0
  return () => {
    const location = hops[taken]
    taken += 1
    return location === undefined ? { status: 401 } : { status, location }
  }
}

/** What came of it, in words: no token is fetched after the first one, unless it was renewed. */
async function cellOf(places: Places, auth: Rig, answer: Promise<{ status: number }>): Promise<string> {
  await auth.provider.getToken()
  const { status } = await answer
  const renewals = auth.endpoint.count - 1
  if (renewals === 1 && status === 401 && places.arrivals.length === 2) return RENEWED
  if (renewals > 0) return `${renewals} renewals, ${places.arrivals.length} requests`
  return status === 401 ? HANDED_OUT : 'not followed; no renewal'
}

describe('a 401', () => {
  it.for(CASES)('from $row, $by, $header: $expected', async (one, { task }) => {
    const { row, url, hops, by, header, expected } = one
    const cells: string[] = []
    for (const status of [301, 302, 303, 307, 308]) {
      await using places = await openPlaces(refusing(status, hops))
      const auth = places.auth()
      const made = get(by, auth, places.fill(url), header)
      cells.push(await cellOf(places, auth, made))
    }
    expect(cells).toEqual(cells.map(() => expected))
    tell(task, {
      table: 'redirects',
      group: 'a 401 at the end (each of 301, 302, 303, 307, 308)',
      row,
      column: `${by}, ${header}`,
      cell: cells[0] ?? '',
    })
  })

  it.each([403, 418])(
    'is what renews; %i is handed out, and another status can be asked for',
    async (code) => {
      await using places = await openPlaces(() => ({ status: code }))
      const auth = places.auth()
      const api = client(auth, 'attachAuth', { adapter: 'http' })
      expect((await api.get(`${places.api}/merchant/x`)).status).toBe(code)
      expect(auth.endpoint.count).toBe(1)
      const asking = client(auth, 'attachAuth', { adapter: 'http' }, { renewOnStatus: [code] })
      expect((await asking.get(`${places.api}/merchant/x`)).status).toBe(code)
      expect(auth.endpoint.count).toBe(2)
    },
  )
})
