/**
 * A service whose calls, by axios and by fetch, never cease while its client secret is replaced. Calls and servers are
 * real; what moves the tokens through their lives is the provider's clock, which stands until a test moves it.
 */
import axios from 'axios'
import {
  type AuthEvent,
  createAuthFetch,
  createTokenProvider,
  type TokenProviderOptions,
} from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { type SandboxEnvironment, startSandbox } from 'merchant-auth/testing'
import { expect, vi } from 'vitest'
import { attachAuth as attachUnwatched } from '../../src/attach/axios.ts'
import { createAuthFetch as createUnwatchedFetch } from '../../src/attach/fetch.ts'
import { StandingClock } from '../support/clock.ts'
import { PATIENCE_MS } from '../support/patience.ts'

export const LIFETIME_MS = 600_000
/** With the longest window (20 %) and the longest margin (5 %, here 10 s) still ahead of the end of its use. */
export const IN_WINDOW_MS = LIFETIME_MS - 30_000
const VAULT_LATENCY_MS = 20
/**
 * How many loops call by axios, and how many by fetch. The first one's answers are searched for secrets after the test,
 * as those of other tests are; to search all of them would take longer than the test.
 */
const LOOPS = 10
/** Between two calls of a loop. */
const PAUSE_MS = 10

const cleanUp: (() => unknown)[] = []

/** Does something when the test is over; what was named last comes first. */
export function atEnd(clean: () => unknown): void {
  cleanUp.push(clean)
}

/** To be called after each test. Does everything of `atEnd`, and then throws what went wrong there first. */
export async function tidy(): Promise<void> {
  const faults: unknown[] = []
  for (const clean of cleanUp.splice(0).reverse()) {
    try {
      await clean()
    } catch (fault) {
      faults.push(fault)
    }
  }
  if (faults.length > 0) throw faults[0]
}

/** Where the secret comes from, each time after a while. */
class Vault {
  secret: string

  constructor(secret: string) {
    this.secret = secret
  }

  readonly read = async (): Promise<string> => {
    const { secret } = this
    await new Promise((resolve) => setTimeout(resolve, VAULT_LATENCY_MS))
    return secret
  }
}

type Client = 'axios' | 'fetch'

/** The service. When a test is over its calls come to their end, too, and none may have failed. */
export class Rig {
  readonly clock = new StandingClock()
  readonly events: AuthEvent[] = []
  readonly failures: unknown[] = []
  readonly calls: Record<Client, number> = { axios: 0, fetch: 0 }
  /** How many calls began without a token, and had to wait for one. */
  waits = 0
  onEvent: (event: AuthEvent) => void = () => {}
  readonly #service: SandboxEnvironment

  constructor(service: SandboxEnvironment, options: Partial<TokenProviderOptions>) {
    this.#service = service
    service.configure({ lifetimeSeconds: LIFETIME_MS / 1_000, tokenLatencyMs: 50 })
    const { environment, clientId, clientSecret, merchantUrl, inStoreUrl } = service
    const tokens = createTokenProvider({
      environment,
      clientId,
      clientSecret,
      ...options,
      clock: this.clock,
      onEvent: (event) => {
        this.events.push(event)
        this.onEvent(event)
      },
    })
    const ending = new AbortController()
    const loops = Array.from({ length: LOOPS }, (_, index) => {
      const api = axios.create({ baseURL: merchantUrl })
      const attach = index === 0 ? attachAuth : attachUnwatched
      attach(api, tokens)
      const authFetch = (index === 0 ? createAuthFetch : createUnwatchedFetch)(tokens)
      const sell = async (): Promise<number> => {
        const response = await authFetch(`${inStoreUrl}/sales`, { method: 'POST', body: 'sale' })
        await response.text()
        return response.status
      }
      const order = async (): Promise<number> => (await api.post('/orders', { amount: 1200 })).status
      const call = (send: () => Promise<number>): Promise<number> => {
        if (tokens.currentToken() === undefined) this.waits += 1
        return send()
      }
      return [
        this.#load('axios', () => call(order), ending.signal),
        this.#load('fetch', () => call(sell), ending.signal),
      ]
    }).flat()
    atEnd(async () => {
      ending.abort()
      await Promise.all(loops)
      await tokens.close()
      expect(this.failures).toEqual([])
    })
  }

  /** How many requests the token endpoint got, and how many of them it rejected. */
  get requests(): { sent: number; rejected: number } {
    const sent = this.#service.requests('token')
    return { sent: sent.length, rejected: sent.filter(({ status }) => status === 401).length }
  }

  /** Resolves when calls of each client have come to their end, at least five of them begun from now on. */
  async callsGoOn(): Promise<void> {
    const { axios, fetch } = this.calls
    await eventually(() => {
      expect(this.calls.axios).toBeGreaterThanOrEqual(axios + LOOPS + 5)
      expect(this.calls.fetch).toBeGreaterThanOrEqual(fetch + LOOPS + 5)
    })
  }

  /** Resolves when there have been so many events of a type. */
  async emitted(type: AuthEvent['type'], times: number): Promise<void> {
    await eventually(() => expect(this.#countOf(type)).toBeGreaterThanOrEqual(times))
  }

  /** Lets the cached token come into its refresh window, and resolves when it has been replaced. */
  async renewal(): Promise<void> {
    const renewed = this.#countOf('token-renewed')
    this.clock.advance(IN_WINDOW_MS)
    await this.emitted('token-renewed', renewed + 1)
    await this.callsGoOn()
  }

  #countOf(type: AuthEvent['type']): number {
    return this.events.filter((event) => event.type === type).length
  }

  async #load(client: Client, call: () => Promise<number>, ending: AbortSignal): Promise<void> {
    while (!ending.aborted) {
      const status = await call().catch((error: unknown) => error)
      if (status !== 200) this.failures.push(status)
      this.calls[client] += 1
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    }
  }
}

/** Resolves when the check passes. */
function eventually(check: () => void): Promise<void> {
  return vi.waitFor(check, { timeout: PATIENCE_MS, interval: 5 })
}

/** Starts the service, and its calls. */
export async function startRig(
  optionsOf: (
    service: SandboxEnvironment,
  ) => Partial<TokenProviderOptions> | Promise<Partial<TokenProviderOptions>>,
): Promise<{ service: SandboxEnvironment; rig: Rig }> {
  const sandbox = await startSandbox()
  atEnd(() => sandbox.close())
  const service = sandbox.test
  const rig = new Rig(service, await optionsOf(service))
  await rig.callsGoOn()
  expect(rig.requests).toEqual({ sent: 1, rejected: 0 })
  return { service, rig }
}

/** Starts it with a vault that has the secret. */
export async function startWithVault(): Promise<{ service: SandboxEnvironment; rig: Rig; vault: Vault }> {
  const vault = new Vault('')
  const started = await startRig(({ clientSecret }) => {
    vault.secret = clientSecret
    return { clientSecret: vault.read }
  })
  return { ...started, vault }
}
