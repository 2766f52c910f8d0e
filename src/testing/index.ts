/**
 * For tests: the service on loopback, and a provider that always has its token.
 *
 * @module merchant-auth/testing
 */
export type { Fault } from './faults.ts'
export type { SandboxCounts, SandboxRequest, SandboxTarget } from './recorded.ts'
export { type Sandbox, type SandboxOptions, startSandbox } from './sandbox.ts'
export type { SandboxEnvironment } from './sandbox-environment.ts'
export type { SandboxSettings } from './settings.ts'
export { createStaticTokenProvider, type StaticTokenProviderOptions } from './static-provider.ts'
