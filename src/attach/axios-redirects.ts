/** Redirects in axios: where they may take the token, and whether an answer came by one. */

import type { AxiosBeforeRedirect, AxiosConfig } from './axios-types.ts'
import type { AttachContext } from './context.ts'

/**
 * Keeps the token within `apiUrls` and on the origin of the call: axios' http adapter asks before each redirect
 * and has the header taken off; with fetch, which takes off nothing but `Authorization`, a redirect under
 * another header is not followed.
 *
 * @returns what stands as `beforeRedirect` on the config now
 */
export function guardRedirects(
  config: AxiosConfig,
  url: string,
  context: AttachContext,
  onRedirect: () => void = () => {},
): AxiosBeforeRedirect {
  const { beforeRedirect } = config
  const guard: AxiosBeforeRedirect = (options, response, request) => {
    onRedirect()
    if (context.destinations.apiOf(options.href) === undefined || originOf(options.href) !== originOf(url)) {
      takeOff(options.headers, context.headerKey)
    }
    beforeRedirect?.(options, response, withoutToken(request, context.headerKey))
  }
  config.beforeRedirect = guard
  if (!context.isAuthorization && config.fetchOptions?.redirect !== 'error') {
    config.fetchOptions = { ...config.fetchOptions, redirect: 'manual' }
  }
  return guard
}

function originOf(url: string): string {
  return new URL(url).origin
}

/** Deletes a header under any spelling of its name. */
export function takeOff(headers: Record<string, unknown>, key: string): void {
  for (const name of Object.keys(headers)) {
    if (name.toLowerCase() === key) delete headers[name]
  }
}

/** The caller's own `beforeRedirect` is shown the request without the token. */
function withoutToken(request: unknown, key: string): unknown {
  if (typeof request !== 'object' || request === null || !('headers' in request)) return request
  const headers = { ...(request.headers as Record<string, unknown>) }
  takeOff(headers, key)
  return { ...request, headers }
}

const redirected = new WeakSet<object>()
const watching = new WeakMap<typeof fetch, typeof fetch>()

/** Whether axios' fetch adapter got the answer to this Request by a redirect. Only of watched fetches. */
export function cameByRedirect(request: unknown): boolean {
  return typeof request === 'object' && request !== null && redirected.has(request)
}

/** A fetch that remembers which Requests were redirected. The same one each time: axios keeps an adapter for each. */
export function watchedFetch(given: typeof fetch | undefined): typeof fetch {
  const key = given ?? watchedGlobalFetch
  let watched = watching.get(key)
  if (watched === undefined) {
    watched = async (input, init) => {
      const response = await (given ?? globalThis.fetch)(input, init)
      if (response.redirected && typeof input === 'object') redirected.add(input)
      return response
    }
    watching.set(key, watched)
  }
  return watched
}

// Stands for whatever globalThis.fetch is at the time of the call.
const watchedGlobalFetch: typeof fetch = (input, init) => globalThis.fetch(input, init)
