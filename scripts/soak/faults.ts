/** The faults of the soak: every kind that the sandbox knows, for the token endpoint and for the APIs. */
import type { Fault } from 'merchant-auth/testing'
import type { Random } from '../../test/support/random.ts'

const SERVER_STATUSES = [500, 502, 503, 504]
const HANGS: readonly Fault[] = [
  { kind: 'hang', at: 'headers' },
  { kind: 'hang', at: 'body' },
]

/** A fault of the token endpoint. `Retry-After` stays within the cooldown that follows anyway. */
export function tokenFault(random: Random): Fault {
  switch (random.weighted({ server: 6, limit: 2, refusal: 2, hang: 2, slow: 2, other: 8 })) {
    case 'server':
      return { kind: 'status', status: random.pick(SERVER_STATUSES), ...retryAfter(random, 0.2) }
    case 'limit':
      return { kind: 'status', status: random.pick([408, 429]), ...retryAfter(random, 0.7) }
    case 'refusal':
      return random.pick<Fault>([
        { kind: 'status', status: 400, body: { error: 'invalid_request', error_description: 'by the soak' } },
        { kind: 'status', status: 401, body: { error: 'invalid_client' } },
        { kind: 'status', status: 403, body: { error: 'access_denied' } },
      ])
    case 'hang':
      return random.pick(HANGS)
    case 'slow':
      return { kind: 'slow-body', durationMs: random.pick([100, 300, 1_500]) }
    case 'other':
      return random.pick<Fault>([
        { kind: 'reset' },
        { kind: 'reset' },
        { kind: 'redirect', location: '/oauth/token', status: random.pick([301, 302, 307, 308]) },
        { kind: 'truncated-body' },
        { kind: 'huge-body', bytes: 100_000 },
        { kind: 'huge-body', gzip: true },
        { kind: 'json', body: null },
        { kind: 'json', body: [] },
        { kind: 'json', body: { access_token: 'a.b.c', token_type: 'Bearer' } },
        { kind: 'json', body: { access_token: 'a.b.c', expires_in: 0, token_type: 'Bearer' } },
        { kind: 'json', body: { access_token: 'a b', expires_in: 60, token_type: 'Bearer' } },
        { kind: 'json', body: { access_token: 'a.b.c', expires_in: 60, token_type: 'mac' } },
        { kind: 'json', body: { error: 'server_error' }, status: 503 },
        { kind: 'text', body: '' },
        { kind: 'text', body: '<h1>Good morning</h1>', contentType: 'text/html' },
        { kind: 'text', body: '<h1>Bad gateway</h1>', status: 502, contentType: 'text/html' },
      ])
  }
}

/** A fault of an API. Redirects lead to where nothing is, to another origin, or to the same API. */
export function apiFault(random: Random, otherOrigin: string): Fault {
  switch (random.weighted({ server: 6, client: 5, refusal: 3, hang: 2, slow: 2, redirect: 2, other: 9 })) {
    case 'server':
      return { kind: 'status', status: random.pick(SERVER_STATUSES), ...retryAfter(random, 0.3) }
    case 'client': {
      const status = random.pick([400, 403, 404, 408, 409, 429])
      return { kind: 'status', status, ...retryAfter(random, 0.3), body: { error: 'by the soak' } }
    }
    case 'refusal': {
      const error = random.pick(['invalid_token', 'invalid_token', 'insufficient_scope'])
      return { kind: 'status', status: 401, headers: { 'www-authenticate': `Bearer error="${error}"` } }
    }
    case 'hang':
      return random.pick(HANGS)
    case 'slow':
      return { kind: 'slow-body', durationMs: random.pick([50, 400, 1_500]) }
    case 'redirect': {
      const location = random.pick([
        '/elsewhere',
        `${otherOrigin}/merchant/by-redirect`,
        '/in-store/by-redirect',
      ])
      return { kind: 'redirect', location, status: random.pick([302, 307, 308]) }
    }
    case 'other':
      return random.pick<Fault>([
        { kind: 'reset' },
        { kind: 'reset' },
        { kind: 'truncated-body' },
        { kind: 'truncated-body' },
        { kind: 'huge-body', bytes: 300_000 },
        { kind: 'huge-body', bytes: 2_000_000, gzip: true },
        random.chance(0.2) ? { kind: 'huge-body' } : { kind: 'huge-body', bytes: 1_000_000 },
        { kind: 'json', body: null },
        { kind: 'json', body: { error: 'by the soak' }, status: 422 },
        { kind: 'text', body: 'not JSON' },
        { kind: 'text', body: '<h1>Bad gateway</h1>', status: 502, contentType: 'text/html' },
      ])
  }
}

function retryAfter(random: Random, share: number): { retryAfter?: number } {
  return random.chance(share) ? { retryAfter: random.between(0, 2) } : {}
}
