/**
 * The token, and fetch; no other client is loaded. A provider ({@link createTokenProvider}) gets the access token of one
 * environment and renews it; {@link createAuthFetch} puts it on fetch. Other clients, a store for many processes and
 * what tests need have entries of their own.
 *
 * @module merchant-auth
 */
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
export type { AttachOptions, TokenProviderOptions } from './options.ts'
export { optionsFromEnv } from './options-from-env.ts'
export type { TokenStore } from './store/token-store.ts'
export type { AccessToken } from './token/access-token.ts'
export { createTokenProvider, type TokenProvider } from './token/provider.ts'
