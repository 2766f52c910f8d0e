/** got, with the token attached below its options. */
import { type ClientRequest, request as httpRequest } from 'node:http'
import { request as httpsRequest, type RequestOptions } from 'node:https'
import type { ExtendOptions, Response } from 'got'
import type { AccessToken, TokenProvider } from 'merchant-auth'

/** The request of a response, which the types do not have. */
type WithRequest = Response & { readonly req: ClientRequest }

/**
 * Options for `got.extend`. got calls `request` for each send, including redirects and retries, with the URL that is
 * actually sent. A header that is set here does not appear in the log output of got's options. Requests use HTTP/1.1.
 */
export function withToken(tokens: TokenProvider): ExtendOptions {
  const sent = new WeakMap<ClientRequest, AccessToken>()
  return {
    request: async (url, options, callback) => {
      const headers = options.headers as Record<string, string>
      // A header that the caller set stays unchanged. Where this returns nothing, got sends the request itself.
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
            options.context['renewed'] !== true
          if (rejected === undefined || !mayRenew) return response
          const { signal } = options
          const renewing = tokens.renewToken(rejected, { url: response.url, ...(signal && { signal }) })
          const renewed = await renewing.catch(() => undefined) // without a new token, the caller gets the 401
          // A stream is sent once: the new token serves the next call.
          if (renewed === undefined || !isRepeatable(options.body)) return response
          // With `preserveHooks`, your other hooks also see the second response.
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
