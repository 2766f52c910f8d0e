/** The program of a terminal, whose token survives restarts. Shown in docs/shops-and-terminals.md. */
import { randomUUID } from 'node:crypto'
import { createAuthFetch, createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { createFileTokenStore } from 'merchant-auth/file'

const options = optionsFromEnv()
const store = createFileTokenStore(process.env['STATE_DIRECTORY'] ?? '/var/lib/terminal')
export const tokens = createTokenProvider({ ...options, store })
const authFetch = createAuthFetch(tokens)

export async function sell(amount: number): Promise<Response> {
  return await authFetch(`${options.environment.apiUrls.inStore}/sales`, {
    method: 'POST',
    headers: { 'X-Store-Id': '0042', 'Idempotency-Key': randomUUID() },
    body: JSON.stringify({ amount }),
  })
}
