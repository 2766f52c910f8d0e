/** A fetch that attaches the token. Shown in docs/coming-from-elsewhere.md. */
import { createAuthFetch, createTokenProvider, optionsFromEnv } from 'merchant-auth'

export const tokens = createTokenProvider(optionsFromEnv())
export const authFetch = createAuthFetch(tokens)
