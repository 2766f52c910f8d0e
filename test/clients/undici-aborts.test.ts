// A caller of undici's may leave at any time, with undici's own errors, and no other caller notices.
import { EventEmitter } from 'node:events'
import { Readable } from 'node:stream'
import type { AccessToken } from 'merchant-auth'
import { type Dispatcher, errors, fetch, request, stream } from 'undici'
import { describe, expect, it } from 'vitest'
import { rejectionOf, scripted } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { agentFor, agentWith, createAuthDispatch, NotingHandler, notedCall } from './undici-calls.ts'

const at = 'http://127.0.0.1:4321'

/** An agent without a token, until it is given one. */
function waiting(apiUrl = at) {
  const { promise, resolve: give } = Promise.withResolvers<AccessToken>()
  const tokens = provided({ apiUrls: [apiUrl], get: () => promise })
  return { dispatcher: agentWith(createAuthDispatch(tokens)), give }
}

describe('a caller of undici’s that leaves', () => {
  it.each(['request', 'stream'] as const)(
    'gets undici’s own error where it gives no reason: %s',
    async (api) => {
      const { dispatcher } = waiting()
      const signal = new EventEmitter()
      const options = { dispatcher, signal, method: 'GET' as const }
      const call =
        api === 'request' ? request(at, options) : stream(at, options, () => expect.unreachable() as never)
      signal.emit('abort')
      const error = await rejectionOf(call)
      expect(error).toBeInstanceOf(errors.RequestAbortedError)
      expect(error).toBeInstanceOf(errors.UndiciError)
      expect(error).toMatchObject({ name: 'AbortError', code: 'UND_ERR_ABORTED', message: 'Request aborted' })
    },
  )

  it('is one of fetch', async () => {
    const { dispatcher } = waiting()
    const leaving = new AbortController()
    const call = rejectionOf(fetch(at, { dispatcher, signal: leaving.signal }))
    setImmediate(() => leaving.abort())
    expect(await call).toMatchObject({ name: 'AbortError' })
  })

  it('between the two attempts makes no second one', async () => {
    await using server = await scripted(
      (_, response, nth) => void response.writeHead(nth === 1 ? 401 : 200).end(),
    )
    let sent = 0
    const noted = new NotingHandler()
    const reason = new Error('between')
    const leave: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) => {
      sent += 1
      if (sent === 2) noted.controller?.abort(reason) // before undici has begun it
      return dispatch(options, handler)
    }
    const dispatcher = agentFor({ apiUrls: [server.url] }, [leave])
    await notedCall(dispatcher, server.url, noted)
    expect([noted.events, noted.error]).toEqual([['start', 'error'], reason])
    expect([noted.controller?.aborted, noted.controller?.reason]).toEqual([true, reason])
    noted.controller?.abort(new Error('again'))
    expect(noted.events).toHaveLength(2)
    await dispatcher.close()
    expect(server.seen).toHaveLength(1)
  })

  it.each([1024 * 1024, 5])('while a 401 of %i bytes is handed out gets no end', async (size) => {
    await using server = await scripted((_, response) => response.writeHead(401).end(Buffer.alloc(size)))
    const dispatcher = agentFor({ apiUrls: [server.url], renew: async () => undefined })
    const noted = new NotingHandler((controller) => controller.abort(new Error('enough')))
    await notedCall(dispatcher, server.url, noted)
    expect([noted.events, noted.error?.message]).toEqual([['start', 'answer 401', 'error'], 'enough'])
    const { body } = await request(server.url, { dispatcher })
    body.destroy()
    expect(await rejectionOf(body.text())).toBeInstanceOf(errors.RequestAbortedError)
  })

  it('by an error of its stream while a token is waited for', async () => {
    const { dispatcher } = waiting()
    const body = new Readable({ read: () => {} })
    const call = rejectionOf(request(at, { dispatcher, method: 'POST', body }))
    body.destroy(new Error('torn'))
    expect(await call).toMatchObject({ message: 'torn' })
  })

  it('leaves no listener on its stream that undici would not leave', async () => {
    await using server = await scripted((_, response) => void response.end())
    const { dispatcher, give } = waiting(server.url)
    const left = async (by: Dispatcher): Promise<number> => {
      const body = Readable.from([Buffer.from('x')])
      const call = request(server.url, { dispatcher: by, method: 'POST', body })
      give(token('late.token'))
      await (await call).body.dump()
      return body.listenerCount('error')
    }
    expect(await left(dispatcher)).toBe(await left(agentWith()))
  })
})
