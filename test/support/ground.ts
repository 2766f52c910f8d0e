/** Shared by the tests of the axios, fetch and undici clients: a sandbox and a provider for each test. */
import type { AxiosInstance, CreateAxiosDefaults } from 'axios'
import axios from 'axios'
import {
  type AttachOptions,
  type AuthEvent,
  createTokenProvider,
  type Environment,
  type TokenProvider,
  type TokenProviderOptions,
} from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import {
  type Sandbox,
  type SandboxEnvironment,
  type SandboxRequest,
  startSandbox,
} from 'merchant-auth/testing'
import { afterEach, beforeEach } from 'vitest'
import { StandingClock } from './clock.ts'

export { failureOf as rejectionOf, listening, type Scripted, scripted, until } from '../attach/world.ts'

/** The fixtures of a test. */
export interface Ground {
  readonly sandbox: Sandbox
  readonly env: SandboxEnvironment
  readonly tokens: TokenProvider
  readonly events: AuthEvent[]
  /** An axios instance at the merchant API with the token attached. */
  api(config?: CreateAxiosDefaults, attach?: AttachOptions): AxiosInstance
  /** Another provider, by default for the same client. */
  provider(options?: Partial<TokenProviderOptions>): TokenProvider
  /** The requests that the merchant API received. */
  sent(): readonly SandboxRequest[]
}

/** Sets up a sandbox and a provider for each test. */
export function useGround(): Ground {
  let sandbox: Sandbox
  let first: TokenProvider
  let events: AuthEvent[]
  const providers: TokenProvider[] = []
  const provider = (options: Partial<TokenProviderOptions> = {}): TokenProvider => {
    const { environment, clientId, clientSecret } = sandbox.test
    const made = createTokenProvider({
      environment,
      clientId,
      clientSecret,
      clock: new StandingClock(),
      onEvent: (event) => events.push(event),
      ...options,
    } as TokenProviderOptions)
    providers.push(made)
    return made
  }
  beforeEach(async () => {
    sandbox = await startSandbox()
    events = []
    first = provider()
  })
  afterEach(async () => {
    await Promise.all(providers.splice(0).map((made) => made.close()))
    await sandbox.close()
  })
  return {
    get sandbox() {
      return sandbox
    },
    get env() {
      return sandbox.test
    },
    get tokens() {
      return first
    },
    get events() {
      return events
    },
    api: (config, attach) => {
      const instance = axios.create({ baseURL: sandbox.test.merchantUrl, ...config })
      attachAuth(instance, first, attach)
      return instance
    },
    provider,
    sent: () => sandbox.test.requests('merchant'),
  }
}

/** An environment with the token endpoint of the sandbox and other API URLs. */
export function apiAt(env: SandboxEnvironment, ...apiUrls: string[]): Environment {
  return { ...env.environment, apiUrls }
}

export const ADAPTERS = ['http', 'fetch'] as const

/** A function adapter, as a caller would write it around an adapter of axios. */
export const functionAdapter: Extract<CreateAxiosDefaults['adapter'], (...args: never[]) => unknown> = (
  config,
) => axios.getAdapter('http')(config)
