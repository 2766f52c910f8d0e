import { createAuthFetch } from 'merchant-auth'
import { tokens } from './tokens.ts'

const authFetch = createAuthFetch(tokens)

/** For an SDK that sets an `Authorization` of its own. */
export const sdkFetch: typeof fetch = (input, init) => {
  const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined))
  headers.delete('authorization')
  return authFetch(input, { ...init, headers })
}
