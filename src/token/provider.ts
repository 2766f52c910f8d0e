/** What a token provider offers. */
import type { Environment } from '../environment/environment.ts'
import type { AccessToken } from './request/access-token.ts'

/** The call whose token an API rejected. @inline */
export interface RenewOptions {
  /** Ends the wait of this call only. */
  readonly signal?: AbortSignal | undefined
  /** The URL that was called. */
  readonly url?: string | URL | undefined
  /** The method of the call. */
  readonly method?: string | undefined
}

/** A call for a token. @inline */
export interface GetTokenOptions {
  /** Ends the wait of this call only. */
  readonly signal?: AbortSignal | undefined
  /**
   * Whether to resolve with a token that was requested after this call, whatever is cached or stored: for example, after the
   * service granted a permission.
   * @default false
   */
  readonly forceRefresh?: boolean | undefined
}

/** Provides and renews the access token of one environment. */
export interface TokenProvider {
  /** A frozen copy of the environment. */
  readonly environment: Environment
  /**
   * The cached token, without waiting; undefined if there is none that may still be sent. In the refresh window this starts
   * a background renewal.
   */
  currentToken(): AccessToken | undefined
  /**
   * The cached token, or a new one. Concurrent calls share one token request; `signal` ends the wait of this call only.
   *
   * With `forceRefresh`, a token that was requested after this call. All calls that wait for such a request to begin share it,
   * and so do processes with a store, whose token it replaces. Meanwhile, and if it fails, the current token stays in use. No
   * rate limit of renewals and no reserved quota holds it back, so do not force one for each response of an API.
   *
   * @throws {@link TokenRequestError} if no token could be acquired, now or before the end of a cooldown (`retryAfterMs`)
   * @throws {@link TokenResponseError} if the response of the token endpoint is not a valid token response
   * @throws {@link ProviderClosedError} after `close()`
   * @throws the signal's reason
   * @example
   * const { value } = await tokens.getToken({ signal: AbortSignal.timeout(5_000) })
   */
  getToken(options?: GetTokenOptions): Promise<AccessToken>
  /**
   * A token other than the `rejected` one, for which an API returned 401: the current token if it is newer, otherwise a
   * renewed one. Concurrent calls share one renewal. Resolves with undefined where nothing is renewed (event
   * `renewal-suppressed`): the API of `url` has used up its renewals, or a quota of the token endpoint allows none; `url` is not
   * below `apiUrls`; or the token endpoint issued the rejected token again.
   *
   * If you call this yourself, every 401 counts as one about the token, because the provider does not see which calls succeed.
   * Attached clients report them: for their calls a single 401 may be about the call, and then renews nothing.
   *
   * @param rejected the token of the rejected call, or its value
   * @param options `url`: the URL that was called, which selects the API; `method`: of the call, for events; `signal`: ends
   *   the wait of this call only
   * @throws as `getToken` does
   */
  renewToken(rejected: AccessToken | string, options?: RenewOptions): Promise<AccessToken | undefined>
  /** Forgets the token, aborts the request in flight and ends every wait. Later calls reject with `ProviderClosedError`. */
  close(): Promise<void>
  /** `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}
