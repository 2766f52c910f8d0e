/** A provider with a fetch of its own for the token request. Shown in docs/another-token-endpoint.md. */
import { createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { fetchToken } from './other-path.ts'

export const tokens = createTokenProvider({ ...optionsFromEnv(), fetch: fetchToken })
