/**
 * The token provider, and fetch. {@link createTokenProvider} acquires the access token of one environment and renews it;
 * {@link createAuthFetch} attaches it to fetch calls. Other clients, the stores and test tools are separate entry
 * points, and this one loads none of them.
 *
 * @module merchant-auth
 */
import { refuseOldNode } from './node-version.ts'

export { createAuthFetch } from './attach/fetch.ts'
export type { Clock } from './clock.ts'
export { defineEnvironments, type Environment } from './environments.ts'
export {
  ConfigurationError,
  isMerchantAuthError,
  MerchantAuthError,
  type MerchantAuthErrorCode,
  type Problem,
  ProviderClosedError,
  type ResponseIssue,
  TokenRequestError,
  TokenResponseError,
} from './errors.ts'
export type {
  AuthEvent,
  RenewalSuppressedEvent,
  StoreFailedEvent,
  TokenAcquiredEvent,
  TokenRejectedEvent,
  TokenRenewedEvent,
  TokenRequestedEvent,
  TokenRequestFailedEvent,
  TokenWithheldEvent,
} from './events.ts'
export type { AssertionEndpoint, AttachOptions, TokenProviderOptions } from './options.ts'
export { type OptionsFromEnv, optionsFromEnv } from './options-from-env.ts'
export type { Quota } from './quota.ts'
export type { TokenStore } from './store/token-store.ts'
export type { AccessToken } from './token/access-token.ts'
export {
  createTokenProvider,
  type GetTokenOptions,
  type RenewOptions,
  type TokenProvider,
} from './token/provider.ts'

refuseOldNode()
