/** A token provider for unit tests, with a fixed token. */

import { ConfigurationError, ProviderClosedError } from '../base/errors.ts'
import { checkEnvironment, type Environment } from '../environment/environment.ts'
import { createEmit } from '../events/emit.ts'
import type { AuthEvent } from '../events/events.ts'
import { registerProvider } from '../token/attached-provider.ts'
import type { TokenProvider } from '../token/provider.ts'
import { type AccessToken, createAccessToken } from '../token/request/access-token.ts'

/** Options of `createStaticTokenProvider`. */
export interface StaticTokenProviderOptions {
  /**
   * The environment whose APIs get the token.
   * @default `http://localhost` as token endpoint, audience and API
   */
  readonly environment?: Environment | undefined
  /**
   * The token's value: one or more visible ASCII characters.
   * @default 'static-test-token'
   */
  readonly value?: string | undefined
  /**
   * The token's scopes, separated by spaces.
   * @default undefined
   */
  readonly scope?: string | undefined
}

const LOCALHOST: Environment = {
  name: 'static',
  authUrl: 'http://localhost',
  audience: 'http://localhost',
  apiUrls: ['http://localhost'],
}

/** The last time that a Date can hold: the token never expires. */
const NEVER = 8_640_000_000_000_000

/**
 * Creates a token provider that always has the same token, for unit tests of code that needs a `TokenProvider`:
 * no server, no waiting, no expiry. `renewToken` resolves with undefined, so that an API's 401 stays a 401.
 *
 * @param options the environment, and the token's value and scope; by default a token for `http://localhost`
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) if the environment is invalid
 * @example
 * await using tokens = createStaticTokenProvider({ value: 'abc' })
 * tokens.currentToken()?.value // 'abc'
 */
export function createStaticTokenProvider(options: StaticTokenProviderOptions = {}): TokenProvider {
  const { value = 'static-test-token', scope } = options
  const environment = checkEnvironment(options.environment ?? LOCALHOST, 'environment')
  if (Array.isArray(environment)) throw new ConfigurationError('The environment cannot be used', environment)
  let token: AccessToken | undefined = createAccessToken(value, NEVER, scope)
  const getToken: TokenProvider['getToken'] = async ({ signal } = {}) => {
    if (token === undefined) throw new ProviderClosedError()
    signal?.throwIfAborted()
    return token
  }
  const close = async (): Promise<void> => {
    token = undefined
  }
  const provider: TokenProvider = {
    environment,
    currentToken: () => token,
    getToken,
    async renewToken(_rejected, options) {
      await getToken(options)
      return undefined
    },
    close,
    [Symbol.asyncDispose]: close,
  }
  const emit = createEmit(options.environment === undefined ? warnOnce() : undefined, environment.name)
  registerProvider(provider, {
    emit,
    secrets: [value],
    answered: () => {},
    replacementFor: async () => undefined,
  })
  return provider
}

/** A listener that warns about the first call without the token, which a test would otherwise not explain. */
function warnOnce(): (event: AuthEvent) => void {
  let isWarned = false
  return (event) => {
    if (isWarned || event.type !== 'token-withheld' || event.reason !== 'destination') return
    isWarned = true
    process.emitWarning(
      `A call to ${event.url} was sent without the token: createStaticTokenProvider() without an environment attaches ` +
        'its token to calls below http://localhost only. Pass the environment of the service.',
      { code: 'MERCHANT_AUTH_WITHHELD' },
    )
  }
}
