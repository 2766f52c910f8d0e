import { createAuthFetch } from 'merchant-auth'
import { tokens } from './tokens.ts'

const authFetch = createAuthFetch(tokens)

/** For an SDK that calls `fetch(url, init)` with an `Authorization` of its own. */
export const sdkFetch: typeof fetch = (url, init) => {
  const headers = new Headers(init?.headers)
  headers.delete('authorization')
  return authFetch(url, { ...init, headers })
}
