// An undici caller may abort, pause or throw at any point of a call: it ends as it does without the token.
import { EventEmitter } from 'node:events'
import { createServer } from 'node:http'
import { type Duplex, Readable } from 'node:stream'
import { createAuthDispatch } from 'merchant-auth/undici'
import { type Dispatcher, errors, fetch, request, stream } from 'undici'
import { describe, expect, it, vi } from 'vitest'
import { MAX_HELD_BYTES } from '../../src/attach/held-body.ts'
import { settled } from '../support/clock.ts'
import { provided, token } from '../support/provided.ts'
import {
  agentThatWaits,
  agentWith,
  agentWithRenewal,
  authFor,
  type Played,
  playedBy,
  RecordingHandler,
  startCall,
} from './undici-calls.ts'
import { failureOf, listening, scripted, until } from './world.ts'

const ORIGIN = 'http://127.0.0.1:4321'
const REASON = new Error('enough')

describe('an undici caller that aborts during the wait for a token', () => {
  it.each(['request', 'stream'])('gets undici’s RequestAbortedError without a reason: %s', async (api) => {
    const { dispatcher } = agentThatWaits(ORIGIN)
    const signal = new EventEmitter()
    const options = { dispatcher, signal, method: 'GET' as const }
    const call = api === 'request' ? request(ORIGIN, options) : stream(ORIGIN, options, () => expect.fail())
    signal.emit('abort')
    const error = await failureOf(call)
    const { AbortError } = errors as typeof errors & { AbortError: typeof Error } // its types leave it out
    for (const kind of [errors.RequestAbortedError, AbortError, errors.UndiciError])
      expect(error).toBeInstanceOf(kind)
    expect(error).toMatchObject({ name: 'AbortError', code: 'UND_ERR_ABORTED', message: 'Request aborted' })
  })

  it('gets an AbortError from fetch', async () => {
    const { dispatcher } = agentThatWaits(ORIGIN)
    const caller = new AbortController()
    const call = failureOf(fetch(ORIGIN, { dispatcher, signal: caller.signal }))
    setImmediate(() => caller.abort())
    expect(await call).toMatchObject({ name: 'AbortError' })
  })

  it('finds its body stream destroyed with the error that its handler gets', () => {
    const body = new Readable({ read: () => {} })
    const call = startCall(agentThatWaits(ORIGIN).dispatcher, ORIGIN, { method: 'POST', body })
    call.controller?.abort(undefined as never)
    expect(call.error).toBeInstanceOf(errors.RequestAbortedError)
    expect([body.destroyed, body.errored]).toEqual([true, call.error])
    expect([call.controller?.aborted, call.events]).toEqual([true, ['start', 'error']])
  })
})

it('an undici caller that aborts at the start of the wait asks for no token', async () => {
  const get = vi.fn(() => Promise.reject(REASON))
  const call = new RecordingHandler()
  const body = new Readable({ read: () => {} })
  call.onRequestStart = (controller) => controller.abort(REASON)
  const dispatcher = agentWith(createAuthDispatch(provided({ apiUrls: [ORIGIN], get })))
  startCall(dispatcher, ORIGIN, { method: 'POST', body }, call)
  await settled() // nobody else listens to the error of the body
  expect([call.error, body.errored, get.mock.calls]).toEqual([REASON, REASON, []])
})

it('an undici caller that aborts when the token arrives has nothing dispatched', async () => {
  const dispatched: unknown[] = []
  const { dispatcher, give } = agentThatWaits(ORIGIN, () => (options, _) => dispatched.push(options) > 0)
  const call = startCall(dispatcher, ORIGIN)
  give()
  call.controller?.abort(REASON)
  await settled()
  expect([call.events, call.error, dispatched]).toEqual([['start', 'error'], REASON, []])
})

it('an undici caller that aborts before the response closes the connection', async () => {
  let isClosed = false
  await using api = await scripted((_, response) => {
    response.on('close', () => {
      isClosed = true
    })
  })
  const call = startCall(agentWith(authFor(api)), api.url)
  await until(() => api.seen.length === 1)
  call.controller?.abort(REASON)
  expect([call.events, call.error]).toEqual([['start', 'error'], REASON])
  await until(() => isClosed, 2_000)
})

