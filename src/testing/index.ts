/**
 * For tests: the service on this machine, and a provider with a fixed token.
 *
 * @module merchant-auth/testing
 */
import { refuseOldNode } from '../base/node-version.ts'

export { startSandbox } from './sandbox.ts'
export { createStaticTokenProvider, type StaticTokenProviderOptions } from './static-provider.ts'
export type {
  Fault,
  FaultOptions,
  Sandbox,
  SandboxClient,
  SandboxCounts,
  SandboxEnvironment,
  SandboxOptions,
  SandboxRequest,
  SandboxSettings,
  SandboxTarget,
} from './types.ts'

refuseOldNode()
