/**
 * Token endpoints of other shapes, each a stand-in of its own: another path, a further header, HTTP Basic without an
 * audience, other field names, a shorter life than it says, and tokens that APIs accept later. The programs call https://id.example.com, which leads to the stand-in.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { createTokenProvider, TokenRequestError } from 'merchant-auth'
import { fetchToken as withFurtherHeaders } from './parts/further-headers.ts'
import { fetchToken as withHttpBasic } from './parts/http-basic.ts'
import { fetchToken as withLaterTokens } from './parts/later-tokens.ts'
import { fetchToken as withOtherFields } from './parts/other-fields.ts'
import { fetchToken as withShorterLife } from './parts/shorter-life.ts'

const CLIENT_ID = 'client 1' // whatever needs an escape
const CLIENT_SECRET = 'open:sesame+1/2='
const GRANT = { access_token: 'head.body.signature', expires_in: 3_600, token_type: 'Bearer' }
const REFUSED = { error: 'invalid_client' }

type Answer = (request: IncomingMessage, body: string) => object

/** What each stand-in returns: the grant in its own shape, if the request has the shape that it expects. */
const STAND_INS: Readonly<Record<string, Answer>> = {
  '/realms/shop/protocol/openid-connect/token': (_, body) =>
    JSON.parse(body).client_secret === CLIENT_SECRET ? GRANT : REFUSED,
  '/headers/oauth/token': ({ headers }) => (headers['x-tenant'] === 'shop-7' ? GRANT : REFUSED),
  '/basic/oauth/token': ({ headers }, body) => {
    const [, basic = ''] = String(headers.authorization).split('Basic ')
    const [id, secret] = atob(basic).split(':').map(decodeURIComponent)
    const isKnown = id === CLIENT_ID && secret === CLIENT_SECRET
    return isKnown && body === 'grant_type=client_credentials' ? GRANT : REFUSED
  },
  '/life/oauth/token': () => GRANT,
  '/later/oauth/token': () => GRANT,
  '/fields/oauth/token': (_, body) => {
    const { clientId, secret } = JSON.parse(body)
    const isKnown = clientId === CLIENT_ID && secret === CLIENT_SECRET
    return isKnown ? { data: { token: GRANT.access_token, expiresInSeconds: 3_600 } } : REFUSED
  },
}

const server = createServer(async (request, response) => {
  const answer = STAND_INS[String(request.url)]?.(request, await text(request))
  const status = answer === undefined ? 404 : answer === REFUSED ? 401 : 200
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
})
await once(server.listen(0, '127.0.0.1'), 'listening')
const standIns = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
const send = globalThis.fetch
globalThis.fetch = (url, init) => send(String(url).replace('https://id.example.com', standIns), init)

// Another path: the provider of a service, as the page shows it.
Object.assign(process.env, {
  MERCHANT_AUTH_URL: 'https://id.example.com/realms/shop',
  MERCHANT_AUTH_AUDIENCE: 'https://api.example.com',
  MERCHANT_AUTH_API_URLS: 'merchant=https://api.example.com/merchant',
  MERCHANT_AUTH_CLIENT_ID: CLIENT_ID,
  MERCHANT_AUTH_CLIENT_SECRET: CLIENT_SECRET,
})
const { tokens } = await import('./parts/another-endpoint-tokens.ts')
assert.equal((await tokens.getToken()).value, GRANT.access_token)
await tokens.close()
console.log('another path: a token')

const provider = (path: string, fetch: typeof globalThis.fetch, clientSecret = CLIENT_SECRET) =>
  createTokenProvider({
    environment: {
      authUrl: `https://id.example.com/${path}`,
      audience: 'https://api.example.com',
      apiUrls: ['https://api.example.com/merchant'],
    },
    clientId: CLIENT_ID,
    clientSecret,
    bodyFormat: path === 'basic' ? 'form' : 'json',
    fetch,
  })

for (const [path, fetchToken] of [
  ['headers', withFurtherHeaders],
  ['basic', withHttpBasic],
  ['fields', withOtherFields],
] as const) {
  await using other = provider(path, fetchToken)
  assert.equal((await other.getToken()).value, GRANT.access_token)
  console.log(`${path}: a token`)
}

await using shortLived = provider('life', withShorterLife)
assert.ok((await shortLived.getToken()).expiresAt <= Date.now() + 180_000)
console.log('life: a token for three minutes')

await using later = provider('later', withLaterTokens)
const askedAt = Date.now()
await later.getToken()
assert.ok(Date.now() - askedAt >= 1_900)
console.log('later: a token that APIs accept by now')

// A wrong secret is the error that the token endpoint returns, and shows in no message.
const error: unknown = await provider('basic', withHttpBasic, 'close:sesame+1/2=')
  .getToken()
  .catch((reason: unknown) => reason)
assert.ok(error instanceof TokenRequestError)
assert.deepEqual([error.status, error.error, error.attempts], [401, 'invalid_client', 1])
console.log(`A wrong secret: ${error.message}`)

server.close()
