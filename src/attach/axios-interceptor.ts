/** The plain request interceptor for axios: it attaches, and leaves everything after that to axios. */
import type { AttachOptions, TokenProviderOptions } from '../options.ts'
import type { AccessToken } from '../token/access-token.ts'
import { createTokenProvider, type TokenProvider } from '../token/provider.ts'
import { attachesTo } from './axios-adapters.ts'
import { axiosCopyOfHeaders } from './axios-copy.ts'
import { guardFurther, guardOf, mayLeadElsewhere, takeOff } from './axios-redirects.ts'
import { CallerLimits, headerOf, UrlReader, whyConfigWithheld } from './axios-request.ts'
import {
  type AxiosBeforeRedirect,
  type AxiosConfig,
  type AxiosRequestInterceptor,
  asAxiosConfig,
} from './axios-types.ts'
import { type AttachContext, createAttachContext, headerValue } from './context.ts'
import { keepForLater } from './replay.ts'

const MOST_REMEMBERED = 8

/** The values that any of these interceptors put on last, for `attachAuth` on the same instance. */
const placed = new Set<string>()
const MOST_PLACED = 64

/** Takes off what such an interceptor put on a call that `attachAuth` sends with the token, and renews. */
export function takeOffPlaced({ headers }: AxiosConfig, context: AttachContext, url: string): void {
  if (placed.size === 0 || !placed.has(headerOf(headers, context.headerKey))) return
  if (context.destinations.apiOf(url) !== undefined) takeOff(headers, context.headerKey)
}

/** Our guards, each with the caller's own function: a config that is sent again gets one guard, not one more. */
const guards = new WeakMap<AxiosBeforeRedirect, AxiosBeforeRedirect | undefined>()

/**
 * A request interceptor that puts the token on calls below the environment's `apiUrls`, and does no more: a 401
 * renews nothing, and axios' own errors show the header. Register it first, so that it runs last and judges the
 * URL that is sent; where that cannot be, use `attachAuth`.
 *
 * It rejects as `TokenProvider.getToken` does where no token can be had.
 *
 * @param auth a provider, or the options for one of its own
 * @param attach the header and its scheme; `renewOnStatus` has no effect here
 * @returns what `instance.interceptors.request.use(…)` takes
 * @throws ConfigurationError (`ERR_CONFIGURATION`) with every wrong option
 * @example
 * api.interceptors.request.use(createAuthInterceptor(options))
 */
export function createAuthInterceptor(
  auth: TokenProvider | TokenProviderOptions,
  attach?: AttachOptions,
): AxiosRequestInterceptor {
  const tokens = isProvider(auth) ? auth : createTokenProvider(auth)
  const context = createAttachContext(tokens, attach)
  /** The values that were put on last: a config that is sent again, with one of them on it, gets the current one. */
  const ours: string[] = []
  const urls = new UrlReader()
  const redirects = new RedirectGuards(context)

  const put = (config: AxiosConfig, token: AccessToken): void => {
    const value = headerValue(context, token)
    if (!ours.includes(value)) ours.splice(0, ours.length, value, ...ours.slice(0, MOST_REMEMBERED - 1))
    placed.delete(value)
    placed.add(value)
    for (const oldest of placed) if (placed.size > MOST_PLACED) placed.delete(oldest)
    config.headers[context.header] = value
  }

  return (given) => {
    const config = asAxiosConfig(given)
    takeOffOurs(config, context, ours)
    const url = urls.urlOf(config)
    const withheld = whyConfigWithheld(context, url, config)
    if (withheld !== undefined) {
      context.emitWithheld(withheld, url)
      return given
    }
    if (attachesTo(config.adapter, url)) return given // attachAuth, on the same instance
    redirects.guard(config, url)
    const token = tokens.currentToken()
    if (token !== undefined) {
      put(config, token)
      return given
    }
    return attachLater(config, tokens, put).then(() => given)
  }
}

/** Guards the redirects of one call after the other; the next one often has the same URL, and so the same guard. */
class RedirectGuards {
  readonly #context: AttachContext
  #url = ''
  #callers: AxiosBeforeRedirect | undefined
  #guard: AxiosBeforeRedirect | undefined

  constructor(context: AttachContext) {
    this.#context = context
  }

  guard(config: AxiosConfig, url: string): void {
    const given = config.beforeRedirect
    const callers = given !== undefined && guards.has(given) ? guards.get(given) : given
    const guarded = { url, context: this.#context }
    if (this.#guard === undefined || url !== this.#url || callers !== this.#callers) {
      this.#guard = guardOf(callers, guarded)
      this.#url = url
      this.#callers = callers
      guards.set(this.#guard, callers)
    }
    config.beforeRedirect = this.#guard
    if (mayLeadElsewhere(config, guarded)) guardFurther(config, guarded)
  }
}

function isProvider(auth: TokenProvider | TokenProviderOptions): auth is TokenProvider {
  return typeof (auth as Partial<TokenProvider> | undefined)?.getToken === 'function'
}

async function attachLater(
  config: AxiosConfig,
  tokens: TokenProvider,
  put: (config: AxiosConfig, token: AccessToken) => void,
): Promise<void> {
  const limits = new CallerLimits(config, axiosCopyOfHeaders(config.headers))
  const bodyToSend = keepForLater(config.data)
  try {
    put(config, await limits.wait((signal) => tokens.getToken({ signal })))
  } catch (error) {
    // Of a call that was cancelled axios makes its own CanceledError, before it sends anything.
    if (!limits.canceled()) throw error
  } finally {
    const body = bodyToSend()
    if (body !== config.data) config.data = body
  }
}

function takeOffOurs({ headers }: AxiosConfig, { headerKey }: AttachContext, ours: readonly string[]): void {
  if (ours.includes(headerOf(headers, headerKey))) takeOff(headers, headerKey)
}
