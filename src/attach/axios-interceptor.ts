/** The plain request interceptor for axios: it attaches the token, and axios does the rest. */
import type { AttachOptions, TokenProviderOptions } from '../options.ts'
import { UsedSecrets } from '../redact.ts'
import type { AccessToken } from '../token/access-token.ts'
import { createTokenProvider, type TokenProvider } from '../token/provider.ts'
import { type AttachContext, createAttachContext } from './authorize.ts'
import { attachesTo, configGetsToken, urlOf, waitWithin, writable } from './axios-config.ts'
import { axiosCopyOfHeaders } from './axios-copy.ts'
import { guardOf, guardTransportAndFetch } from './axios-redirects.ts'
import type { AxiosConfig, AxiosRequestInterceptor } from './axios-types.ts'
import { watchBody } from './body.ts'
import { deleteHeader, getHeader } from './headers.ts'

/** The header values that any of these interceptors set most recently. */
const placed = new UsedSecrets(64)

/** Strips a header that such an interceptor set from a call to which `attachAuth` attaches the token. */
export function stripInterceptorHeader(config: AxiosConfig, context: AttachContext, url?: string): void {
  if (!placed.has(getHeader(config.headers, context.headerKey))) return
  if (context.destinations(url ?? urlOf(config)).api !== undefined)
    deleteHeader(config.headers, context.headerKey)
}

/**
 * A request interceptor that only attaches the token to calls below the environment's `apiUrls`: a 401 does not renew it,
 * and axios' errors show the header. Register it first, so that it runs last and sees the final URL; if that is not
 * possible, use `attachAuth`.
 *
 * It rejects as `TokenProvider.getToken` does if no token can be acquired.
 *
 * @param auth a provider, or the options for a new one
 * @param attach the header and its scheme; `renewOnStatus` has no effect here
 * @returns an interceptor for `instance.interceptors.request.use(…)`
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every invalid option
 * @example
 * api.interceptors.request.use(createAuthInterceptor(options))
 */
export function createAuthInterceptor(
  auth: TokenProvider | TokenProviderOptions,
  attach?: AttachOptions,
): AxiosRequestInterceptor {
  const tokens = isProvider(auth) ? auth : createTokenProvider(auth)
  const context = createAttachContext(tokens, attach)
  const { header, headerKey } = context
  /** The values that this interceptor set most recently: a config that is sent again gets the current token. */
  const own = new UsedSecrets()

  const setHeader = (config: AxiosConfig, value: string): void => {
    own.add(value)
    placed.add(value)
    config.headers[header] = value
  }

  return (given) => {
    const config = writable(given as object as AxiosConfig)
    const result = config as object as typeof given
    if (own.has(getHeader(config.headers, headerKey))) deleteHeader(config.headers, headerKey)
    const url = urlOf(config)
    if (!configGetsToken(context, url, config)) return result
    if (attachesTo(config.adapter, url)) return result // attachAuth, on the same instance
    const guarded = { url, context, redirected: false }
    config.beforeRedirect = guardOf(config.beforeRedirect, guarded)
    guardTransportAndFetch(config, guarded)
    const token = tokens.currentToken()
    if (token !== undefined) {
      setHeader(config, context.headerValue(token))
      return result
    }
    return tokenWithin(config, tokens).then((acquired) => {
      if (acquired !== undefined) setHeader(config, context.headerValue(acquired))
      return result
    })
  }
}

function isProvider(auth: TokenProvider | TokenProviderOptions): auth is TokenProvider {
  return typeof (auth as Partial<TokenProvider> | undefined)?.getToken === 'function'
}

/** A token, within the caller's limits; undefined for a canceled call, which axios rejects before it sends anything. */
async function tokenWithin(config: AxiosConfig, tokens: TokenProvider): Promise<AccessToken | undefined> {
  const bodyToSend = watchBody(config.data)
  try {
    return await waitWithin(config, axiosCopyOfHeaders(config.headers), (signal) =>
      tokens.getToken({ signal }),
    )
  } catch (error) {
    if (config.signal?.aborted) return undefined // a cancelToken rejects with axios' own error already
    throw error
  } finally {
    const body = bodyToSend()
    if (body !== config.data) config.data = body
  }
}
