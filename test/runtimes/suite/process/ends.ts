/** Gets a token, makes calls, and leaves a renewal pausing in the background. It closes nothing, and has to end. */
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
await tokens.getToken() // for an hour
const { status } = await createAuthFetch(tokens)(`${url}/orders`)
const answers = await Promise.all(['http', 'fetch'].map((adapter) => api.get('/orders', { adapter })))

// Now it is 58 minutes later, and in the last five a token is renewed in the background.
for (const clock of [performance, Date]) {
  const now = clock.now.bind(clock)
  Object.defineProperty(clock, 'now', { value: () => now() + 58 * 60_000 })
}
const isServed = tokens.currentToken() !== undefined
await failed // the token endpoint has said: not now, but in 8 s
console.log(status, ...answers.map((answer) => answer.status), isServed ? 'done' : 'too late')
