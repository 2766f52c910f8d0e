/**
 * A service that calls continuously by axios and fetch while its client secret is rotated. Calls and servers are real;
 * tokens age by the provider's clock, which stands still until a test advances it.
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
import { expect, onTestFinished, vi } from 'vitest'
import { attachAuth as attachUnwatched } from '../../src/attach/axios/index.ts'
import { createAuthFetch as createUnwatchedFetch } from '../../src/attach/fetch.ts'
import { StandingClock } from '../support/clock.ts'
import { PATIENCE_MS } from '../support/patience.ts'

export const LIFETIME_MS = 600_000
/** When the token is in its refresh window of 100 s, and used for 20 s more. */
export const IN_WINDOW_MS = LIFETIME_MS - 30_000
const VAULT_LATENCY_MS = 20
/**
 * The number of loops of each client. Only the responses of the first loop are searched for secrets after the test:
 * searching all of them would take longer than the test.
 */
const LOOPS = 10

/** Waits on the real clock. */
const sleep = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms))

/** Resolves when the check passes. */
function eventually(check: () => void): Promise<void> {
  return vi.waitFor(check, { timeout: PATIENCE_MS, interval: 5 })
}

/** Starts the service and its calls. After the test, the calls end, and none of them may have failed. */
export async function startRig(
  optionsOf: (
    service: SandboxEnvironment,
  ) => Partial<TokenProviderOptions> | Promise<Partial<TokenProviderOptions>>,
) {
  const sandbox = await startSandbox()
  onTestFinished(() => sandbox.close())
  const service = sandbox.test
  service.configure({ lifetimeSeconds: LIFETIME_MS / 1_000, tokenLatencyMs: 50 })
  const { environment, clientId, clientSecret, merchantUrl, inStoreUrl } = service
  const clock = new StandingClock()
  const events: AuthEvent[] = []
  const onEvent = (event: AuthEvent): void => {
    events.push(event)
    rig.onEvent(event)
  }
  const life = { refreshAheadMs: 100_000, expiryMarginMs: 10_000 }
  const given = await optionsOf(service)
  const options = { environment, clientId, clientSecret, ...life, ...given, clock, onEvent }
  const tokens = createTokenProvider(options as TokenProviderOptions)
  const countOf = (type: AuthEvent['type']): number => events.filter((event) => event.type === type).length
  /** The number of ended calls of each loop. */
  const ended: number[] = []
  const rig = {
    clock,
    onEvent: (_: AuthEvent): void => {},
    /** The number of calls that started without a token and had to wait for one. */
    waits: 0,
    /** The number of token requests, and of those that the token endpoint rejected. */
    get requests() {
      const sent = service.requests('token')
      return { sent: sent.length, rejected: sent.filter(({ status }) => status === 401).length }
    },
    /** Resolves when each loop has completed a call that started after now. */
    callsContinue: async (): Promise<void> => {
      const before = [...ended]
      await eventually(() => {
        for (const [loop, count] of ended.entries()) expect(count).toBeGreaterThan((before[loop] ?? 0) + 1)
      })
    },
    /** Resolves when this many events of a type have been emitted. */
    emitted: (type: AuthEvent['type'], times: number): Promise<void> =>
      eventually(() => expect(countOf(type)).toBeGreaterThanOrEqual(times)),
    /** Advances the clock into the refresh window of the cached token. Resolves when the token was renewed. */
    renewal: async (): Promise<void> => {
      const renewed = countOf('token-renewed')
      clock.advance(IN_WINDOW_MS)
      await rig.emitted('token-renewed', renewed + 1)
      await rig.callsContinue()
    },
  }
  const ending = new AbortController()
  const failures: unknown[] = []
  const call = async (send: () => Promise<{ status: number }>): Promise<void> => {
    const loop = ended.push(0) - 1
    for (; !ending.signal.aborted; await sleep(10)) {
      if (tokens.currentToken() === undefined) rig.waits += 1
      const status = await send().then(
        (answer) => answer.status,
        (error: unknown) => error,
      )
      if (status !== 200) failures.push(status)
      ended[loop] = (ended[loop] ?? 0) + 1
    }
  }
  const loops = Array.from({ length: LOOPS }, (_, index) => {
    const api = axios.create({ baseURL: merchantUrl })
    const attach = index === 0 ? attachAuth : attachUnwatched
    attach(api, tokens)
    const authFetch = (index === 0 ? createAuthFetch : createUnwatchedFetch)(tokens)
    const sell = async (): Promise<Response> => {
      const response = await authFetch(`${inStoreUrl}/sales`, { method: 'POST', body: 'sale' })
      await response.text()
      return response
    }
    return [call(() => api.post('/orders', { amount: 1200 })), call(sell)]
  })
  onTestFinished(async () => {
    ending.abort()
    await Promise.all(loops.flat())
    await tokens.close()
    expect(failures).toEqual([])
  })
  await rig.callsContinue()
  expect(rig.requests).toEqual({ sent: 1, rejected: 0 })
  return { service, rig }
}

/** Starts the service with a vault that returns the secret after a delay. */
export async function startWithVault() {
  const vault = { secret: '' }
  const clientSecret = async (): Promise<string> => {
    const { secret } = vault
    await sleep(VAULT_LATENCY_MS)
    return secret
  }
  const started = await startRig((service) => {
    vault.secret = service.clientSecret
    return { clientSecret }
  })
  return { ...started, vault }
}
