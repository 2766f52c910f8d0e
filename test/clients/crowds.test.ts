// Many calls at once that wait for one token: who is ended, what it costs, and that nothing is left behind.
import { getEventListeners, setMaxListeners } from 'node:events'
import { Readable, Writable } from 'node:stream'
import axios, { AxiosError, type AxiosRequestConfig, type CancelToken } from 'axios'
import { createAuthFetch, ProviderClosedError } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { counted, record } from '../faults/cells.ts'
import { settled } from '../support/clock.ts'
import { rejectionOf } from '../support/ground.ts'
import { thinOut } from '../support/recorded.ts'
import { granted, MERCHANT_URL, type Rig, rig } from '../token/harness.ts'
import { until } from './world.ts'

// An API in memory: ten thousand calls need no socket, and only this package and axios listen.
const CLIENTS = ['axios http', 'axios fetch', 'fetch'] as const
type Client = (typeof CLIENTS)[number]
const MANY = 10_000
/** axios takes seconds for ten thousand calls, with and without this package: it makes them only where it matters. */
const manyOf = (client: Client): number => (client === 'fetch' ? MANY : 1_000)
const LONG_MS = 120_000

/** What a caller of a crowd sets. */
type CrowdLimits = Pick<AxiosRequestConfig, 'signal' | 'cancelToken' | 'timeout'>

interface Crowd extends Rig {
  /** The status of a call, or its rejection. */
  call(limits?: CrowdLimits): Promise<number>
  /** How many requests the API has got. */
  received(): number
  /** Lets the held token request go on. */
  release(): void
}

/**
 * A client whose token requests are held from the nth on; the API rejects the first token where it is to be renewed.
 */
function crowd(client: Client, { renewal = false, held = true } = {}): Crowd {
  const gate = Promise.withResolvers<void>()
  if (!held) gate.resolve()
  const grant = () => gate.promise.then(() => granted()({}))
  const made = rig(renewal ? [granted(), grant] : [grant])
  let received = 0
  let first: string | undefined
  const statusFor = (authorization: string): number => {
    received += 1
    first ??= authorization
    return renewal && authorization === first ? 401 : 200
  }
  return {
    ...made,
    received: () => received,
    release: gate.resolve,
    call: client === 'fetch' ? fetchCall(made, statusFor) : axiosCall(client, made, statusFor),
  }
}

/** Makes many calls at once. */
function calls(made: Crowd, many: number, limits: (nth: number) => CrowdLimits): Promise<number[]> {
  return Promise.all(Array.from({ length: many }, (_, nth) => made.call(limits(nth))))
}

const listening = (token: CancelToken): number =>
  (token as CancelToken & { readonly _listeners?: readonly unknown[] })._listeners?.length ?? 0

const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length

/** Fails a test in which the process emits a warning, or a rejection has no handler. */
function expectSilence(): void {
  const heard: unknown[] = []
  const note = (what: unknown): void => {
    // Each test has a provider of its own, for one and the same client.
    if ((what as { code?: unknown }).code !== 'MERCHANT_AUTH_PROVIDERS') heard.push(what)
  }
  beforeEach(() => {
    heard.length = 0
    process.on('warning', note)
    process.on('unhandledRejection', note)
  })
  afterEach(async () => {
    await settled()
    process.off('warning', note)
    process.off('unhandledRejection', note)
    thinOut()
    expect(heard).toEqual([])
  })
}

type StatusFor = (authorization: string) => number

function fetchCall({ provider }: Rig, statusFor: StatusFor): Crowd['call'] {
  const authFetch = createAuthFetch(provider, {
    fetch: async (_, init) => {
      init?.signal?.throwIfAborted()
      return new Response(null, { status: statusFor(new Headers(init?.headers).get('authorization') ?? '') })
    },
  })
  return async ({ signal } = {}) =>
    (await authFetch(MERCHANT_URL, signal === undefined ? {} : { signal: signal as AbortSignal })).status
}

function axiosCall(client: Client, { provider }: Rig, statusFor: StatusFor): Crowd['call'] {
  const api = axios.create({
    proxy: false,
    validateStatus: () => true,
    ...(client === 'axios http' ? { adapter: 'http', transport: inMemory(statusFor) } : { adapter: 'fetch' }),
    env: {
      fetch: async (input: string | URL | Request) => {
        const { signal, headers } = input as Request
        signal.throwIfAborted()
        return new Response(null, { status: statusFor(headers.get('authorization') ?? '') })
      },
    },
  })
  attachAuth(api, provider)
  return async (limits = {}) => (await api.get(MERCHANT_URL, limits)).status
}

/** What axios' http adapter needs of node's `http`: a request that can be written and ended, and its answer. */
function inMemory(statusFor: StatusFor) {
  return {
    request: (
      { headers }: { headers: Record<string, string> },
      answer: (response: Readable & { statusCode?: number; headers?: object }) => void,
    ) => {
      const request = new Writable({ write: (_chunk, _encoding, done) => done() })
      request.on('finish', () => {
        const response = Object.assign(Readable.from([]), {
          statusCode: statusFor(headers['Authorization'] ?? ''),
          headers: {},
        })
        answer(response)
      })
      return Object.assign(request, { setTimeout: () => request })
    },
  }
}

