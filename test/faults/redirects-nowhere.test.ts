// Redirects that lead nowhere: other schemes, no URL at all, and round in a circle (contract 5.4, 6).
import { describe, expect, it } from 'vitest'
import { CLIENTS, get, HEADERS, openPlaces } from './places.ts'
import { tell } from './told.ts'

const LOCATIONS = ['ftp://evil.here/x', 'ws://evil.here/x', 'file:///x', 'javascript:x', 'http://[']
const REJECTS = 'rejects; nothing more is sent'
const IN_THE_END = 'rejects in the end; the token at the API only'

const CASES = [...LOCATIONS, 'data:,x', '(the same path)'].flatMap((location) =>
  CLIENTS.flatMap((by) =>
    Object.keys(HEADERS).map((header) => {
      const stays = by !== 'axios http' && header !== 'Authorization'
      const circle = location.startsWith('(')
      const followed = circle ? IN_THE_END : REJECTS
      return { location, by, header, circle, expected: stays ? 'not followed: 302' : followed }
    }),
  ),
)

describe('a redirect to no place', () => {
  it.for(CASES)('$location, $by, $header: $expected', async (one, { task }) => {
    const { location, by, header, circle, expected } = one
    await using places = await openPlaces(({ path }) => ({
      status: 302,
      location: circle ? path : location,
    }))
    const auth = places.auth()
    const status = await get(by, auth, `${places.api}/merchant/x`, header).then(
      (answer) => answer.status,
      () => 'rejects',
    )
    const arrivals = places.arrivals.splice(0)
    expect(arrivals.every(({ at, path, token }) => at === 'API' && path === '/merchant/x' && token)).toBe(
      true,
    )
    expect(auth.endpoint.count).toBe(1)
    const rejected = arrivals.length > 1 ? IN_THE_END : REJECTS
    const cell = status === 'rejects' ? rejected : `not followed: ${status}`
    expect(cell).toBe(expected)
    expect(arrivals.length).toBeLessThanOrEqual(22)
    const group = 'no place at all (302)'
    tell(task, { table: 'redirects', group, row: `\`${location}\``, column: `${by}, ${header}`, cell })
  })
})
