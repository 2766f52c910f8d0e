/** The token on axios by a request interceptor that only attaches it. */
import type { Destinations } from '../../environment/destinations.ts'
import type { Api } from '../../environment/environment.ts'
import type { AttachOptions, TokenProviderOptions } from '../../options/options.ts'
import { createTokenProvider } from '../../token/client-credentials-provider.ts'
import type { TokenProvider } from '../../token/provider.ts'
import type { AccessToken } from '../../token/request/access-token.ts'
import { waitForToken } from '../authorize.ts'
import { createAttachContext } from '../context.ts'
import { clearHeader, type Header } from '../headers.ts'
import { addConfig, admitConfig, DEFAULT_ADAPTERS, startWait, urlOf } from './config.ts'
import { createRedirectGuard, withoutRedirects } from './redirects.ts'
import type { AuthInterceptor, AxiosBeforeRedirect, AxiosConfig, AxiosRequestInterceptor } from './types.ts'

/**
 * A request interceptor that only attaches the token to calls below the environment's `apiUrls`: a 401 does not renew it,
 * and axios' errors show the header. Register it first, so that it runs last and sees the final URL; if that is not
 * possible, use `attachAuth`.
 *
 * It rejects as `TokenProvider.getToken` does if no token can be acquired.
 *
 * @param auth a provider, or the options for a new one
 * @param attach the header and its scheme; `renewOnStatus` has no effect here
 * @returns an interceptor for `instance.interceptors.request.use(…)`; its `tokens` is the provider, for `close()`
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every invalid option
 * @example
 * api.interceptors.request.use(createAuthInterceptor(options))
 */
export function createAuthInterceptor(
  auth: TokenProvider | TokenProviderOptions,
  attach?: AttachOptions,
): AuthInterceptor {
  const tokens = auth && 'getToken' in auth ? auth : createTokenProvider(auth)
  const context = createAttachContext(tokens, attach)
  const { destinations, isAuthorization } = context
  const guardFor = redirectGuards(destinations)

  const addHeader = (config: AxiosConfig, url: string, token: AccessToken): AxiosConfig => {
    const header = context.headerFor(token)
    config.headers[header.name] = header.value
    const { api } = destinations(url)
    if (api !== undefined) config.beforeRedirect = guardFor({ header, api, given: config.beforeRedirect })
    if (!isAuthorization) config.fetchOptions = withoutRedirects(config.fetchOptions)
    return config
  }

  const intercept = (config: AxiosConfig): AxiosConfig | Promise<AxiosConfig> => {
    removePlaced(config)
    const url = urlOf(config)
    if (admitConfig(config, url, context) !== 'attach') return config
    const token = tokens.currentToken()
    if (token !== undefined) return addHeader(config, url, token)
    const call = {
      body: config.data,
      startWait: () => startWait(config, config.adapter || DEFAULT_ADAPTERS),
      onError: (error: unknown) => addConfig(error, config),
    }
    return waitForToken(call, tokens).then((attempt) => {
      config.data = attempt.body
      return addHeader(config, url, attempt.token)
    })
  }
  return Object.assign(intercept as object as AxiosRequestInterceptor, { tokens })
}

/** What an interceptor adds to a config. */
interface Placed {
  readonly header: Header
  readonly api: Api
  /** The caller's own `beforeRedirect`. */
  readonly given: AxiosBeforeRedirect | undefined
}

/**
 * What was added to a config with this `beforeRedirect`. axios copies a config that is sent again, by whatever instance; the
 * redirect guard is what says that an interceptor has seen it before.
 */
const placedBy = new WeakMap<AxiosBeforeRedirect, Placed>()

/** Removes what an interceptor added to a config that is sent again, but for a header that the caller has set meanwhile. */
export function removePlaced(config: AxiosConfig): void {
  const placed = config.beforeRedirect && placedBy.get(config.beforeRedirect)
  if (placed === undefined) return
  config.beforeRedirect = placed.given
  clearHeader(config.headers, placed.header)
}

/** The redirect guards of an interceptor. The next call often needs the same one. */
function redirectGuards(destinations: Destinations): (placed: Placed) => AxiosBeforeRedirect {
  let last: (Placed & { readonly guard: AxiosBeforeRedirect }) | undefined
  return (placed) => {
    const { header, api, given } = placed
    if (last?.header !== header || last.api !== api || last.given !== given) {
      const guard = createRedirectGuard({ url: api.url, header, destinations, given })
      placedBy.set(guard, placed)
      last = { ...placed, guard }
    }
    return last.guard
  }
}
