/** Redirects in axios: whether they may keep the token, and whether a response came by one. */

import type { AttachContext } from './authorize.ts'
import type { AxiosBeforeRedirect, AxiosConfig, AxiosRedirectOptions, AxiosTransport } from './axios-types.ts'
import { deleteHeader, getHeader } from './headers.ts'

/** A call whose redirects are guarded. */
export interface Guarded {
  /** The URL that is called. */
  readonly url: string
  readonly context: AttachContext
  /** Set when the call is redirected. */
  redirected: boolean
}

/**
 * Guards a caller's own transport. With a header other than `Authorization`, also keeps fetch from following redirects,
 * because fetch would forward the header.
 */
export function guardTransportAndFetch(config: AxiosConfig, guarded: Guarded): void {
  const { transport, fetchOptions } = config
  if (transport) config.transport = new GuardedTransport(transport, guarded)
  if (!guarded.context.isAuthorization && fetchOptions?.redirect !== 'error')
    config.fetchOptions = { ...fetchOptions, redirect: 'manual' }
}

/** By this key a guard has what it was made of. */
const PARTS = Symbol('parts')

interface Guard extends AxiosBeforeRedirect {
  [PARTS]?: () => { readonly callers: AxiosBeforeRedirect | undefined; readonly guarded: Guarded }
}

/**
 * Replaces the caller's `beforeRedirect`, which axios' http adapter calls before each redirect. The token stays only
 * within `apiUrls` and on the origin of the call. A config that is sent again has one guard for each attachment.
 */
export function guardOf(given: AxiosBeforeRedirect | undefined, guarded: Guarded): AxiosBeforeRedirect {
  const { url, context } = guarded
  const callers = withoutGuard(given, context)
  const guard: Guard = (options, response, request) => {
    guarded.redirected = true
    const value = deleteHeader(options.headers, context.headerKey)
    const before = partsOf(options)
    if (callers) callers(options, response, withoutToken(request, context.headerKey)) // axios ignores falsy values
    const changed = partsOf(options)
    const target = changed === before ? options.href : changed
    const mayKeep = context.destinations(target).api !== undefined && originOf(target) === originOf(url)
    if (mayKeep && value !== undefined && getHeader(options.headers, context.headerKey) === undefined)
      options.headers[context.header] = value
  }
  guard[PARTS] = () => ({ callers, guarded })
  return guard
}

/** Removes the guard of this attachment, and keeps those of others. */
function withoutGuard(given: Guard | undefined, context: AttachContext): AxiosBeforeRedirect | undefined {
  const parts = given?.[PARTS]?.()
  if (parts === undefined) return given
  const { callers, guarded } = parts
  return guarded.context === context ? callers : guardOf(withoutGuard(callers, context), guarded)
}

/**
 * Guards the caller's transport, to which axios passes no `beforeRedirect`: follow-redirects calls the one in its options.
 * A class, because axios copies plain objects, and a config that is sent again must not be guarded twice.
 */
class GuardedTransport implements AxiosTransport {
  readonly #given: AxiosTransport
  readonly #guard: AxiosBeforeRedirect

  constructor(transport: AxiosTransport, guarded: Guarded) {
    const isGuarded = transport instanceof GuardedTransport
    this.#given = isGuarded ? transport.#given : transport
    this.#guard = guardOf(isGuarded ? transport.#guard : undefined, guarded)
  }

  request(
    { beforeRedirect, ...options }: Parameters<AxiosTransport['request']>[0],
    ...rest: readonly unknown[]
  ): unknown {
    const both: AxiosBeforeRedirect = (...redirect) => {
      beforeRedirect?.(...redirect)
      this.#guard(...redirect)
    }
    return this.#given.request({ ...options, beforeRedirect: both }, ...rest)
  }
}

/** The URL that Node.js will request, from the parts: a caller's function may have changed them, and with a proxy they differ from `href`. */
function partsOf({ href, protocol, hostname, port, path }: AxiosRedirectOptions): string {
  if (hostname === undefined) return href
  const host = hostname.includes(':') ? `[${hostname}]` : hostname
  return `${protocol}//${host}${port ? `:${port}` : ''}${path}`
}

function originOf(url: string): string {
  return new URL(url).origin
}

/** The request as the caller's `beforeRedirect` sees it: without the token. */
function withoutToken(request: unknown, key: string): unknown {
  if (typeof request !== 'object' || request === null || !('headers' in request)) return request
  const headers = { ...(request.headers as Record<string, unknown>) }
  deleteHeader(headers, key)
  return { ...request, headers }
}

const redirected = new WeakSet<object>()
const watching = new WeakMap<typeof fetch, typeof fetch>()

/** Whether a watched fetch answered this Request of axios' fetch adapter after a redirect. */
export function cameByRedirect(request: unknown): boolean {
  return redirected.has(request as object)
}

/** A fetch that remembers which Requests were redirected. The same one each time, because axios keeps an adapter for each. */
export function watchedFetch(given: typeof fetch | undefined): typeof fetch {
  const unwatched = typeof given === 'function' ? given : globalFetch // as axios does
  let watched = watching.get(unwatched)
  if (watched === undefined) {
    watched = async (input, init) => {
      const response = await unwatched(input, init)
      if (response.redirected) redirected.add(Object(input)) // without a Request class axios passes the URL as text
      return response
    }
    watching.set(unwatched, watched)
  }
  return watched
}

// Looked up at each call.
const globalFetch: typeof fetch = (input, init) => globalThis.fetch(input, init)
