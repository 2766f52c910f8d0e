/** got, which has an HTTP stack of its own: the token is put on below its options, and renewed after a 401. */
import assert from 'node:assert/strict'
import { type ClientRequest, request as httpRequest } from 'node:http'
import { request as httpsRequest, type RequestOptions } from 'node:https'
import { inspect } from 'node:util'
import got, { type ExtendOptions, HTTPError, type Response } from 'got'
import { type AccessToken, createTokenProvider, type TokenProvider } from 'merchant-auth'
import { type SandboxTarget, startSandbox } from 'merchant-auth/testing'

/** Node.js' own way back from a response to its request, which the types leave out. */
type WithRequest = Response & { readonly req: ClientRequest }

/**
 * Options for `got.extend`. got asks `request` for each send, redirects and retries included, with the URL that is
 * really sent: so each send has the current token, or none. What is put on here is in no options that got prints.
 * Sends are made over HTTP/1.1.
 */
function withToken(tokens: TokenProvider): ExtendOptions {
  const sent = new WeakMap<ClientRequest, AccessToken>()
  return {
    request: async (url, options, callback) => {
      const headers = options.headers as Record<string, string>
      // A header of the caller's own is left as it is. Without an answer from here, got sends the request itself.
      if (headers['authorization'] !== undefined || !mayHaveToken(url, tokens)) return undefined
      const token = await tokens.getToken()
      const authorized: RequestOptions = {
        ...options,
        headers: { ...headers, authorization: `Bearer ${token.value}` },
      }
      const send = url.protocol === 'https:' ? httpsRequest : httpRequest
      const request = send(url, authorized, callback)
      sent.set(request, token)
      return request
    },
    hooks: {
      afterResponse: [
        async (response, retryWithMergedOptions) => {
          const { options } = response.request
          const rejected = sent.get((response as WithRequest).req)
          const mayRenew =
            response.statusCode === 401 &&
            !response.headers['www-authenticate']?.includes('insufficient_scope') &&
            response.redirectUrls.length === 0 &&
            options.context['renewed'] !== true &&
            isRepeatable(options.body)
          if (rejected === undefined || !mayRenew) return response
          const { signal } = options
          const renewing = tokens.renewToken(rejected, { url: response.url, ...(signal && { signal }) })
          // Without another token, the API's own answer is the best there is.
          const renewed = await renewing.catch(() => undefined)
          if (renewed === undefined) return response
          // The other hooks of this kind are to see the second answer, too.
          return retryWithMergedOptions({ context: { renewed: true }, preserveHooks: true })
        },
      ],
    },
  }
}

/** Whether a URL is below one of `apiUrls`: the same origin, and the path equal or continuing at a slash. */
function mayHaveToken({ origin, pathname }: URL, { environment }: TokenProvider): boolean {
  // An encoded slash or backslash is one path segment to some servers, and two to others.
  if (/%2f|%5c/i.test(pathname)) return false
  return Object.values<string>(environment.apiUrls).some((apiUrl) => {
    const api = new URL(apiUrl)
    return origin === api.origin && `${pathname}/`.startsWith(`${api.pathname.replace(/\/+$/, '')}/`)
  })
}

/** Whether got still has the bytes: a stream or an iterator is used up by the first send. */
function isRepeatable(body: unknown): boolean {
  return body === undefined || typeof body === 'string' || ArrayBuffer.isView(body)
}

const sandbox = await startSandbox()
const { environment, clientId, clientSecret, merchantUrl, inStoreUrl } = sandbox.test
const tokens = createTokenProvider({ environment, clientId, clientSecret })
const api = got.extend(withToken(tokens), {
  prefixUrl: merchantUrl,
  retry: { calculateDelay: ({ computedValue }) => Math.min(computedValue, 10) }, // without it, the first is after 1 s
})

interface Echo {
  readonly jti: string
  readonly body: string
}

try {
  const first = await api.get('orders/1').json<Echo>()
  console.log(`GET /orders/1: the API saw token ${first.jti}`)

  sandbox.test.revoke()
  sandbox.test.clearRequests()
  const second = await api.post('orders', { json: { amount: 1200 } }).json<Echo>()
  assert.deepEqual(sends(), ['401 {"amount":1200}', '200 {"amount":1200}'])
  assert.notEqual(second.jti, first.jti)
  console.log(`POST /orders after a revocation: the same body again, with token ${second.jti}`)

  sandbox.test.fail('merchant', { kind: 'status', status: 503 })
  sandbox.test.clearRequests()
  await api.get('orders/2')
  assert.deepEqual(sends(), ['503 ', '200 '])
  console.log('GET /orders/2: a 503, and got tried again')

  // A redirect to another origin, and one on the same origin that leads out of the APIs, go without the token.
  for (const location of [`${sandbox.production.merchantUrl}/orders`, `${environment.authUrl}/elsewhere`]) {
    sandbox.test.fail('merchant', { kind: 'redirect', location })
    await api.get('orders/3', { throwHttpErrors: false })
  }
  const arrived = [sandbox.production.requests().at(-1), sandbox.test.requests().at(-1)]
  assert.deepEqual(
    arrived.map((request) => [request?.path, request?.headers['authorization']]),
    [
      ['/merchant/orders', undefined],
      ['/elsewhere', undefined],
    ],
  )
  console.log('Redirects out of the APIs went without the token')

  sandbox.test.clearRequests()
  await api.get('orders/4', { headers: { authorization: 'Bearer mine' }, throwHttpErrors: false })
  assert.deepEqual(sends(), ['401 '])
  console.log("A header of the caller's own is left as it is, and not renewed")

  sandbox.test.configure({ rejectAllTokens: ['in-store'] })
  const refused = api.get('sales/1', { prefixUrl: inStoreUrl })
  const error: unknown = await refused.catch((reason: unknown) => reason)
  assert.ok(error instanceof HTTPError)
  assert.deepEqual(sends('in-store'), ['401 ', '401 '])
  const { value } = await tokens.getToken()
  assert.equal(inspect(error, { depth: 10 }).includes(value), false)
  assert.equal(JSON.stringify(error.options).includes(value), false)
  console.log(`GET /sales/1, refused for good: two sends, and a ${error.name} that does not show the token`)
} finally {
  await tokens.close()
  await sandbox.close()
}

/** What an API received: the answer's status, and the body that came with the request. */
function sends(target: SandboxTarget = 'merchant'): string[] {
  return sandbox.test.requests(target).map(({ status, body }) => `${status} ${body}`)
}
