/** An API in memory, so that ten thousand calls of any client need no socket, and only this package and axios listen. */
import { getEventListeners } from 'node:events'
import { Readable, Writable } from 'node:stream'
import axios, { type AxiosRequestConfig, type CancelToken } from 'axios'
import { createAuthFetch } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { afterEach, beforeEach, expect } from 'vitest'
import { settled } from '../support/clock.ts'
import { thinOut } from '../support/recorded.ts'
import { granted, MERCHANT_URL, type Rig, rig } from '../token/harness.ts'

export const CLIENTS = ['axios http', 'axios fetch', 'fetch'] as const
export type Client = (typeof CLIENTS)[number]
const MANY = 10_000
/** axios takes seconds for ten thousand calls, with and without this package: it makes them only where it matters. */
export const manyOf = (client: Client): number => (client === 'fetch' ? MANY : 1_000)
export const LONG_MS = 120_000

/** What a caller of a crowd sets. */
export type CrowdLimits = Pick<AxiosRequestConfig, 'signal' | 'cancelToken' | 'timeout'>

export interface Crowd extends Rig {
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
export function crowd(client: Client, { renewal = false, held = true } = {}): Crowd {
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
export function calls(made: Crowd, many: number, limits: (nth: number) => CrowdLimits): Promise<number[]> {
  return Promise.all(Array.from({ length: many }, (_, nth) => made.call(limits(nth))))
}

export const listening = (token: CancelToken): number =>
  (token as CancelToken & { readonly _listeners?: readonly unknown[] })._listeners?.length ?? 0

export const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length

/** Fails a test in which the process emits a warning, or a rejection has no handler. */
export function expectSilence(): void {
  const heard: unknown[] = []
  const note = (what: unknown): void => void heard.push(what)
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
