// The token endpoint of oidc-provider, and an API that checks its tokens: node oidc-provider.mjs SECRET CLIENT…
// Prints its URL, and ends with its stdin. A client has the name of its authentication method at the end of its id.
import { createServer } from 'node:http'
import { createRemoteJWKSet, jwtVerify } from 'jose'
import { Provider } from 'oidc-provider'

const [client_secret, ...clients] = process.argv.slice(2)
process.stdin.resume().on('end', () => process.exit())

const server = createServer().listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`
  const audience = `${issuer}/api`
  const provider = new Provider(issuer, {
    clients: clients.map((client_id) => ({
      client_id,
      client_secret,
      token_endpoint_auth_method: client_id.split(' ').at(-1),
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
    })),
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        getResourceServerInfo: () => ({
          audience,
          scope: '',
          accessTokenFormat: 'jwt',
          accessTokenTTL: 3600,
        }),
      },
    },
  })
  const keys = createRemoteJWKSet(new URL(`${issuer}/jwks`))
  const authorize = provider.callback()
  server.on('request', async (request, response) => {
    if (!request.url.startsWith('/api/')) return authorize(request, response)
    const [, token = ''] = /^Bearer (.*)$/.exec(request.headers.authorization ?? '') ?? []
    const claims = await jwtVerify(token, keys, { issuer, audience }).catch(() => undefined)
    response.writeHead(claims === undefined ? 401 : 200).end()
  })
  console.log(issuer)
})
