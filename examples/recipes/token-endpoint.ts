/** A token endpoint with field names of its own, which no option says: a fetch translates its request and its response. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { createTokenProvider, TokenRequestError } from 'merchant-auth'
import { fetchToken } from './parts/other-fields.ts'

const CLIENT_ID = 'client-1'
const CLIENT_SECRET = 'open-sesame'

const server = createServer(async (request, response) => {
  const { clientId, secret } = (await json(request)) as Record<string, unknown>
  const isKnown =
    clientId === CLIENT_ID && secret === CLIENT_SECRET && request.headers['x-tenant'] === 'shop-7'
  response.writeHead(isKnown ? 200 : 401, { 'content-type': 'application/json' })
  const grant = { data: { token: 'head.body.signature', lifetimeMs: 180_000 } }
  response.end(
    JSON.stringify(isKnown ? grant : { error: 'invalid_client', error_description: `not ${secret}` }),
  )
})
await once(server.listen(0, '127.0.0.1'), 'listening')
const authUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

const provider = (clientSecret: string) =>
  createTokenProvider({
    environment: {
      authUrl,
      audience: 'https://api.example.com',
      apiUrls: ['https://api.example.com/merchant'],
    },
    clientId: CLIENT_ID,
    clientSecret,
    fetch: fetchToken,
  })

await using tokens = provider(CLIENT_SECRET)
const { value, expiresAt } = await tokens.getToken()
assert.equal(value, 'head.body.signature')
assert.ok(expiresAt <= Date.now() + 180_000)
console.log(`A token until ${new Date(expiresAt).toISOString()}`)

// A wrong secret is the error that the token endpoint returns, and shows in no message.
await using stranger = provider('close-sesame')
const error: unknown = await stranger.getToken().catch((reason: unknown) => reason)
assert.ok(error instanceof TokenRequestError)
assert.deepEqual([error.status, error.error, error.attempts], [401, 'invalid_client', 1])
assert.doesNotMatch(error.message, /close-sesame/)
console.log(`A wrong secret: ${error.message}`)

server.close()
