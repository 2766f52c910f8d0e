/** The token in a header of another name, without a scheme; and a call with a header of the caller's own. */
import axios from 'axios'
import { createAuthFetch, createTokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { startSandbox } from 'merchant-auth/testing'

const sandbox = await startSandbox()
sandbox.test.configure({ header: 'X-Access-Token', scheme: '' })
const { environment, clientId, clientSecret, merchantUrl } = sandbox.test

const tokens = createTokenProvider({
  environment,
  clientId,
  clientSecret,
  onEvent: (event) => {
    if (event.type === 'token-withheld') console.log(`  (no token put on: ${event.reason})`)
  },
})
const attach = { header: 'X-Access-Token', scheme: '' }
const authFetch = createAuthFetch(tokens, attach)
const api = axios.create({ baseURL: merchantUrl })
attachAuth(api, tokens, attach)

// The sandbox answers with what it received, and hides the token in it.
const response = await authFetch(`${merchantUrl}/orders`)
const { headers } = (await response.json()) as { headers: Record<string, string> }
console.log(`fetch: ${response.status}, x-access-token: ${headers['x-access-token']}`)

const answer = await api.get('/orders')
console.log(`axios: ${answer.status}, x-access-token: ${answer.data.headers['x-access-token']}`)

const own = await authFetch(`${merchantUrl}/orders`, { headers: { 'X-Access-Token': 'mine' } })
console.log(`A header of one's own is left as it is: ${own.status}`)

await tokens.close()
await sandbox.close()