const AXIOS = ['axios http', 'axios fetch'] as const
const WAITS = ['the first token', 'the renewal'] as const
const CASES = WAITS.flatMap((wait) => CLIENTS.map((client) => [wait, client] as const))
const TIMEOUT_MS = 60_000

expectSilence()
/** Every timer of this package and of axios is one of these, and can be counted. */
function useFakeTimers(): void {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] })
  })
  afterEach(() => {
    vi.useRealTimers()
  })
}

/** A client whose calls all come to wait, for their first token or for its renewal. */
async function waitingCrowd(client: Client, wait: (typeof WAITS)[number], callers: readonly CrowdLimits[]) {
  const renewal = wait === 'the renewal'
  const made = crowd(client, { renewal })
  if (renewal) await made.provider.getToken()
  expect(vi.getTimerCount()).toBe(0)
  const all = callers.map((limits) => made.call(limits))
  for (const one of all) one.catch(() => {}) // some are over before the test looks
  const rejected = (): number => made.events.filter(({ type }) => type === 'token-rejected').length
  await until(() => (renewal ? rejected() === callers.length : made.endpoint.count === 1))
  await settled()
  return { made, all, requests: renewal ? 2 : 1 }
}

const ended = (client: Client, error: unknown, reason: unknown): boolean =>
  client === 'fetch' ? error === reason : axios.isCancel(error)

function cellOf(row: string, column: Client, cell: string, group = 'Who stays, and what is left') {
  return { table: 'signals', group, row, column, cell }
}

describe('100 callers with a signal each', () => {
  useFakeTimers()
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
    const cell = `${stayed.length} get 200; ${counted(made.endpoint.count, 'token request')}`
    record(task, cellOf(`1 of 100 leaves the wait for ${wait}`, column, cell))
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
      const cell = `next call ${next}; ${counted(made.endpoint.count, 'token request')}`
      record(task, cellOf(`all 100 leave the wait for ${wait}`, column, cell))
    },
  )
})

/** How the one caller leaves, while the token request is still held. */
const LEAVING: Record<string, (cancel: () => void) => void> = {
  timeout: () => vi.advanceTimersByTime(TIMEOUT_MS),
  cancelToken: (cancel) => cancel(),
}

describe('a caller of axios who left the wait by', () => {
  useFakeTimers()
  const cases = Object.entries(LEAVING).flatMap(([by, leave]) =>
    WAITS.flatMap((wait) => AXIOS.map((client) => [by, wait, client, leave] as const)),
  )

  it.for(cases)('%s, leaves nothing behind, before and after %s has come: %s', async (one, { task }) => {
    const [by, wait, column, leave] = one
    const { token, cancel } = axios.CancelToken.source()
    const { made, all } = await waitingCrowd(column, wait, [{ timeout: TIMEOUT_MS, cancelToken: token }])
    const behind = () => `${vi.getTimerCount()} timers, ${listening(token)} listeners`
    leave(() => cancel('gone'))
    expect(await rejectionOf(all[0] as Promise<number>)).toBeInstanceOf(AxiosError)
    await settled()
    expect(behind()).toBe('0 timers, 0 listeners') // while the token request goes on
    made.release()
    await settled()
    expect(behind()).toBe('0 timers, 0 listeners')
    record(task, cellOf(`one leaves the wait for ${wait} by ${by}`, column, `${behind()}, once it has come`))
  })
})

describe('close()', () => {
  useFakeTimers()
  it.for(CASES)('ends every wait for %s, and leaves nothing behind: %s', async ([wait, column], { task }) => {
    const { signal } = new AbortController()
    const callers = Array.from({ length: 100 }, (_, nth) => (nth % 2 ? { signal } : { timeout: TIMEOUT_MS }))
    const { made, all } = await waitingCrowd(column, wait, callers)
    await made.provider.close()
    const ends = await Promise.all(all.map((one) => one.catch((error: Error) => error)))
    const words = new Set(ends.map((end) => (end instanceof ProviderClosedError ? end.name : end)))
    expect([...words]).toEqual([wait === 'the renewal' ? 401 : 'ProviderClosedError']) // the API's own 401
    await settled()
    expect(listeners(signal)).toBe(0)
    expect(vi.getTimerCount()).toBe(0)
    expect(made.received()).toBe(wait === 'the renewal' ? 100 : 0)
    await expect(made.call()).rejects.toBeInstanceOf(ProviderClosedError)
    record(task, cellOf(`close() in the wait for ${wait}`, column, `${ends.length} × ${[...words]}`))
  })
})

const GROUP = 'Many calls at once'

const SITUATIONS = {
  'one signal, no token yet': { renewal: false, waiting: ({ endpoint }: Crowd) => endpoint.count === 1 },
  'one signal, all wait for a renewal': {
    renewal: true,
    waiting: ({ events }: Crowd, many: number) =>
      events.filter(({ type }) => type === 'token-rejected').length === many,
  },
}

