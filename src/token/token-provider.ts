/** The public face of the token: what a provider promises, and how one is made. */
import type { Environment } from '../environments.ts'
import { ConfigurationError } from '../errors.ts'
import { resolveOptions, type TokenProviderOptions } from '../options.ts'
import type { AccessToken } from './access-token.ts'
import { ClientCredentialsProvider } from './client-credentials.ts'

/** What hands out the current token of one environment, and renews it. */
export interface TokenProvider {
  /** The environment as it was given: a frozen copy. */
  readonly environment: Environment
  /**
   * The token in hand, without waiting: undefined where there is none that may still be sent. In the refresh
   * window this starts a renewal in the background.
   */
  currentToken(): AccessToken | undefined
  /**
   * The token in hand, or a new one. Concurrent calls share one token request; `signal` ends this call's wait alone.
   *
   * @throws TokenRequestError where none could be had, or could not a moment ago (`retryAfterMs`)
   * @throws TokenResponseError where the token endpoint's answer is no token response
   * @throws ProviderClosedError after `close()`
   * @throws the signal's reason
   * @example
   * const { value } = await tokens.getToken({ signal: AbortSignal.timeout(5_000) })
   */
  getToken(options?: { readonly signal?: AbortSignal | undefined }): Promise<AccessToken>
  /**
   * A token other than the `rejected` one, which an API has refused (401): the current token where it is newer,
   * else a renewed one. Concurrent calls share one renewal. Resolves with undefined where renewals for the API
   * of `url` are rationed at the moment, where `url` is not below `apiUrls`, and where the token endpoint gave out
   * the rejected token again.
   *
   * @param rejected the token that the refused call carried, or its value
   * @param options `url`: what was called, so that the ration of its API is used; `signal`: ends this call's wait alone
   * @throws as `getToken` does
   */
  renewToken(
    rejected: AccessToken | string,
    options?: { readonly signal?: AbortSignal | undefined; readonly url?: string | URL | undefined },
  ): Promise<AccessToken | undefined>
  /** Forgets the token, aborts the request in flight and ends every wait. Later calls reject with `ProviderClosedError`. */
  close(): Promise<void>
  /** `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * Creates the provider of one environment's token, to be shared by everything that calls its APIs. It asks for
 * nothing until a token is needed, and then by the client credentials grant (RFC 6749 §4.4).
 *
 * @param options environment, client id and client secret; everything else has a default. They are checked, and copied
 * @throws ConfigurationError (`ERR_CONFIGURATION`) with every wrong option; (`ERR_BROWSER`) in a browser
 * @example
 * const tokens = createTokenProvider({
 *   environment: environments.test,
 *   clientId: process.env.CLIENT_ID ?? '',
 *   clientSecret: process.env.CLIENT_SECRET ?? '',
 * })
 */
export function createTokenProvider(options: TokenProviderOptions): TokenProvider {
  if ('document' in globalThis && globalThis.process?.versions?.node === undefined) {
    throw new ConfigurationError(
      'merchant-auth does not run in a browser',
      [{ option: 'clientSecret', reason: 'belongs on a server: whoever opens the page could read it' }],
      'ERR_BROWSER',
    )
  }
  return new ClientCredentialsProvider(resolveOptions(options))
}
