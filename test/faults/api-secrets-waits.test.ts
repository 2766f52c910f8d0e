// No token in what callers can print of calls that they end themselves, nor in those of fetch (contract 6).
import axios from 'axios'
import { createAuthFetch } from 'merchant-auth'
import { describe, it } from 'vitest'
import { rejectionOf, until, useGround } from '../attach/calls.ts'
import { eachPlayed, judge, play, readingFails, type Scene } from './api-prints.ts'

const ground = useGround()

/** Aborts once the API has the request. */
async function abortedOnArrival(send: (signal: AbortSignal) => Promise<unknown>): Promise<unknown> {
  ground.env.fail('merchant', { kind: 'hang' })
  const abort = new AbortController()
  const error = rejectionOf(send(abort.signal))
  await until(() => ground.sent().length > 0)
  abort.abort()
  return await error
}

const SCENES: Scene[] = [
  {
    row: 'cancelled beforehand',
    play: async (api) => {
      await api.get('/orders')
      return await rejectionOf(api.get('/orders', { signal: AbortSignal.abort() }))
    },
    expected: 'ERR_CANCELED',
  },
  {
    row: 'cancelled by an interceptor, after a good call',
    play: async (api) => {
      const { config } = await api.get('/orders')
      api.interceptors.request.use((given) => Object.assign(given, { signal: AbortSignal.abort() }))
      return await rejectionOf(api.request(config))
    },
    expected: 'ERR_CANCELED',
  },
  {
    row: 'cancelled while it waits for a new token',
    play: async (api) => {
      await ground.tokens.getToken()
      ground.env.revoke()
      ground.env.fail('token', { kind: 'hang' })
      const abort = new AbortController()
      const error = rejectionOf(api.get('/orders', { signal: abort.signal }))
      await until(() => ground.env.counts.token === 2)
      abort.abort()
      return await error
    },
    expected: 'ERR_CANCELED',
  },
  {
    row: 'cancelled during the call',
    play: (api) => abortedOnArrival((signal) => api.get('/orders', { signal })),
    expected: 'ERR_CANCELED',
  },
  {
    row: 'cancelled during the call, by a cancelToken',
    play: (api) => {
      const { token, cancel } = axios.CancelToken.source()
      return abortedOnArrival((signal) => {
        signal.addEventListener('abort', () => cancel('enough'))
        return api.get('/orders', { cancelToken: token })
      })
    },
    expected: 'ERR_CANCELED',
  },
  {
    row: 'cancelled after the answer, while its stream is read',
    play: async (api) => {
      ground.env.fail('merchant', { kind: 'hang', at: 'body' })
      const abort = new AbortController()
      const answer = await api.get('/orders', { responseType: 'stream', signal: abort.signal })
      const error = readingFails(answer)
      abort.abort()
      return [await error, answer]
    },
    expected: 'ERR_CANCELED and status 200',
  },
  {
    row: 'timed out by axios',
    play: async (api) => {
      await ground.tokens.getToken()
      ground.env.fail('merchant', { kind: 'hang' })
      return await rejectionOf(api.get('/orders', { timeout: 100 }))
    },
    expected: ['ECONNABORTED', 'ETIMEDOUT'],
  },
]

describe('callers of axios that go', () => {
  it.for(eachPlayed(SCENES))('on %s have no token in any print: %s', (scene, { task }) =>
    play(ground, scene, task),
  )
})

type FetchScene = [row: string, play: (authFetch: typeof fetch) => Promise<unknown>, expected: string]

const FETCH_SCENES: FetchScene[] = [
  [
    '401, and no other token can be had',
    async (authFetch) => {
      await ground.tokens.getToken()
      ground.env.revoke()
      ground.env.fail('token', { kind: 'status', status: 400 })
      return await authFetch(ground.env.merchantUrl)
    },
    'status 401',
  ],
  [
    '401 with the renewed token, too',
    async (authFetch) => {
      ground.env.configure({ rejectAllTokens: true })
      const request = new Request(ground.env.merchantUrl, { method: 'POST', body: 'x' })
      return [await authFetch(request), request]
    },
    'status 401 and the Request',
  ],
  [
    'cancelled beforehand',
    (authFetch) => rejectionOf(authFetch(ground.env.merchantUrl, { signal: AbortSignal.abort() })),
    'AbortError',
  ],
  [
    'cancelled while it waits for a new token',
    async (authFetch) => {
      await ground.tokens.getToken()
      ground.env.revoke()
      ground.env.fail('token', { kind: 'hang' })
      const abort = new AbortController()
      const error = rejectionOf(authFetch(ground.env.merchantUrl, { signal: abort.signal }))
      await until(() => ground.env.counts.token === 2)
      abort.abort()
      return await error
    },
    'AbortError',
  ],
  [
    'cancelled during the call',
    (authFetch) => abortedOnArrival((signal) => authFetch(ground.env.merchantUrl, { signal })),
    'AbortError',
  ],
  [
    'cancelled after the answer, while its stream is read',
    async (authFetch) => {
      ground.env.fail('merchant', { kind: 'hang', at: 'body' })
      const abort = new AbortController()
      const answer = await authFetch(ground.env.merchantUrl, { signal: abort.signal })
      const error = rejectionOf(answer.text())
      abort.abort()
      return [await error, answer]
    },
    'AbortError and status 200',
  ],
  [
    'redirects without end',
    (authFetch) => {
      ground.env.fail('merchant', { kind: 'redirect', location: '/merchant/orders' }, { times: Infinity })
      return rejectionOf(authFetch(ground.env.merchantUrl))
    },
    'TypeError',
  ],
]

describe('callers of fetch', () => {
  it.for(FETCH_SCENES)('have no token in any print: %s', async ([row, start, expected], { task }) => {
    await ground.tokens.getToken()
    judge(await start(createAuthFetch(ground.tokens)), expected, { task, client: 'fetch', row })
  })
})
