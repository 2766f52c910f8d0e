/** A fetch that attaches the token. */
import { createAuthFetch, createTokenProvider, optionsFromEnv } from 'merchant-auth'

export const tokens = createTokenProvider(optionsFromEnv())
export const authFetch = createAuthFetch(tokens)
