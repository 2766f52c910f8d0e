// What is left behind when callers leave while others stay, when all leave, and when the provider is closed.
import axios, { AxiosError, type CancelToken } from 'axios'
import { ProviderClosedError } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { rejectionOf } from '../attach/calls.ts'
import { settled } from '../support/clock.ts'
import { CLIENTS, type Client, soon } from './body-calls.ts'
import { type CrowdLimits, crowd, expectSilence, listeners } from './signal-crowds.ts'
import { tell } from './told.ts'

const AXIOS = ['axios http', 'axios fetch'] as const
const WAITS = ['the first token', 'the renewal'] as const
const CASES = WAITS.flatMap((wait) => CLIENTS.map((client) => [wait, client] as const))
const TIMEOUT_MS = 60_000

expectSilence()
/** Every timer of this package and of axios is one of these, and can be counted. */
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] })
})
afterEach(() => {
  vi.useRealTimers()
})

/** A client whose calls all come to wait, for their first token or for its renewal. */
async function waitingCrowd(client: Client, wait: (typeof WAITS)[number], callers: readonly CrowdLimits[]) {
  const renewal = wait === 'the renewal'
  const made = crowd(client, { renewal })
  if (renewal) await made.provider.getToken()
  expect(vi.getTimerCount()).toBe(0)
  const all = callers.map((limits) => made.call(limits))
  for (const one of all) one.catch(() => {}) // some are over before the test looks
  const rejected = (): number => made.events.filter(({ type }) => type === 'token-rejected').length
  await soon(() => (renewal ? rejected() === callers.length : made.endpoint.count === 1))
  await settled()
  return { made, all, requests: renewal ? 2 : 1 }
}

const ended = (client: Client, error: unknown, reason: unknown): boolean =>
  client === 'fetch' ? error === reason : axios.isCancel(error)

function tellOf(row: string, column: Client, cell: string) {
  return { table: 'signals', group: 'Who stays, and what is left', row, column, cell }
}

describe('100 callers with a signal each', () => {
  it.for(CASES)('of whom one leaves, wait on for %s: %s', async ([wait, column], { task }) => {
    const aborts = Array.from({ length: 100 }, () => new AbortController())
    const limits = aborts.map(({ signal }) => ({ signal }))
    const { made, all, requests } = await waitingCrowd(column, wait, limits)
    const reason = new Error('gone')
    aborts[50]?.abort(reason)
    expect(ended(column, await rejectionOf(all[50] as Promise<number>), reason)).toBe(true)
    expect(listeners(limits[50]?.signal as AbortSignal)).toBe(0)
    made.release()
    const stayed = (await Promise.allSettled(all)).filter(({ status }) => status === 'fulfilled')
    expect(stayed.map((end) => end.status === 'fulfilled' && end.value)).toEqual(Array(99).fill(200))
    await settled()
    expect(made.endpoint.count).toBe(requests)
    expect(limits.reduce((sum, { signal }) => sum + listeners(signal), 0)).toBe(0)
    expect(vi.getTimerCount()).toBe(0)
    const cell = `${stayed.length} get 200; ${made.endpoint.count} token request${requests === 1 ? '' : 's'}`
    tell(task, tellOf(`1 of 100 leaves the wait for ${wait}`, column, cell))
  })

  it.for(CASES)(
    'who all leave, leave the request to the next caller, in the wait for %s: %s',
    async ([wait, column], { task }) => {
      const aborts = Array.from({ length: 100 }, () => new AbortController())
      const limits = aborts.map(({ signal }) => ({ signal }))
      const { made, all, requests } = await waitingCrowd(column, wait, limits)
      for (const abort of aborts) abort.abort('gone')
      const ends = await Promise.allSettled(all)
      expect(ends.every((end) => end.status === 'rejected' && ended(column, end.reason, 'gone'))).toBe(true)
      expect(limits.reduce((sum, { signal }) => sum + listeners(signal), 0)).toBe(0)
      expect(vi.getTimerCount()).toBe(0)
      made.release()
      const next = await made.call()
      expect(next).toBe(200)
      expect(made.endpoint.count).toBe(requests)
      const cell = `next call ${next}; ${made.endpoint.count} token request${requests === 1 ? '' : 's'}`
      tell(task, tellOf(`all 100 leave the wait for ${wait}`, column, cell))
    },
  )
})

