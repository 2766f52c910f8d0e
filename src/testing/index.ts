/**
 * For tests: the service on loopback, and a provider with a fixed token.
 *
 * @module merchant-auth/testing
 */
export { startSandbox } from './sandbox.ts'
export { createStaticTokenProvider, type StaticTokenProviderOptions } from './static-provider.ts'
export type {
  Fault,
  Sandbox,
  SandboxCounts,
  SandboxEnvironment,
  SandboxOptions,
  SandboxRequest,
  SandboxSettings,
  SandboxTarget,
} from './types.ts'
