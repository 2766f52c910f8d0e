/** The first token of a service: waits while the token endpoint is down. Shown in docs/production.md. */
import { setTimeout as sleep } from 'node:timers/promises'
import { isMerchantAuthError, type TokenProvider } from 'merchant-auth'

/** Resolves when there is a token, however long that takes. Rejects when `signal` is aborted. */
export async function firstToken(tokens: TokenProvider, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      await tokens.getToken({ signal })
      return
    } catch (error) {
      if (!isMerchantAuthError(error)) throw error // the signal's reason
      console.error(error.message)
      await sleep(pauseAfter(error), undefined, { signal })
    }
  }
}

/** How long (ms) to wait before the next attempt. */
export function pauseAfter(error: Error & { readonly retryAfterMs?: number | undefined }): number {
  return error.retryAfterMs ?? 1_000
}