describe('one signal for 10 000 calls', { timeout: LONG_MS }, () => {
  it.for(
    Object.entries(SITUATIONS).flatMap(([row, one]) => CLIENTS.map((client) => [row, client, one] as const)),
  )(
    'has one listener while they wait, and none afterwards: %s, %s',
    async ([row, column, { renewal, waiting }], { task }) => {
      const made = crowd(column, { renewal })
      const many = manyOf(column)
      const { signal } = new AbortController()
      if (renewal) await made.provider.getToken()
      // An AbortSignal warns of nothing unless it is asked to.
      setMaxListeners(1, signal)
      if (renewal && column !== 'fetch') setMaxListeners(0, signal) // axios itself listens while it sends
      const statuses = calls(made, many, () => ({ signal }))
      await until(() => waiting(made, many))
      await settled()
      const during = listeners(signal)
      expect(during).toBe(1)
      setMaxListeners(0, signal)
      made.release()
      expect(new Set(await statuses)).toEqual(new Set([200]))
      await settled()
      expect(listeners(signal)).toBe(0)
      expect(made.endpoint.count).toBe(renewal ? 2 : 1)
      expect(made.received()).toBe(renewal ? 2 * many : many)
      const requests = counted(made.endpoint.count, 'token request')
      const cell = `${many} calls, ${requests}; ${during} listener, then ${listeners(signal)}`
      record(task, cellOf(row, column, cell, GROUP))
    },
  )

  it.for(CLIENTS)('has no listener of this package’s with a fresh token: %s', async (column, { task }) => {
    const made = crowd(column, { held: false })
    await made.provider.getToken()
    const { signal } = new AbortController()
    const many = manyOf(column)
    const statuses = calls(made, many, () => ({ signal }))
    // axios listens itself while it sends, fetch here does not.
    if (column === 'fetch') expect(listeners(signal)).toBe(0)
    expect(new Set(await statuses)).toEqual(new Set([200]))
    await settled()
    expect(listeners(signal)).toBe(0)
    expect(made.endpoint.count).toBe(1)
    const cell = `${many} calls, ${made.endpoint.count} token request; ${listeners(signal)} listeners left`
    record(task, cellOf('one signal, a fresh token', column, cell, GROUP))
  })
})

describe('one signal of many waiting calls', { timeout: LONG_MS }, () => {
  it.for(CLIENTS)('ends them all when it is aborted: %s', async (column, { task }) => {
    const made = crowd(column)
    const many = manyOf(column)
    const abort = new AbortController()
    const { signal } = abort
    const reason = new Error('shutting down')
    const all = Promise.allSettled(Array.from({ length: many }, () => made.call({ signal })))
    await until(() => made.endpoint.count === 1)
    await settled()
    abort.abort(reason)
    const ends = await all
    const reasons = new Set(ends.map((end) => (end.status === 'rejected' ? end.reason : 'resolved')))
    if (column === 'fetch') expect([...reasons]).toEqual([reason])
    else expect([...reasons].every(axios.isCancel)).toBe(true)
    expect(listeners(signal)).toBe(0)
    made.release()
    expect(await made.call()).toBe(200)
    expect(made.endpoint.count).toBe(1)
    const rejected = ends.filter(({ status }) => status === 'rejected').length
    expect(rejected).toBe(many)
    const cell = `${rejected} calls end; ${made.endpoint.count} token request, for the next`
    record(task, cellOf('one signal, aborted in the wait', column, cell, GROUP))
  })
})

/** What many calls wait with, and how many listeners are on all of it. */
const SHARED: Record<string, (many: number) => [limits: (nth: number) => CrowdLimits, count: () => number]> =
  {
    'a signal each': (many) => {
      const signals = Array.from({ length: many }, () => new AbortController().signal)
      return [
        (nth) => ({ signal: signals[nth] as AbortSignal }),
        () => signals.reduce((sum, signal) => sum + listeners(signal), 0),
      ]
    },
    'one cancelToken': () => {
      const { token: cancelToken } = axios.CancelToken.source()
      return [() => ({ cancelToken }), () => listening(cancelToken)]
    },
  }

describe('many waiting calls', { timeout: LONG_MS }, () => {
  const cases = Object.keys(SHARED).flatMap((what) =>
    (what === 'a signal each' ? CLIENTS : AXIOS).map((client) => [what, client] as const),
  )
  it.for(cases)('with %s leave no listener: %s', async ([what, column], { task }) => {
    const made = crowd(column)
    const many = manyOf(column)
    const [limits, count] = (SHARED[what] as (typeof SHARED)[string])(many)
    const statuses = calls(made, many, limits)
    await until(() => made.endpoint.count === 1)
    await settled()
    const during = count()
    expect(during).toBe(many)
    made.release()
    expect(new Set(await statuses)).toEqual(new Set([200]))
    await settled()
    expect(count()).toBe(0)
    expect(made.endpoint.count).toBe(1)
    const cell = `${many} calls, ${made.endpoint.count} token request; ${during} listeners, then ${count()}`
    record(task, cellOf(`${what}, no token yet`, column, cell, GROUP))
  })
})
