/**
 * The token provider, and fetch. {@link createTokenProvider} acquires the access token of one environment and renews it;
 * {@link createAuthFetch} attaches it to fetch calls. Other clients, the stores and test tools are separate entry
 * points, and this one loads none of them.
 *
 * @module merchant-auth
 */
import { refuseOldNode } from './base/node-version.ts'

export { createAuthFetch } from './attach/fetch.ts'
export type { Clock } from './base/clock.ts'
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
} from './base/errors.ts'
export type { Quota } from './base/quota.ts'
export { defineEnvironments, type Environment } from './environment/environment.ts'
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
} from './events/events.ts'
export { type OptionsFromEnv, optionsFromEnv } from './options/from-env.ts'
export type { AssertionEndpoint, AttachOptions, TokenProviderOptions } from './options/options.ts'
export type { TokenStore } from './store/token-store.ts'
export { createTokenProvider } from './token/client-credentials-provider.ts'
export type { GetTokenOptions, RenewOptions, TokenProvider } from './token/provider.ts'
export type { AccessToken } from './token/request/access-token.ts'

refuseOldNode()
