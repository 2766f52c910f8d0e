// An undici caller may abort at any point of a call and gets undici's own errors.
import { EventEmitter } from 'node:events'
import { Readable } from 'node:stream'
import type { AccessToken } from 'merchant-auth'
import { type Dispatcher, errors, fetch, request, stream } from 'undici'
import { describe, expect, it } from 'vitest'
import { rejectionOf, scripted } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import {
  agentWith,
  agentWithToken,
  createAuthDispatch,
  RecordingHandler,
  recordedCall,
} from './undici-calls.ts'

const ORIGIN = 'http://127.0.0.1:4321'

/** An agent whose calls wait for a token until the test calls `give`. */
function waiting(apiUrl = ORIGIN) {
  const { promise, resolve: give } = Promise.withResolvers<AccessToken>()
  const tokens = provided({ apiUrls: [apiUrl], get: () => promise })
  return { dispatcher: agentWith(createAuthDispatch(tokens)), give }
}

describe('an undici caller', () => {
  it.each(['request', 'stream'] as const)(
    'gets undici’s RequestAbortedError if it aborts without a reason: %s',
    async (api) => {
      const { dispatcher } = waiting()
      const signal = new EventEmitter()
      const options = { dispatcher, signal, method: 'GET' as const }
      const call =
        api === 'request'
          ? request(ORIGIN, options)
          : stream(ORIGIN, options, () => expect.unreachable() as never)
      signal.emit('abort')
      const error = await rejectionOf(call)
      expect(error).toBeInstanceOf(errors.RequestAbortedError)
      expect(error).toBeInstanceOf(errors.UndiciError)
      expect(error).toMatchObject({ name: 'AbortError', code: 'UND_ERR_ABORTED', message: 'Request aborted' })
    },
  )

  it('gets an AbortError from fetch if it aborts during the wait for a token', async () => {
    const { dispatcher } = waiting()
    const caller = new AbortController()
    const call = rejectionOf(fetch(ORIGIN, { dispatcher, signal: caller.signal }))
    setImmediate(() => caller.abort())
    expect(await call).toMatchObject({ name: 'AbortError' })
  })

  it('prevents the second send if it aborts between the two sends', async () => {
    await using server = await scripted(
      (_, response, nth) => void response.writeHead(nth === 1 ? 401 : 200).end(),
    )
    let sent = 0
    const recorded = new RecordingHandler()
    const reason = new Error('between')
    const abortSecond: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) => {
      sent += 1
      if (sent === 2) recorded.controller?.abort(reason) // before undici has begun it
      return dispatch(options, handler)
    }
    const dispatcher = agentWithToken({ apiUrls: [server.url] }, [abortSecond])
    await recordedCall(dispatcher, server.url, recorded)
    expect([recorded.events, recorded.error]).toEqual([['start', 'error'], reason])
    expect([recorded.controller?.aborted, recorded.controller?.reason]).toEqual([true, reason])
    recorded.controller?.abort(new Error('again'))
    expect(recorded.events).toHaveLength(2)
    await dispatcher.close()
    expect([server.seen.length, recorded.events.length]).toEqual([1, 2])
  })

  it('gets no data before it resumes if it pauses during the wait for a token', async () => {
    const sent = Promise.withResolvers<void>()
    await using server = await scripted((_, response) => void response.end('data', () => sent.resolve()))
    const { dispatcher, give } = waiting(server.url)
    const recorded = new RecordingHandler()
    const ended = recordedCall(dispatcher, server.url, recorded)
    recorded.controller?.pause()
    give(token('late.token'))
    await sent.promise
    await new Promise((resolve) => setTimeout(resolve, 50)) // long enough for it to arrive
    expect(recorded.body).toBe('')
    recorded.controller?.resume()
    await ended
    expect(recorded.body).toBe('data')
  })

  it.each([1024 * 1024, 5])(
    'gets an error instead of the end of the body if it aborts during a 401 of %i bytes',
    async (size) => {
      await using server = await scripted((_, response) => response.writeHead(401).end(Buffer.alloc(size)))
      const dispatcher = agentWithToken({ apiUrls: [server.url], renew: async () => undefined })
      const recorded = new RecordingHandler((controller) => controller.abort(new Error('enough')))
      await recordedCall(dispatcher, server.url, recorded)
      expect([recorded.events, recorded.error?.message]).toEqual([['start', 'answer 401', 'error'], 'enough'])
      const { body } = await request(server.url, { dispatcher })
      body.destroy()
      expect(await rejectionOf(body.text())).toBeInstanceOf(errors.RequestAbortedError)
    },
  )

  it('gets the error of its body stream if that fails during the wait for a token', async () => {
    const { dispatcher } = waiting()
    const body = new Readable({ read: () => {} })
    const call = rejectionOf(request(ORIGIN, { dispatcher, method: 'POST', body }))
    body.destroy(new Error('torn'))
    expect(await call).toMatchObject({ message: 'torn' })
  })

  it('finds as many error listeners on its body stream after the call as without the token', async () => {
    await using server = await scripted((_, response) => void response.end())
    const { dispatcher, give } = waiting(server.url)
    const listenersAfterCall = async (by: Dispatcher): Promise<number> => {
      const body = Readable.from([Buffer.from('x')])
      const call = request(server.url, { dispatcher: by, method: 'POST', body })
      give(token('late.token'))
      await (await call).body.dump()
      return body.listenerCount('error')
    }
    expect(await listenersAfterCall(dispatcher)).toBe(await listenersAfterCall(agentWith()))
  })
})
