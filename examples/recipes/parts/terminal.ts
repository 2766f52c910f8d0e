/** The program of a terminal, whose token survives restarts. Named in docs/sharing.md. */
import { randomUUID } from 'node:crypto'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { createAuthFetch, createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { createFileTokenStore } from 'merchant-auth/file'

const options = optionsFromEnv()
const directory = process.env['STATE_DIRECTORY'] ?? join(homedir(), '.my-service', 'tokens')
const store = createFileTokenStore(directory)
export const tokens = createTokenProvider({ ...options, store })
const authFetch = createAuthFetch(tokens)

export async function sell(amount: number): Promise<Response> {
  return await authFetch(`${options.environment.apiUrls.inStore}/sales`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Store-Id': '0042', 'Idempotency-Key': randomUUID() },
    body: JSON.stringify({ amount }),
  })
}
