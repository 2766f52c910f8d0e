// Many calls at once that wait for one token: who is ended, what it costs, and that nothing is left behind.
import { getEventListeners, setMaxListeners } from 'node:events'
import { Readable, Writable } from 'node:stream'
import axios from 'axios'
import { createAuthFetch } from 'merchant-auth'
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

interface Crowd extends Rig {
  /** The status of a call, or its rejection. */
  call(signal?: AbortSignal): Promise<number>
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

/** Makes many calls at once, with one signal. */
function calls(made: Crowd, many: number, signal: AbortSignal): Promise<number[]> {
  return Promise.all(Array.from({ length: many }, () => made.call(signal)))
}

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
  return async (signal) => (await authFetch(MERCHANT_URL, signal && { signal })).status
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
  return async (signal) => (await api.get(MERCHANT_URL, signal && { signal })).status
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

const WAITS = ['the first token', 'the renewal'] as const
const CASES = WAITS.flatMap((wait) => CLIENTS.map((client) => [wait, client] as const))

expectSilence()

/** 100 calls with a signal each that all come to wait, for their first token or for its renewal. */
async function waitingCrowd(client: Client, wait: (typeof WAITS)[number]) {
  const renewal = wait === 'the renewal'
  const made = crowd(client, { renewal })
  if (renewal) await made.provider.getToken()
  expect(vi.getTimerCount()).toBe(0)
  const aborts = Array.from({ length: 100 }, () => new AbortController())
  const all = aborts.map(({ signal }) => made.call(signal))
  for (const one of all) one.catch(() => {}) // some are over before the test looks
  const rejected = (): number => made.events.filter(({ type }) => type === 'token-rejected').length
  await until(() => (renewal ? rejected() === all.length : made.endpoint.count === 1))
  await settled()
  const left = (): number => aborts.reduce((sum, { signal }) => sum + listeners(signal), vi.getTimerCount())
  return { made, aborts, all, left, requests: renewal ? 2 : 1 }
}

const ended = (client: Client, error: unknown, reason: unknown): boolean =>
  client === 'fetch' ? error === reason : axios.isCancel(error)

function cellOf(row: string, column: Client, cell: string, group = 'Who stays, and what is left') {
  return { table: 'signals', group, row, column, cell }
}

describe('100 callers with a signal each', () => {
  // Every timer of this package and of axios is one of these, and can be counted.
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] })
  })
  afterEach(() => void vi.useRealTimers())

  it.for(CASES)('of whom one leaves, wait on for %s: %s', async ([wait, column], { task }) => {
    const { made, aborts, all, left, requests } = await waitingCrowd(column, wait)
    const reason = new Error('gone')
    aborts[50]?.abort(reason)
    expect(ended(column, await rejectionOf(all[50] as Promise<number>), reason)).toBe(true)
    expect(listeners(aborts[50]?.signal as AbortSignal)).toBe(0)
    made.release()
    const stayed = (await Promise.allSettled(all)).filter(({ status }) => status === 'fulfilled')
    expect(stayed.map((end) => end.status === 'fulfilled' && end.value)).toEqual(Array(99).fill(200))
    await settled()
    expect([made.endpoint.count, left()]).toEqual([requests, 0])
    const cell = `${stayed.length} get 200; ${counted(made.endpoint.count, 'token request')}`
    record(task, cellOf(`1 of 100 leaves the wait for ${wait}`, column, cell))
  })

  it.for(CASES)(
    'who all leave, leave the request to the next caller, in the wait for %s: %s',
    async ([wait, column], { task }) => {
      const { made, aborts, all, left, requests } = await waitingCrowd(column, wait)
      for (const abort of aborts) abort.abort('gone')
      const ends = await Promise.allSettled(all)
      expect(ends.every((end) => end.status === 'rejected' && ended(column, end.reason, 'gone'))).toBe(true)
      expect(left()).toBe(0)
      made.release()
      const next = await made.call()
      expect(next).toBe(200)
      expect(made.endpoint.count).toBe(requests)
      const cell = `next call ${next}; ${counted(made.endpoint.count, 'token request')}`
      record(task, cellOf(`all 100 leave the wait for ${wait}`, column, cell))
    },
  )
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
      const statuses = calls(made, many, signal)
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

  it('has no listener with a fresh token: fetch', async ({ task }) => {
    const made = crowd('fetch', { held: false })
    await made.provider.getToken()
    const { signal } = new AbortController()
    const statuses = calls(made, MANY, signal)
    expect(listeners(signal)).toBe(0)
    expect(new Set(await statuses)).toEqual(new Set([200]))
    expect(made.endpoint.count).toBe(1)
    const cell = `${MANY} calls, ${made.endpoint.count} token request; 0 listeners`
    record(task, cellOf('one signal, a fresh token', 'fetch', cell, GROUP))
  })
})
