/** The first token of a service: an outage of the token endpoint at the start is waited for, not crashed upon. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isMerchantAuthError, type TokenProvider } from 'merchant-auth'

/**
 * Resolves when there is a token, however long that takes; rejects when `signal` is aborted.
 */
export async function firstToken(tokens: TokenProvider, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      await tokens.getToken({ signal })
      return
    } catch (error) {
      if (!isMerchantAuthError(error)) throw error // the signal's reason
      console.error(`  service: no token yet: ${error.message}`)
      await sleep(pauseAfter(error), undefined, { signal })
    }
  }
}

/** How long (ms) until the next try makes sense. */
export function pauseAfter(error: Error & { readonly retryAfterMs?: number | undefined }): number {
  return error.retryAfterMs ?? 1_000
}
