/** What a failed call means. Shown in docs/errors.md. */
import { isMerchantAuthError, TokenRequestError } from 'merchant-auth'

export function explainFailure(error: unknown): string {
  if (error instanceof TokenRequestError && error.retryable) return `Retry in ${error.retryAfterMs} ms`
  if (isMerchantAuthError(error)) return `${error.code}: ${error.message}`
  throw error
}
