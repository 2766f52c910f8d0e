/** A token provider for unit tests, with a fixed token. */
import * as z from 'zod/mini'
import { strict } from '../checks.ts'
import { checkEnvironment, type Environment } from '../environments.ts'
import { ConfigurationError, ProviderClosedError } from '../errors.ts'
import { type AccessToken, createAccessToken } from '../token/access-token.ts'
import type { TokenProvider } from '../token/provider.ts'
import { checked } from './settings.ts'

/** Options of `createStaticTokenProvider`. */
export interface StaticTokenProviderOptions {
  /**
   * The environment whose APIs get the token.
   * @default `http://localhost` as token endpoint, audience and API
   */
  readonly environment?: Environment | undefined
  /**
   * The token's value: one or more of the characters that a bearer token may have (RFC 6750 §2.1).
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

const TOKEN = 'must be a non-empty string of the characters of a bearer token (RFC 6750 §2.1)'

const shape = strict({
  environment: z.optional(z.unknown()),
  value: z.optional(z.string(TOKEN).check(z.regex(/^[A-Za-z0-9\-._~+/]+=*$/, TOKEN))),
  scope: z.optional(z.string('must be a string')),
})

/**
 * Creates a token provider that always has the same token, for unit tests of code that needs a `TokenProvider`:
 * no server, no waiting, no expiry. `renewToken` resolves with undefined, so that an API's 401 stays a 401.
 *
 * @param options the environment, and the token's value and scope; by default a token for `http://localhost`
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every wrong option
 * @example
 * await using tokens = createStaticTokenProvider({ value: 'abc' })
 * tokens.currentToken()?.value // 'abc'
 */
export function createStaticTokenProvider(options: StaticTokenProviderOptions = {}): TokenProvider {
  const what = 'The options of the static token provider'
  const {
    environment: given = LOCALHOST,
    value = 'static-test-token',
    scope,
  } = checked(what, 'options', shape, options)
  const environment = checkEnvironment(given, 'environment')
  if (Array.isArray(environment)) throw new ConfigurationError(`${what} cannot be used`, environment)
  let token: AccessToken | undefined = createAccessToken(value, NEVER, scope)
  const getToken: TokenProvider['getToken'] = async ({ signal } = {}) => {
    if (token === undefined) throw new ProviderClosedError()
    signal?.throwIfAborted()
    return token
  }
  const close = async (): Promise<void> => {
    token = undefined
  }
  return {
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
}
