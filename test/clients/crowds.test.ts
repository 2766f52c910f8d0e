// Ten thousand concurrent calls with one signal: their cost, and that no listener is left.
import { getEventListeners, setMaxListeners } from 'node:events'
import axios from 'axios'
import { createAuthFetch, type TokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { settled } from '../support/clock.ts'
import { thinOut } from '../support/recorded.ts'
import { granted, MERCHANT_URL, rig } from '../token/harness.ts'
import { answering } from './axios-fakes.ts'
import { until } from './world.ts'

const MANY = 10_000

type StatusFor = (authorization: unknown) => number
type Client = (tokens: TokenProvider, statusFor: StatusFor) => (signal: AbortSignal) => Promise<number>

// The API responds in memory, without sockets, so that only this package adds listeners to the signal.
const CLIENTS: Readonly<Record<string, Client>> = {
  'axios function': (tokens, statusFor) => {
    const api = axios.create({
      validateStatus: () => true,
      adapter: (config) => answering([{ status: statusFor(config.headers.get('Authorization')) }])(config),
    })
    attachAuth(api, tokens)
    return async (signal) => (await api.get(MERCHANT_URL, { signal })).status
  },
  fetch: (tokens, statusFor) => {
    const authFetch = createAuthFetch(tokens, {
      fetch: async (_, init) =>
        new Response(null, { status: statusFor(new Headers(init?.headers).get('authorization')) }),
    })
    return async (signal) => (await authFetch(MERCHANT_URL, { signal })).status
  },
}

const SITUATIONS = ['no token yet', 'all wait for a renewal', 'a fresh token'] as const

const warnings: unknown[] = []
const recordWarning = (what: unknown): void => {
  // Expected: each test creates another provider for the same client.
  if ((what as { code?: unknown }).code !== 'MERCHANT_AUTH_PROVIDERS') warnings.push(what)
}
beforeEach(() => {
  warnings.length = 0
  process.on('warning', recordWarning)
  process.on('unhandledRejection', recordWarning)
})
afterEach(async () => {
  await settled()
  process.off('warning', recordWarning)
  process.off('unhandledRejection', recordWarning)
  thinOut()
  expect(warnings).toEqual([])
})

describe('one signal of 10 000 concurrent calls', { timeout: 120_000 }, () => {
  it.for(SITUATIONS.flatMap((row) => Object.keys(CLIENTS).map((column) => [row, column] as const)))(
    'has at most one listener during the wait and none afterwards, without a warning: %s, %s',
    async ([row, column]) => {
      const gate = Promise.withResolvers<void>()
      const grant = () => gate.promise.then(() => granted()({}))
      const { provider, endpoint, events } = rig(row === 'no token yet' ? [grant] : [granted(), grant])
      if (row !== 'no token yet') await provider.getToken()
      let sends = 0
      let first: unknown
      const call = (CLIENTS[column] as Client)(provider, (authorization) => {
        sends += 1
        first ??= authorization
        return row === 'all wait for a renewal' && authorization === first ? 401 : 200
      })
      const { signal } = new AbortController()
      setMaxListeners(1, signal) // by default, an AbortSignal does not warn
      const statuses = Array.from({ length: MANY }, () => call(signal))
      const rejected = (): number => events.filter(({ type }) => type === 'token-rejected').length
      await until(() => (row === 'all wait for a renewal' ? rejected() === MANY : endpoint.count === 1))
      if (row !== 'a fresh token') await settled()
      const listeners = (): number => getEventListeners(signal, 'abort').length
      const during = listeners()
      expect(during).toBe(row === 'a fresh token' ? 0 : 1)
      gate.resolve()
      expect(new Set(await Promise.all(statuses))).toEqual(new Set([200]))
      await settled()
      expect([listeners(), endpoint.count, sends]).toEqual(
        row === 'all wait for a renewal' ? [0, 2, 2 * MANY] : [0, 1, MANY],
      )
    },
  )
})