it('an undici caller that aborts after the end gets nothing more, and no connection is closed', async () => {
  const attempts: Played[] = []
  const call = startCall(agentWith(playedBy(attempts), authFor({ url: ORIGIN })), ORIGIN)
  const [{ controller, handler }] = attempts as [Played]
  handler.onResponseStart?.(controller, 200, {})
  handler.onResponseEnd?.(controller, {})
  call.controller?.abort(REASON)
  await settled()
  expect(call.events).toEqual(['start', 'answer 200', 'end'])
  expect(controller.abort).not.toHaveBeenCalled()
})

// undici's MockAgent does not stop.
it('an undici caller that aborts gets no data from a dispatcher that goes on', () => {
  const attempts: Played[] = []
  const call = startCall(agentWith(playedBy(attempts), authFor({ url: ORIGIN })), ORIGIN)
  const [{ controller, handler }] = attempts as [Played]
  handler.onResponseStart?.(controller, 200, {})
  call.controller?.abort(REASON)
  handler.onResponseData?.(controller, Buffer.from('data'))
  handler.onResponseEnd?.(controller, {})
  expect([call.events, call.error, call.body]).toEqual([['start', 'answer 200', 'error'], REASON, ''])
})

it('an undici caller that aborts after it got the connection by an upgrade gets nothing more', async () => {
  const server = createServer().on('upgrade', (_, socket) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n')
  })
  await using api = await listening(server)
  const upgraded = Promise.withResolvers<Duplex>()
  const onRequestUpgrade = (_: unknown, __: unknown, ___: unknown, socket: Duplex) => upgraded.resolve(socket)
  const call = Object.assign(new RecordingHandler(), { onRequestUpgrade })
  startCall(agentWith(authFor(api)), api.url, { upgrade: 'echo' }, call)
  const socket = await upgraded.promise
  call.controller?.abort(REASON)
  await settled()
  expect([call.events, socket.destroyed]).toEqual([['start'], false])
  socket.destroy()
})

it('an undici caller that aborts twice gets its first reason', () => {
  const call = startCall(agentThatWaits(ORIGIN).dispatcher, ORIGIN)
  call.controller?.abort(REASON)
  call.controller?.abort(new Error('again'))
  expect([call.controller?.reason, call.error, call.events]).toEqual([REASON, REASON, ['start', 'error']])
})

describe('an undici caller that aborts during a renewal', () => {
  it.each([
    [5, 'another token'],
    [MAX_HELD_BYTES, 'another token'],
    [5, 'none'],
  ])('gets its reason, and nothing more: after a 401 of %i bytes, and %s', async (size, renewed) => {
    await using api = await scripted((_, response) => void response.writeHead(401).end(Buffer.alloc(size)))
    const dispatched: unknown[] = []
    const { dispatcher, renew, isAsked } = agentWithRenewal(api, (dispatch) => (options, handler) => {
      dispatched.push(options)
      return dispatch(options, handler)
    })
    const call = startCall(dispatcher, api.url)
    await until(isAsked)
    await settled(20)
    call.controller?.abort(REASON)
    expect([call.events, call.error]).toEqual([['start', 'error'], REASON])
    renew(renewed === 'none' ? undefined : token('second.token'))
    await settled(20)
    expect([call.events.length, dispatched.length]).toEqual([2, 1])
  })

  it('prevents the second send, also if undici has it in its queue', async () => {
    await using api = await scripted((_, response) => void response.writeHead(401).end())
    let sent = 0
    const call = new RecordingHandler()
    const abortSecond: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) => {
      sent += 1
      if (sent === 2) call.controller?.abort(REASON)
      return dispatch(options, handler)
    }
    const dispatcher = agentWith(abortSecond, authFor(api))
    startCall(dispatcher, api.url, {}, call)
    await call.ended
    await dispatcher.close()
    expect([call.events, call.error, api.seen.length]).toEqual([['start', 'error'], REASON, 1])
  })

  it.each([5, MAX_HELD_BYTES])(
    'gets its reason in place of the rest, if it aborts while it gets a 401 of %i bytes',
    async (size) => {
      await using api = await scripted((_, response) => void response.writeHead(401).end(Buffer.alloc(size)))
      const dispatcher = agentWith(authFor(api, { renew: async () => undefined }))
      const call = startCall(dispatcher, api.url)
      call.onResponseData = () => call.controller?.abort(REASON)
      await call.ended
      expect([call.events, call.error]).toEqual([['start', 'answer 401', 'error'], REASON])
    },
  )
})