const listening = (token: CancelToken): number =>
  (token as CancelToken & { readonly _listeners?: readonly unknown[] })._listeners?.length ?? 0

/** How the one caller leaves, while the token request is still held. */
const LEAVING: Record<string, (cancel: () => void) => void> = {
  timeout: () => vi.advanceTimersByTime(TIMEOUT_MS),
  cancelToken: (cancel) => cancel(),
}

describe('a caller of axios who left the wait by', () => {
  const cases = Object.entries(LEAVING).flatMap(([by, leave]) =>
    WAITS.flatMap((wait) => AXIOS.map((client) => [by, wait, client, leave] as const)),
  )

  async function left([, wait, client, leave]: (typeof cases)[number]) {
    const { token, cancel } = axios.CancelToken.source()
    const { made, all } = await waitingCrowd(client, wait, [{ timeout: TIMEOUT_MS, cancelToken: token }])
    leave(() => cancel('gone'))
    expect(await rejectionOf(all[0] as Promise<number>)).toBeInstanceOf(AxiosError)
    await settled()
    return { made, behind: () => ({ timers: vi.getTimerCount(), listeners: listening(token) }) }
  }

  it.for(cases)('%s, leaves nothing behind while the token request for %s goes on: %s', async (one) => {
    const { behind } = await left(one)
    expect(behind()).toEqual({ timers: 0, listeners: 0 })
  })

  it.for(cases)('%s, leaves nothing behind once %s has come: %s', async (one, { task }) => {
    const { made, behind } = await left(one)
    made.release()
    await settled()
    expect(behind()).toEqual({ timers: 0, listeners: 0 })
    const [by, wait, column] = one
    const { timers, listeners: heard } = behind()
    const cell = `${timers} timers, ${heard} listeners, once it has come`
    tell(task, tellOf(`one leaves the wait for ${wait} by ${by}`, column, cell))
  })
})

describe('close()', () => {
  it.for(CLIENTS)('ends every wait for a token, and leaves nothing behind: %s', async (column, { task }) => {
    const { signal } = new AbortController()
    const callers = Array.from({ length: 100 }, (_, nth) => (nth % 2 ? { signal } : { timeout: TIMEOUT_MS }))
    const { made, all } = await waitingCrowd(column, 'the first token', callers)
    await made.provider.close()
    const ends = await Promise.allSettled(all)
    const errors = ends.map((end) => (end.status === 'rejected' ? end.reason : end.value))
    expect(errors.every((error) => error instanceof ProviderClosedError)).toBe(true)
    expect(listeners(signal)).toBe(0)
    expect(vi.getTimerCount()).toBe(0)
    expect(made.received()).toBe(0)
    const [{ name }] = errors as [Error]
    tell(task, tellOf('close() in the wait for the first token', column, `${errors.length} × ${name}`))
  })

  it.for(CLIENTS)(
    'gives those who wait for a renewal the API’s 401, and leaves nothing: %s',
    async (column, { task }) => {
      const { signal } = new AbortController()
      const callers = Array.from({ length: 100 }, (_, nth) =>
        nth % 2 ? { signal } : { timeout: TIMEOUT_MS },
      )
      const { made, all } = await waitingCrowd(column, 'the renewal', callers)
      await made.provider.close()
      const statuses = await Promise.all(all)
      expect(statuses).toEqual(Array(100).fill(401))
      await settled()
      expect(listeners(signal)).toBe(0)
      expect(vi.getTimerCount()).toBe(0)
      await expect(made.call()).rejects.toBeInstanceOf(ProviderClosedError)
      tell(task, tellOf('close() in the wait for the renewal', column, `${statuses.length} × ${statuses[0]}`))
    },
  )
})
