/** A token provider for unit tests: it has its token from the start, and asks nobody for another. */
import * as z from 'zod/mini'
import { copied } from '../checks.ts'
import { checkEnvironment, type Environment } from '../environments.ts'
import { ConfigurationError, ProviderClosedError } from '../errors.ts'
import { type AccessToken, createAccessToken } from '../token/access-token.ts'
import type { TokenProvider } from '../token/provider.ts'
import { checked } from './checked.ts'

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
   * The scopes that the token is said to have, separated by spaces.
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

/** The last instant that a Date can hold: the token never expires. */
const NEVER = 8_640_000_000_000_000

const TOKEN = 'must be a non-empty string of the characters of a bearer token (RFC 6750 §2.1)'

const shape = copied(
  z.strictObject(
    {
      environment: z.optional(z.unknown()),
      value: z.optional(z.string(TOKEN).check(z.regex(/^[A-Za-z0-9\-._~+/]+=*$/, TOKEN))),
      scope: z.optional(z.string('must be a string')),
    },
    'must be an object',
  ),
)

/**
 * Creates a token provider that always has the same token, for unit tests of code that takes a `TokenProvider`:
 * no server, no waiting, no expiry. `renewToken` resolves with undefined, so that an API's 401 stays a 401.
 *
 * @param options the environment, and the token's value and scope; without them a token for `http://localhost`
 * @throws ConfigurationError (`ERR_CONFIGURATION`) with every wrong option
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
  return new StaticTokenProvider(environment, createAccessToken(value, NEVER, scope))
}

class StaticTokenProvider implements TokenProvider {
  readonly environment: Environment
  #token: AccessToken | undefined

  constructor(environment: Environment, token: AccessToken) {
    this.environment = environment
    this.#token = token
  }

  currentToken(): AccessToken | undefined {
    return this.#token
  }

  async getToken({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<AccessToken> {
    if (this.#token === undefined) throw new ProviderClosedError()
    signal?.throwIfAborted()
    return this.#token
  }

  async renewToken(
    _rejected: AccessToken | string,
    options: { readonly signal?: AbortSignal | undefined; readonly url?: string | URL | undefined } = {},
  ): Promise<undefined> {
    await this.getToken(options)
  }

  async close(): Promise<void> {
    this.#token = undefined
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}
