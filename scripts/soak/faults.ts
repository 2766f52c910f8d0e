/**
 * The faults of the soak: every kind that the sandbox knows, for the token endpoint and for the APIs. A 429 of the token
 * endpoint is none of them: the cooldown after it lasts longer than a provider lives here.
 */
import type { Fault } from 'merchant-auth/testing'

/** `Retry-After` (s) stays within the cooldown that follows anyway. */
const withAndWithoutRetryAfter = (status: number): Fault[] => [
  { kind: 'status', status },
  { kind: 'status', status, retryAfter: 1 },
]

const BOTH: readonly Fault[] = [
  ...[408, 500, 502, 503, 504].flatMap(withAndWithoutRetryAfter),
  { kind: 'hang', at: 'headers' },
  { kind: 'hang', at: 'body' },
  { kind: 'reset' },
  { kind: 'reset' },
  { kind: 'truncated-body' },
  { kind: 'truncated-body' },
  { kind: 'slow-body', durationMs: 300 },
  { kind: 'slow-body', durationMs: 1_500 },
  { kind: 'json', body: null },
  { kind: 'json', body: { error: 'by the soak' }, status: 503 },
  { kind: 'text', body: 'not JSON' },
  { kind: 'text', body: '<h1>Bad gateway</h1>', status: 502, contentType: 'text/html' },
]

export const TOKEN_FAULTS: readonly Fault[] = [
  ...BOTH,
  { kind: 'status', status: 400, body: { error: 'invalid_request', error_description: 'by the soak' } },
  { kind: 'status', status: 401, body: { error: 'invalid_client' } },
  { kind: 'status', status: 403, body: { error: 'access_denied' } },
  { kind: 'redirect', location: '/oauth/token', status: 302 },
  { kind: 'redirect', location: '/oauth/token', status: 307 },
  { kind: 'huge-body', bytes: 100_000 },
  { kind: 'huge-body', gzip: true },
  { kind: 'json', body: { access_token: 'a.b.c', token_type: 'Bearer' } },
  { kind: 'json', body: { access_token: 'a.b.c', expires_in: 0, token_type: 'Bearer' } },
  { kind: 'json', body: { access_token: 'a b', expires_in: 60, token_type: 'Bearer' } },
  { kind: 'json', body: { access_token: 'a.b.c', expires_in: 60, token_type: 'mac' } },
  { kind: 'text', body: '' },
]

/** Redirects lead to where nothing is, to another origin, and to the same API. */
export const apiFaults = (otherOrigin: string): readonly Fault[] => [
  ...BOTH,
  ...[400, 403, 404, 409, 429].flatMap(withAndWithoutRetryAfter),
  ...['invalid_token', 'invalid_token', 'insufficient_scope'].map(
    (error): Fault => ({
      kind: 'status',
      status: 401,
      headers: { 'www-authenticate': `Bearer error="${error}"` },
    }),
  ),
  { kind: 'redirect', location: '/elsewhere' },
  { kind: 'redirect', location: `${otherOrigin}/merchant/by-redirect`, status: 308 },
  { kind: 'redirect', location: '/in-store/by-redirect', status: 302 },
  { kind: 'huge-body', bytes: 300_000 },
  { kind: 'huge-body', bytes: 2_000_000, gzip: true },
  { kind: 'huge-body' },
]
