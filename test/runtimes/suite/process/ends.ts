/** Acquires a token, makes calls, and leaves a background renewal pausing. Nothing is closed, and the process must end. */
import axios from 'axios'
import { createAuthFetch, createTokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'

const { promise: failed, resolve } = Promise.withResolvers<void>()
const tokens = createTokenProvider({
  ...JSON.parse(process.argv[2] ?? ''),
  onEvent: ({ type }) => {
    if (type === 'token-request-failed') resolve()
  },
})
const url = String(Object.values(tokens.environment.apiUrls)[0])
const api = axios.create({ baseURL: url })
attachAuth(api, tokens)
await tokens.getToken() // valid for an hour
const { status } = await createAuthFetch(tokens)(`${url}/orders`)
const answers = await Promise.all(['http', 'fetch'].map((adapter) => api.get('/orders', { adapter })))

// 58 minutes later: in its last 5 minutes, a token is renewed in the background.
for (const clock of [performance, Date]) {
  const now = clock.now.bind(clock)
  Object.defineProperty(clock, 'now', { value: () => now() + 58 * 60_000 })
}
const isServed = tokens.currentToken() !== undefined
await failed // the token endpoint responded with Retry-After: 8
console.log(status, ...answers.map((answer) => answer.status), isServed ? 'done' : 'too late')
