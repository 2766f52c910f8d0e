/** A fake token provider: it caches, acquires and renews what the test says, at once and without a network. */
import type { AccessToken, TokenProvider } from 'merchant-auth'
import { ENVIRONMENT } from '../token/harness.ts'
import { noteSecret } from './recorded.ts'

/** A token with this value, which must not appear in anything that the test could log. */
export function token(value: string): AccessToken {
  noteSecret(value)
  return { value, tokenType: 'Bearer', expiresAt: Date.UTC(2100, 0, 1) }
}

interface Provided {
  readonly current?: AccessToken
  readonly get?: TokenProvider['getToken']
  readonly renew?: TokenProvider['renewToken']
  readonly apiUrls?: readonly string[]
  readonly authUrl?: string
  readonly name?: string | undefined
}

export function provided(given: Provided = {}): TokenProvider {
  return {
    environment: {
      ...ENVIRONMENT,
      apiUrls: given.apiUrls ?? ENVIRONMENT.apiUrls,
      authUrl: given.authUrl ?? ENVIRONMENT.authUrl,
      name: given.name,
    },
    currentToken: () => given.current,
    getToken: given.get ?? (async () => token('first.token')),
    renewToken: given.renew ?? (async () => token('second.token')),
    close: async () => {},
    [Symbol.asyncDispose]: async () => {},
  }
}

/** Rejects when the signal aborts, and never settles otherwise. */
export function untilAborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    if (signal?.aborted) reject(signal.reason)
    signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}
