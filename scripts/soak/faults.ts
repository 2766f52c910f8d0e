/** The faults that the soak orders: every kind of the sandbox's, for the token endpoint and for the APIs. */
import type { Fault } from 'merchant-auth/testing'
import type { Random } from './random.ts'

const SERVER_STATUSES = [500, 502, 503, 504] as const

/** What an API's redirect may lead to. */
export interface RedirectTargets {
  /** Where there is nothing. */
  readonly nowhere: string
  /** Another origin, whose API refuses a call without a token. */
  readonly elsewhere: string
  /** The same API. */
  readonly same: string
}

/** A fault of the token endpoint. Retry-After stays short: the end of the run waits for no cooldown beyond 5 s. */
export function tokenFault(random: Random): Fault {
  const kind = random.weighted({
    server: 6,
    limit: 2,
    refusal: 2,
    hang: 2,
    reset: 2,
    slow: 2,
    body: 5,
    redirect: 1,
  })
  switch (kind) {
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
      return { kind: 'hang', at: random.pick(['headers', 'body'] as const) }
    case 'reset':
      return { kind: 'reset' }
    case 'slow':
      return { kind: 'slow-body', durationMs: random.pick([100, 300, 1_500]) }
    case 'redirect':
      return { kind: 'redirect', location: '/oauth/token', status: random.pick([301, 302, 307, 308]) }
    case 'body':
      return random.pick<Fault>([
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

/** A fault of an API. */
export function apiFault(random: Random, { nowhere, elsewhere, same }: RedirectTargets): Fault {
  const kind = random.weighted({
    server: 6,
    client: 5,
    refusal: 3,
    hang: 2,
    reset: 3,
    slow: 2,
    body: 6,
    redirect: 2,
  })
  switch (kind) {
    case 'server':
      return { kind: 'status', status: random.pick(SERVER_STATUSES), ...retryAfter(random, 0.3) }
    case 'client':
      return {
        kind: 'status',
        status: random.pick([400, 403, 404, 408, 409, 429]),
        ...retryAfter(random, 0.3),
        body: { error: 'by the soak' },
      }
    case 'refusal':
      return {
        kind: 'status',
        status: 401,
        headers: {
          'www-authenticate': `Bearer error="${random.pick(['invalid_token', 'invalid_token', 'insufficient_scope'])}"`,
        },
      }
    case 'hang':
      return { kind: 'hang', at: random.pick(['headers', 'body'] as const) }
    case 'reset':
      return { kind: 'reset' }
    case 'slow':
      return { kind: 'slow-body', durationMs: random.pick([50, 400, 1_500]) }
    case 'redirect':
      return {
        kind: 'redirect',
        location: random.pick([nowhere, elsewhere, same]),
        status: random.pick([302, 307, 308]),
      }
    case 'body':
      return random.pick<Fault>([
        { kind: 'truncated-body' },
        { kind: 'truncated-body' },
        { kind: 'huge-body', bytes: 300_000 },
        { kind: 'huge-body', bytes: 2_000_000, gzip: true },
        random.chance(0.2) ? { kind: 'huge-body' } : { kind: 'huge-body', bytes: 1_000_000 },
        { kind: 'json', body: null },
        { kind: 'json', body: { error: 'by the soak' }, status: 422 },
        { kind: 'text', body: 'no JSON' },
        { kind: 'text', body: '<h1>Bad gateway</h1>', status: 502, contentType: 'text/html' },
      ])
  }
}

/** What an outage of the whole token endpoint looks like. */
export function outageFault(random: Random): Fault {
  return random.pick<Fault>([
    { kind: 'status', status: 503 },
    { kind: 'status', status: 400 },
    { kind: 'reset' },
    { kind: 'hang' },
    { kind: 'text', body: 'out of order' },
  ])
}

function retryAfter(random: Random, share: number): { retryAfter?: number } {
  return random.chance(share) ? { retryAfter: random.between(0, 2) } : {}
}
