/** Errors that more than one part of the provider raises. `endpoint` is the token endpoint's URL, redacted for messages. */
import { adviceOf } from '../../advice/failure.ts'
import { REFUSAL_KINDS } from '../../advice/refusals.ts'
import { RESPONSES, TOO_SHORT } from '../../advice/responses.ts'
import { TokenRequestError, TokenResponseError } from '../../base/errors.ts'

/**
 * The token expired before it could be used. Endpoints that issue one token until it ends return it in its last second,
 * too: a second later they issue another one.
 */
export class ExpiredTokenError extends TokenResponseError {
  constructor(endpoint: string) {
    super(
      `POST ${endpoint} returned a token that expired before it could be used: expires_in ${TOO_SHORT}. ` +
        adviceOf(RESPONSES['expired-token']),
      [{ field: 'expires_in', reason: TOO_SHORT }],
    )
  }
}

/** Another process got a 429, and this one respects its pause. */
export function refusedElsewhere(endpoint: string): TokenRequestError {
  return new TokenRequestError(
    `POST ${endpoint} returned 429 to another process that shares the store. ${adviceOf(REFUSAL_KINDS['too-many'])}`,
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
