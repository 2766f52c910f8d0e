/** The errors of acquisitions that fail although no attempt of their own did. Each takes the token endpoint as messages show it. */
import { TokenRequestError, TokenResponseError } from '../errors.ts'
import { TOO_MANY } from './rejection.ts'

/** The token expired before it could be used. */
export function expiredOnArrival(endpoint: string): TokenResponseError {
  return new TokenResponseError(
    `POST ${endpoint} returned a token that expired before it could be used. ` +
      'Its lifetime is shorter than the request took.',
    [{ field: 'expires_in', reason: 'is shorter than the request took' }],
  )
}

/** Another process got a 429, and this one respects its pause. */
export function refusedElsewhere(endpoint: string): TokenRequestError {
  return new TokenRequestError(
    `POST ${endpoint} returned 429 to another process that shares the store. ${TOO_MANY}`,
    { code: 'ERR_TOKEN_STATUS', status: 429, retryable: true, attempts: 1 },
  )
}

/** The token request was sent by another call, and was dropped with it, as on Cloudflare Workers. */
export function lostRequest(endpoint: string): TokenRequestError {
  return new TokenRequestError(`POST ${endpoint} was lost: use waitUntil().`, {
    code: 'ERR_TOKEN_TIMEOUT',
    retryable: true,
    attempts: 1,
  })
}
