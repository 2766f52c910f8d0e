/**
 * For tests: the service on loopback, and a provider with a fixed token.
 *
 * @module merchant-auth/testing
 */
export type { Fault } from './faults.ts'
export type { SandboxCounts, SandboxRequest, SandboxTarget } from './requests.ts'
export { type Sandbox, type SandboxEnvironment, type SandboxOptions, startSandbox } from './sandbox.ts'
export type { SandboxSettings } from './settings.ts'
export { createStaticTokenProvider, type StaticTokenProviderOptions } from './static-provider.ts'
