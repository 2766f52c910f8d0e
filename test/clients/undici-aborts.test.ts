// A caller of undici's may leave at any time, with undici's own errors, and no other caller notices (contract 3.7).
import { EventEmitter } from 'node:events'
import { Readable } from 'node:stream'
import type { AccessToken } from 'merchant-auth'
import { type Dispatcher, errors, fetch, request, stream } from 'undici'
import { describe, expect, it } from 'vitest'
import { rejectionOf, scripted, until } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { agentWith, createAuthDispatch, NotingHandler } from './undici-calls.ts'

const at = 'http://127.0.0.1:4321'

/** A provider without a token, which comes when it is given. */
function waiting(apiUrl = at) {
  let give: (value: AccessToken) => void = () => {}
  const waits: unknown[] = []
  const shared = new Promise<AccessToken>((resolve) => {
    give = resolve
  })
  const tokens = provided({
    apiUrls: [apiUrl],
    get: (options) => {
      waits.push(options)
      return shared
    },
  })
  return { dispatcher: agentWith(createAuthDispatch(tokens)), give, waits }
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
    await until(() => true)
    leaving.abort()
    expect(await call).toMatchObject({ name: 'AbortError' })
  })

  it('while a token is renewed gets its reason at once, and the 401 never', async () => {
    await using server = await scripted((_, response) => void response.writeHead(401).end('no'))
    const waits: unknown[] = []
    const tokens = provided({
      current: token('first.token'),
      apiUrls: [server.url],
      renew: (_, options) => {
        waits.push(options)
        return new Promise(() => {})
      },
    })
    const leaving = new AbortController()
    const dispatcher = agentWith(createAuthDispatch(tokens))
    const call = rejectionOf(request(server.url, { dispatcher, signal: leaving.signal }))
    await until(() => waits.length === 1)
    leaving.abort(new Error('leaving'))
    expect(await call).toMatchObject({ message: 'leaving' })
    expect(server.seen).toHaveLength(1)
  })

  it('between the two attempts makes no second one', async () => {
    await using server = await scripted(
      (_, response, nth) => void response.writeHead(nth === 1 ? 401 : 200).end(),
    )
    const tokens = provided({ current: token('first.token'), apiUrls: [server.url] })
    let sent = 0
    const noted = new NotingHandler()
    const reason = new Error('between')
    const dispatcher = agentWith(
      (dispatch) => (options, handler) => {
        sent += 1
        if (sent === 2) noted.controller?.abort(reason) // before undici has begun it
        return dispatch(options, handler)
      },
      createAuthDispatch(tokens),
    )
    dispatcher.dispatch({ origin: server.url, path: '/', method: 'GET' }, noted)
    await noted.ended
    expect([noted.events, noted.error]).toEqual([['start', 'error'], reason])
    expect([noted.controller?.aborted, noted.controller?.reason]).toEqual([true, reason])
    noted.controller?.abort(new Error('again'))
    expect(noted.events).toHaveLength(2)
    await dispatcher.close()
    expect(server.seen).toHaveLength(1)
  })

  it('while a 401 is handed out', async () => {
    const size = 1024 * 1024
    await using server = await scripted((_, response) => void response.writeHead(401).end(Buffer.alloc(size)))
    const tokens = provided({
      current: token('first.token'),
      apiUrls: [server.url],
      renew: async () => undefined,
    })
    const { body } = await request(server.url, { dispatcher: agentWith(createAuthDispatch(tokens)) })
    body.destroy()
    expect(await rejectionOf(body.text())).toBeInstanceOf(errors.RequestAbortedError)
  })

  it('while a whole 401 is handed out gets no end', async () => {
    await using server = await scripted((_, response) => void response.writeHead(401).end('small'))
    const tokens = provided({
      current: token('first.token'),
      apiUrls: [server.url],
      renew: async () => undefined,
    })
    const noted = new NotingHandler((controller) => controller.abort(new Error('enough')))
    agentWith(createAuthDispatch(tokens)).dispatch({ origin: server.url, path: '/', method: 'GET' }, noted)
    await noted.ended
    expect([noted.events, noted.error?.message]).toEqual([['start', 'answer 401', 'error'], 'enough'])
  })

  it('during an attempt, as ever', async () => {
    await using server = await scripted(() => {})
    const tokens = provided({ current: token('first.token'), apiUrls: [server.url] })
    const dispatcher = agentWith(createAuthDispatch(tokens))
    const slow = rejectionOf(request(server.url, { dispatcher, headersTimeout: 20 }))
    expect(await slow).toBeInstanceOf(errors.HeadersTimeoutError)
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