it('an undici caller that pauses during the wait for a token gets no data before it resumes', async () => {
  await using api = await scripted((_, response) => void response.end('data'))
  const { dispatcher, give } = agentThatWaits(api.url)
  const call = startCall(dispatcher, api.url)
  call.controller?.pause()
  give()
  await until(() => call.events.includes('answer 200'))
  await settled(20)
  expect(call.body).toBe('')
  call.controller?.resume()
  await call.ended
  expect(call.body).toBe('data')
})

it('an undici caller that pauses and resumes during the wait for a token gets the data', async () => {
  await using api = await scripted((_, response) => void response.end('data'))
  const { dispatcher, give } = agentThatWaits(api.url)
  const call = startCall(dispatcher, api.url)
  call.controller?.pause()
  call.controller?.resume()
  give()
  await until(() => call.body === 'data', 2_000)
})

it('an undici caller that pauses before a 401 gets the response to the second send when it resumes', async () => {
  const connections = new Set<unknown>()
  await using api = await scripted((_, response, nth) => {
    connections.add(response.socket)
    response.writeHead(nth === 1 ? 401 : 200).end('data')
  })
  const { dispatcher, renew, isAsked } = agentWithRenewal(api)
  const call = new RecordingHandler()
  call.onRequestStart = (controller) => {
    call.controller = controller
    controller.pause()
  }
  startCall(dispatcher, api.url, {}, call)
  await until(isAsked)
  renew(token('second.token'))
  await until(() => call.events.includes('answer 200'))
  await settled(20)
  expect([call.body, connections.size]).toEqual(['', 1])
  call.controller?.resume()
  await call.ended
  expect(call.body).toBe('data')
})

it.each<[string, (value: string) => Record<string, string> | string[]]>([
  ['a record', (value) => ({ a: value })],
  ['a flat list', (value) => ['a', value]],
])(
  'an undici call that waits for a token is not busy, and ignores changes of its options: %s',
  async (_, make) => {
    await using api = await scripted((__, response) => response.end())
    const { dispatcher, give } = agentThatWaits(api.url)
    const options = { origin: api.url, path: '/first', method: 'GET', headers: make('1') }
    const call = new RecordingHandler()
    expect(dispatcher.dispatch(options, call)).toBe(true)
    options.path = '/second'
    Object.assign(options.headers, make('2'))
    give()
    await call.ended
    expect(api.seen).toMatchObject([{ path: '/first', headers: { a: '1' } }])
  },
)

describe('an undici call ends with an error', () => {
  it('of its body stream that fails during the wait for a token', async () => {
    await using api = await scripted((_, response) => response.end())
    const { dispatcher, give } = agentThatWaits(api.url)
    const body = new Readable({ read: () => {} })
    const call = failureOf(request(api.url, { dispatcher, method: 'POST', body }))
    body.destroy(new Error('torn'))
    await settled()
    give()
    expect(await call).toMatchObject({ message: 'torn' })
  })

  it('that an interceptor below throws when it is repeated', async () => {
    await using api = await scripted((_, response) => void response.writeHead(401).end())
    let calls = 0
    const throwing: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) => {
      calls += 1
      if (calls === 2) throw REASON
      return dispatch(options, handler)
    }
    const call = startCall(agentWith(throwing, authFor(api)), api.url)
    await call.ended
    expect(call.error).toBe(REASON)
  })

  it('that its handler throws when it starts to wait for a token', () => {
    const call = new RecordingHandler()
    call.onRequestStart = () => {
      throw REASON
    }
    startCall(agentThatWaits(ORIGIN).dispatcher, ORIGIN, {}, call)
    expect(call.error).toBe(REASON)
  })

  const callbacks = ['onResponseStart', 'onResponseData', 'onResponseEnd'] as const
  it.each(callbacks)('that its handler throws in %s when it gets a 401 that was held', async (name) => {
    await using api = await scripted((_, response) => void response.writeHead(401).end('data'))
    const call = startCall(agentWith(authFor(api, { renew: async () => undefined })), api.url)
    call[name] = () => {
      throw REASON
    }
    await call.ended
    await settled(20)
    expect([call.error, call.events.at(-1)]).toEqual([REASON, 'error'])
  })
})
