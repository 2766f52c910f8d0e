// Callers that stop waiting: the scenarios of all clients, axios' timeout, and the signals of Requests.
import axios, { AxiosError, type AxiosRequestConfig } from 'axios'
import { createAuthFetch } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ADAPTERS, rejectionOf } from '../support/ground.ts'
import { conform } from './conform.ts'
import { blockedIn, COSTS, PHASES, type Phase, SIGNALS } from './scenarios/signals.ts'
import { inWorld, settled, until } from './world.ts'

conform(SIGNALS)

const CASES = PHASES.flatMap((phase) => ADAPTERS.map((adapter) => [phase, adapter] as const))
const IN_TOKEN_WAIT = CASES.filter(([phase]) => phase === 'the first token' || phase === 'the renewal')

/** The error of an axios call that is blocked in this phase and ended by `end`. */
async function errorOfEnded(
  phase: Phase,
  adapter: (typeof ADAPTERS)[number],
  config: AxiosRequestConfig,
  end: (mine: Promise<unknown>) => void | Promise<void>,
): Promise<unknown> {
  return await inWorld(async (world) => {
    const blocked = await blockedIn(world, phase)
    const api = axios.create({ adapter, proxy: false, ...config })
    attachAuth(api, blocked.tokens)
    const other = axios.create({ adapter, proxy: false })
    attachAuth(other, blocked.tokens)
    const calls = await blocked.start(
      (url) => api.get(url),
      (url) => other.get(url),
    )
    await end(calls.mine)
    const error = await rejectionOf(calls.mine) // while it is still blocked
    expect(blocked.costs()).toEqual(COSTS[phase])
    blocked.release()
    expect((await calls.other).status).toBe(200)
    await settled()
    expect(blocked.costs()).toEqual(COSTS[phase])
    return error
  })
}

describe("axios' timeout", () => {
  const TIMEOUT_MS = 60_000 // fake timers: no test waits this long
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  async function timedOut(phase: Phase, adapter: (typeof ADAPTERS)[number], config: AxiosRequestConfig = {}) {
    const limits = { timeout: TIMEOUT_MS, ...config }
    const error = await errorOfEnded(phase, adapter, limits, async (mine) => {
      vi.advanceTimersByTime(TIMEOUT_MS - 1)
      await settled()
      const early = await Promise.race([mine.catch(() => 'over'), settled().then(() => 'waiting')])
      expect(early).toBe('waiting')
      vi.advanceTimersByTime(1)
    })
    expect(error).toBeInstanceOf(AxiosError)
    expect(error).toMatchObject({ config: { timeout: TIMEOUT_MS } })
    const { code = '', message, response } = error as AxiosError
    expect(response).toBeUndefined()
    return { code, message }
  }

  it.for(CASES)('ends its own call and no other during the wait for %s: %s', async ([phase, adapter]) => {
    const { code, message } = await timedOut(phase, adapter)
    expect(code).toBe(adapter === 'fetch' ? 'ETIMEDOUT' : 'ECONNABORTED') // each adapter's own code
    expect(message).toBe('timeout of 60000ms exceeded')
  })

  it.for([...IN_TOKEN_WAIT, ['the API', 'http'] as const])(
    'uses timeoutErrorMessage and clarifyTimeoutError during the wait for %s: %s',
    async ([phase, adapter]) => {
      const custom = await timedOut(phase, adapter, { timeoutErrorMessage: 'the customer waits' })
      expect(custom.message).toBe('the customer waits')
      const clarified = await timedOut(phase, adapter, { transitional: { clarifyTimeoutError: true } })
      expect(clarified).toEqual({ code: 'ETIMEDOUT', message: 'timeout of 60000ms exceeded' })
    },
  )

  it.each(ADAPTERS)('restarts for each wait and each send: %s', async (adapter) => {
    await inWorld(async (world) => {
      const blocked = await blockedIn(world, 'the renewal')
      const api = axios.create({ adapter, proxy: false, timeout: TIMEOUT_MS })
      attachAuth(api, blocked.tokens)
      const { mine, other } = await blocked.start(
        (url) => api.get(url),
        (url) => api.get(url),
      )
      vi.advanceTimersByTime(TIMEOUT_MS - 1)
      blocked.release()
      expect([(await mine).status, (await other).status]).toEqual([200, 200])
    })
  })

  it.each([0, undefined, Number.NaN, '0', -1])('of %s does not end the wait for a token', async (timeout) => {
    await inWorld(async (world) => {
      const blocked = await blockedIn(world, 'the first token')
      const api = axios.create({ adapter: 'fetch' })
      attachAuth(api, blocked.tokens)
      const mine = api.get(blocked.url, { timeout: timeout as number })
      await until(() => blocked.costs()[0] === 1)
      vi.advanceTimersByTime(2 ** 31)
      await settled()
      const early = await Promise.race([mine.catch(() => 'over'), settled().then(() => 'waiting')])
      expect(early).toBe('waiting')
      blocked.release()
      await mine.catch(() => {}) // axios itself may reject an odd timeout when it sends
    })
  })
})

describe('the wait of createAuthFetch for a token', () => {
  type MakeArguments = (url: string, signal: AbortSignal) => [Request, RequestInit?]
  const other = new AbortController().signal
  const ROWS: [row: string, ends: boolean, make: MakeArguments][] = [
    ['the signal of a Request', true, (url, signal) => [new Request(url, { signal })]],
    [
      'init.signal, which replaces the signal of a Request',
      true,
      (url, signal) => [new Request(url, { signal: other }), { signal }],
    ],
    [
      'the signal of a Request, init.signal being undefined',
      true,
      (url, signal) => [new Request(url, { signal }), { signal: undefined } as object],
    ],
    [
      'the signal of a Request, init.signal being null',
      false,
      (url, signal) => [new Request(url, { signal }), { signal: null }],
    ],
    [
      'the signal of a Request, init.signal being another',
      false,
      (url, signal) => [new Request(url, { signal }), { signal: other }],
    ],
  ]

  it.for(ROWS)('is ended by %s: %s', async ([, ends, make]) => {
    await inWorld(async (world) => {
      const blocked = await blockedIn(world, 'the first token')
      const caller = new AbortController()
      const call = createAuthFetch(blocked.tokens)(...make(`${blocked.url}/mine`, caller.signal)).then(
        ({ status }) => status,
        (error: unknown) => error,
      )
      await until(() => blocked.costs()[0] === 1)
      caller.abort(new Error('gone'))
      await settled()
      blocked.release()
      const outcome = await call
      expect(outcome).toBe(ends ? caller.signal.reason : 200)
    })
  })
})
