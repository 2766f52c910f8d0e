// Callers that do not wait: the scenarios of all clients, axios' time-out, and the signals of Requests.
import axios, { AxiosError, type AxiosRequestConfig } from 'axios'
import { createAuthFetch } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { record } from '../faults/cells.ts'
import { ADAPTERS, rejectionOf } from '../support/ground.ts'
import { conform } from './conform.ts'
import { COSTS, costs, heldIn, PHASES, type Phase, SIGNALS } from './scenarios/signals.ts'
import { inWorld, settled, until } from './world.ts'

conform('signals', SIGNALS)

const CASES = PHASES.flatMap((phase) => ADAPTERS.map((adapter) => [phase, adapter] as const))
const IN_WAIT = CASES.filter(([phase]) => phase === 'the first token' || phase === 'the renewal')

/** A call of axios that is held in this phase; it leaves by `leave`, and gets what it rejects with. */
async function leaving(
  phase: Phase,
  adapter: (typeof ADAPTERS)[number],
  config: AxiosRequestConfig,
  leave: (mine: Promise<unknown>) => void | Promise<void>,
): Promise<unknown> {
  return await inWorld(async (world) => {
    const held = await heldIn(world, phase)
    const api = axios.create({ adapter, proxy: false, ...config })
    attachAuth(api, held.tokens)
    const other = axios.create({ adapter, proxy: false })
    attachAuth(other, held.tokens)
    const calls = await held.start(
      (url) => api.get(url),
      (url) => other.get(url),
    )
    await leave(calls.mine)
    const error = await rejectionOf(calls.mine) // while it is still held
    expect(held.costs()).toEqual(COSTS[phase])
    held.release()
    expect((await calls.other).status).toBe(200)
    await settled()
    expect(held.costs()).toEqual(COSTS[phase])
    return error
  })
}

describe("axios' timeout", () => {
  const TIMEOUT_MS = 60_000 // no test waits for so long: its clock is set
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  async function timedOut(phase: Phase, adapter: (typeof ADAPTERS)[number], config: AxiosRequestConfig = {}) {
    const limits = { timeout: TIMEOUT_MS, ...config }
    const error = await leaving(phase, adapter, limits, async (mine) => {
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

  it.for(CASES)('ends a call that waits for %s, and no other: %s', async ([phase, adapter], { task }) => {
    const { code, message } = await timedOut(phase, adapter)
    expect(code).toBe(adapter === 'fetch' ? 'ETIMEDOUT' : 'ECONNABORTED') // as each adapter has it
    expect(message).toBe('timeout of 60000ms exceeded')
    const cell = `${code}; ${costs(COSTS[phase])}`
    const [row, column] = [`waiting for ${phase}`, `axios ${adapter}`]
    record(task, { table: 'signals', group: "axios' timeout", row, column, cell })
  })

  it.for([...IN_WAIT, ['the API', 'http'] as const])(
    'has the words and the code that the caller wants in the wait for %s: %s',
    async ([phase, adapter]) => {
      const worded = await timedOut(phase, adapter, { timeoutErrorMessage: 'the customer waits' })
      expect(worded.message).toBe('the customer waits')
      const clear = await timedOut(phase, adapter, { transitional: { clarifyTimeoutError: true } })
      expect(clear).toEqual({ code: 'ETIMEDOUT', message: 'timeout of 60000ms exceeded' })
    },
  )

  it.each(ADAPTERS)('runs anew for each wait and each send, as it does for each try: %s', async (adapter) => {
    await inWorld(async (world) => {
      const held = await heldIn(world, 'the renewal')
      const api = axios.create({ adapter, proxy: false, timeout: TIMEOUT_MS })
      attachAuth(api, held.tokens)
      const { mine, other } = await held.start(
        (url) => api.get(url),
        (url) => api.get(url),
      )
      vi.advanceTimersByTime(TIMEOUT_MS - 1)
      held.release()
      expect([(await mine).status, (await other).status]).toEqual([200, 200])
    })
  })

  it.each([0, undefined, Number.NaN, '0', -1])('of %s never ends the wait', async (timeout) => {
    await inWorld(async (world) => {
      const held = await heldIn(world, 'the first token')
      const api = axios.create({ adapter: 'fetch' })
      attachAuth(api, held.tokens)
      const mine = api.get(held.url, { timeout: timeout as number })
      await until(() => held.costs()[0] === 1)
      vi.advanceTimersByTime(2 ** 31)
      await settled()
      const early = await Promise.race([mine.catch(() => 'over'), settled().then(() => 'waiting')])
      expect(early).toBe('waiting')
      held.release()
      await mine.catch(() => {}) // what axios makes of an odd number for the send is its own
    })
  })
})

describe('the signal of a Request, in the wait for a token', () => {
  type Given = (url: string, signal: AbortSignal) => [Request, RequestInit?]
  const other = new AbortController().signal
  const ROWS: [row: string, ends: boolean, make: Given][] = [
    ["a Request's own", true, (url, signal) => [new Request(url, { signal })]],
    ["init's beside a Request's", true, (url, signal) => [new Request(url, { signal: other }), { signal }]],
    [
      'a Request’s, init.signal: undefined',
      true,
      (url, signal) => [new Request(url, { signal }), { signal: undefined } as object],
    ],
    [
      'a Request’s, init.signal: null',
      false,
      (url, signal) => [new Request(url, { signal }), { signal: null }],
    ],
    ['a Request’s, init another', false, (url, signal) => [new Request(url, { signal }), { signal: other }]],
  ]

  it.for(ROWS)('%s: ends the wait: %s', async ([row, ends, make], { task }) => {
    await inWorld(async (world) => {
      const held = await heldIn(world, 'the first token')
      const caller = new AbortController()
      const call = createAuthFetch(held.tokens)(...make(`${held.url}/mine`, caller.signal)).then(
        ({ status }) => status,
        (error: unknown) => error,
      )
      await until(() => held.costs()[0] === 1)
      caller.abort(new Error('gone'))
      await settled()
      held.release()
      const outcome = await call
      expect(outcome).toBe(ends ? caller.signal.reason : 200)
      const group = 'Whose signal, in the wait for a token'
      record(task, { table: 'signals', group, row, column: 'fetch', cell: ends ? 'that error' : '200' })
    })
  })
})
