// axios' time-out in every phase of a call: it ends the wait for a token as it ends the wait for the API (contract 3.7).
import { AxiosError, type AxiosRequestConfig } from 'axios'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { rejectionOf } from '../attach/calls.ts'
import { settled } from '../support/clock.ts'
import { axiosFor, type Client, soon } from './body-calls.ts'
import { heldIn, type Limits, PHASES, type Phase } from './signal-phases.ts'
import { tell } from './told.ts'

const AXIOS = ['axios http', 'axios fetch'] as const
/** No test waits for so long: its clock is set. */
const TIMEOUT_MS = 60_000

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
})
afterEach(() => {
  vi.useRealTimers()
})

/** The call's code and message, when its time is over in this phase; and what else it takes to say so. */
async function timedOut(client: Client, phase: Phase, limits: Limits) {
  await using held = await heldIn(phase)
  const { mine, other } = await held.start(client, { timeout: TIMEOUT_MS, ...limits })
  vi.advanceTimersByTime(TIMEOUT_MS - 1)
  await settled()
  const early = await Promise.race([mine.catch(() => 'over'), settled().then(() => 'waiting')])
  expect(early).toBe('waiting')
  vi.advanceTimersByTime(1)
  const error = await rejectionOf(mine)
  expect(error).toBeInstanceOf(AxiosError)
  const { endpoint } = held.api
  const requests = endpoint.count
  held.release()
  expect(await other).toBe(200)
  await settled()
  expect(endpoint.count).toBe(requests)
  const { code = '', message, config, response } = error as AxiosError
  expect(config).toMatchObject({ timeout: TIMEOUT_MS })
  expect(response).toBeUndefined()
  return { code, message, tokens: requests, sends: held.sends() }
}

const IN_WAIT: readonly Phase[] = ['the first token', 'the renewal']

describe("axios' time-out", () => {
  it.for(PHASES.flatMap((phase) => AXIOS.map((client) => [phase, client] as const)))(
    'ends a call that waits for %s, and no other: %s',
    async ([phase, column], { task }) => {
      const { code, message, tokens, sends } = await timedOut(column, phase, {})
      expect(code).toBe(column === 'axios fetch' ? 'ETIMEDOUT' : 'ECONNABORTED') // as each adapter has it
      expect(message).toBe('timeout of 60000ms exceeded')
      const renewed = phase === 'the renewal' || phase === 'the repeated call'
      expect(tokens).toBe(renewed ? 2 : 1)
      expect(sends).toBe(
        { 'the first token': 0, 'the API': 1, 'the renewal': 1, 'the repeated call': 2 }[phase],
      )
      tell(task, {
        table: 'signals',
        group: "axios' timeout",
        row: `waiting for ${phase}`,
        column,
        cell: `${code}; ${tokens} token request${tokens === 1 ? '' : 's'}, ${sends} send${sends === 1 ? '' : 's'}`,
      })
    },
  )

  it.for(IN_WAIT.flatMap((phase) => AXIOS.map((client) => [phase, client] as const)))(
    'is worded and coded as the caller wants it in the wait for %s: %s',
    async ([phase, column], { task }) => {
      const group = "axios' timeout"
      const worded = await timedOut(column, phase, { timeoutErrorMessage: 'the customer waits' })
      expect(worded.message).toBe('the customer waits')
      const row = `timeoutErrorMessage, waiting for ${phase}`
      tell(task, { table: 'signals', group, row, column, cell: `${worded.code}; "${worded.message}"` })
      const clear = await timedOut(column, phase, { transitional: { clarifyTimeoutError: true } })
      expect(clear).toMatchObject({ code: 'ETIMEDOUT', message: 'timeout of 60000ms exceeded' })
      const rowOfClear = `clarifyTimeoutError, waiting for ${phase}`
      tell(task, { table: 'signals', group, row: rowOfClear, column, cell: clear.code })
    },
  )

  it('is worded and coded by the http adapter as in the waits', async () => {
    const worded = await timedOut('axios http', 'the API', { timeoutErrorMessage: 'the customer waits' })
    expect(worded).toMatchObject({ code: 'ECONNABORTED', message: 'the customer waits' })
    const clear = await timedOut('axios http', 'the API', { transitional: { clarifyTimeoutError: true } })
    expect(clear).toMatchObject({ code: 'ETIMEDOUT', message: 'timeout of 60000ms exceeded' })
  })

  it.for(IN_WAIT)('of the fetch adapter has one code, in the wait for %s too', async (phase) => {
    const inCall = await timedOut('axios fetch', 'the API', {})
    const inWait = await timedOut('axios fetch', phase, {})
    expect(inWait.code).toBe(inCall.code)
  })

  it.for(AXIOS)('runs anew for each wait and each sending, as it does for each try: %s', async (client) => {
    await using held = await heldIn('the renewal')
    const { mine } = await held.start(client, { timeout: TIMEOUT_MS })
    vi.advanceTimersByTime(TIMEOUT_MS - 1)
    held.release()
    expect(await mine).toBe(200)
  })

  it.for([0, undefined, Number.NaN, '0', -1])('of %s never ends the wait', async (timeout) => {
    await using held = await heldIn('the first token')
    const config: AxiosRequestConfig = { timeout: timeout as number }
    const mine = axiosFor('axios fetch', held.api.tokens).get(held.api.url, config)
    await soon(() => held.api.endpoint.count === 1)
    vi.advanceTimersByTime(2 ** 31)
    await settled()
    const early = await Promise.race([mine.catch(() => 'over'), settled().then(() => 'waiting')])
    expect(early).toBe('waiting')
    held.release()
    await mine.catch(() => {}) // what axios makes of an odd number for the sending is its own
  })
})
