// A 401 on undici: it is held while the token is renewed; then it is discarded and the call repeated, or the caller gets it.
import { AsyncLocalStorage } from 'node:async_hooks'
import { Readable } from 'node:stream'
import { setTimeout } from 'node:timers/promises'
import { createTokenProvider } from 'merchant-auth'
import { createAuthDispatch } from 'merchant-auth/undici'
import { Agent, type Dispatcher, errors, FormData, fetch, request } from 'undici'
import { describe, expect, it, vi } from 'vitest'
import { MAX_DRAINING_MS, MAX_HELD_BYTES } from '../../src/attach/held-body.ts'
import { settled } from '../support/clock.ts'
import { token } from '../support/provided.ts'
import {
  agentWith,
  agentWithRenewal,
  authFor,
  autoDestroyed,
  type Played,
  playedBy,
  RecordingHandler,
  startCall,
  tokensAt,
} from './undici-calls.ts'
import { failureOf, scripted, until } from './world.ts'

const ORIGIN = 'http://127.0.0.1:4321'

/** An API that rejects the first token, with a body of this size. */
const rejecting = (bytes = 0) =>
  scripted(({ headers, body }, response) => {
    const isFirst = headers.authorization === 'Bearer first.token'
    response.writeHead(isFirst ? 401 : 200).end(isFirst ? Buffer.alloc(bytes) : body)
  })

describe('an undici call, after a 401,', () => {
  it('is repeated with the new token, and its handler gets one response', async () => {
    await using api = await rejecting(1024)
    const call = startCall(agentWith(authFor(api)), api.url, { method: 'POST', body: 'x' })
    await call.ended
    expect(call.events).toEqual(['start', 'start', 'answer 200', 'end'])
    expect([call.body, tokensAt(api)]).toEqual(['x', ['Bearer first.token', 'Bearer second.token']])
  })

  it('is repeated once: the caller gets a second 401, which renews nothing', async () => {
    await using api = await scripted((_, response) => void response.writeHead(401).end())
    const renew = vi.fn(async () => token('second.token'))
    expect((await request(api.url, { dispatcher: agentWith(authFor(api, { renew })) })).statusCode).toBe(401)
    expect([api.seen.length, renew.mock.calls.length]).toEqual([2, 1])
  })

  it('is repeated in the async context of its caller, whichever call opened the connection', async () => {
    await using api = await rejecting()
    const caller = new AsyncLocalStorage<string>()
    const seen: unknown[] = []
    const noting: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) => {
      if (options.path === '/rejected') seen.push(caller.getStore())
      return dispatch(options, handler)
    }
    const dispatcher = autoDestroyed(new Agent({ connections: 1 })).compose(noting, authFor(api))
    const call = (name: string) => caller.run(name, () => request(`${api.url}/${name}`, { dispatcher }))
    await Promise.all(['first', 'rejected'].map(call))
    expect(seen).toEqual(['rejected', 'rejected'])
  })

  it('is in doubt after early hints, too, which say nothing about the token', async () => {
    await using api = await scripted(({ path }, response) => {
      response.writeEarlyHints({ link: '</style.css>; rel=preload' })
      response.writeHead(path === '/rejected' ? 401 : 200).end()
    })
    const issue = vi.fn(async () =>
      Response.json({
        access_token: `token.${issue.mock.calls.length}`,
        token_type: 'Bearer',
        expires_in: 3_600,
      }),
    )
    await using tokens = createTokenProvider({
      environment: { name: 'test', authUrl: api.url, audience: api.url, apiUrls: { merchant: api.url } },
      clientId: 'client',
      clientSecret: 'a-secret-of-a-client',
      fetch: issue,
    })
    const dispatcher = agentWith(createAuthDispatch(tokens))
    const statuses: number[] = []
    const hints = vi.fn()
    for (let pairs = 0; pairs < 10; pairs += 1)
      for (const path of ['', '/rejected'])
        statuses.push((await request(api.url + path, { dispatcher, onInfo: hints })).statusCode)
    expect(statuses).toEqual(Array.from({ length: 20 }, (_, call) => (call % 2 === 0 ? 200 : 401)))
    expect(issue).toHaveBeenCalledTimes(2)
    expect(hints).toHaveBeenCalledTimes(20 + 1) // one call was repeated
  })

  it('is repeated with the same form', async () => {
    await using api = await rejecting()
    const body = new FormData()
    body.append('file', new File(['content'], 'f.bin'))
    await request(api.url, { dispatcher: agentWith(authFor(api)), method: 'POST', body })
    const sent = api.seen.map(({ body: bytes, headers }) => {
      const boundary = String(headers['content-type']).split('boundary=')[1] ?? ''
      return String(bytes).replaceAll(boundary, 'BOUNDARY')
    })
    expect(sent[0]).toContain('content')
    expect(sent[1]).toBe(sent[0])
  })

  it('returns it at once, while the renewal runs, if its body was a stream', async () => {
    await using api = await rejecting()
    const { dispatcher, isAsked } = agentWithRenewal(api)
    const body = Readable.from(['x'])
    expect((await request(api.url, { dispatcher, method: 'POST', body })).statusCode).toBe(401)
    expect((await fetch(api.url, { dispatcher, method: 'POST', body: 'x' })).status).toBe(401) // an iterable for undici
    expect([isAsked(), api.seen.length]).toEqual([true, 2])
  })

  it('does not hold up other calls during the renewal, also on the same connection', async () => {
    await using api = await scripted(({ path }, response) => {
      response.writeHead(path === '/rejected' ? 401 : 200).end('short')
    })
    const { dispatcher, renew, isAsked } = agentWithRenewal(api)
    const rejected = request(`${api.url}/rejected`, { dispatcher })
    await until(isAsked)
    expect((await request(`${api.url}/other`, { dispatcher })).statusCode).toBe(200)
    renew(undefined)
    expect((await rejected).statusCode).toBe(401)
  })
})

describe('a 401 that undici holds during the renewal', () => {
  it.each<[string, () => Promise<ReturnType<typeof token> | undefined>]>([
    ['fails', () => Promise.reject(new Error('no renewal'))],
    ['is suppressed', async () => undefined],
    ['yields the same token', async () => token('first.token')],
  ])('reaches the caller unchanged if the renewal %s', async (_, renew) => {
    await using api = await scripted((__, response) => {
      response.writeHead(401, { 'x-a': ['b', 'c'], trailer: 'x-t' }).write('the API’s ')
      response.addTrailers({ 'x-t': 'tail' })
      response.end('own')
    })
    const dispatcher = agentWith(authFor(api, { renew }))
    const { statusCode, headers, body, trailers } = await request(api.url, { dispatcher })
    expect([statusCode, await body.text(), trailers]).toEqual([401, 'the API’s own', { 'x-t': 'tail' }])
    expect(headers['x-a']).toEqual(['b', 'c'])
    expect(api.seen).toHaveLength(1)
  })

  it('is handed out if it is too large, and then flows as fast as the caller reads it', async () => {
    const size = 20 * 1024 * 1024
    const chunk = Buffer.alloc(64 * 1024, 'x')
    let sent = 0
    function* chunks(): Generator<Buffer> {
      for (; sent < size; sent += chunk.length) yield chunk
    }
    await using api = await scripted((_, response) => {
      Readable.from(chunks()).pipe(response.writeHead(401))
    })
    const { dispatcher, isAsked } = agentWithRenewal(api)
    let [received, pauses] = [0, 0]
    const call = new RecordingHandler()
    call.onResponseStart = () => {
      call.events.push('answer 401')
      call.controller?.pause()
    }
    startCall(dispatcher, api.url, {}, call)
    call.onResponseData = (_, { length }) => {
      received += length
      pauses += 1
      call.controller?.pause()
      setImmediate(() => call.controller?.resume())
    }
    await until(() => call.events.includes('answer 401'))
    await setTimeout(200)
    expect(sent).toBeLessThan(size / 2)
    expect([isAsked(), received]).toEqual([true, 0])
    call.controller?.resume()
    await call.ended
    expect([call.events, received]).toEqual([['start', 'answer 401', 'end'], size])
    expect(pauses).toBeGreaterThan(100)
  })

  it('is handed out at once if it announces too much', async () => {
    const headers = { 'content-length': String(MAX_HELD_BYTES + 1) }
    await using api = await scripted((_, response) => void response.writeHead(401, headers).write('x'))
    const { dispatcher, isAsked } = agentWithRenewal(api)
    const call = startCall(dispatcher, api.url)
    await until(() => call.events.includes('answer 401'))
    expect([isAsked(), api.seen.length]).toEqual([true, 1])
  })

  it('waits for a caller who has paused, and then reaches the caller as it arrives', async () => {
    let write = (_: string) => {}
    await using api = await scripted((_, response) => {
      write = (text) => void response.write(text)
      response.writeHead(401).write('one ')
    })
    const { dispatcher, renew, isAsked } = agentWithRenewal(api)
    const call = startCall(dispatcher, api.url)
    await until(isAsked)
    call.controller?.pause()
    renew(undefined)
    await until(() => call.events.includes('answer 401'))
    await settled(20)
    expect(call.body).toBe('')
    call.controller?.resume()
    await until(() => call.body === 'one ')
    write('two')
    await until(() => call.body === 'one two')
  })

  it('reaches the caller up to the break if its connection breaks', async () => {
    await using api = await scripted((_, response) => {
      response.writeHead(401, { 'content-length': 10 }).write('half ', () => response.destroy())
    })
    const { dispatcher, renew, isAsked } = agentWithRenewal(api)
    const call = startCall(dispatcher, api.url)
    await until(isAsked)
    const fetched = fetch(api.url, { dispatcher })
    await until(() => api.seen.length === 2)
    await settled(50) // both break
    renew(undefined)
    await call.ended
    expect([call.events, call.body]).toEqual([['start', 'answer 401', 'error'], 'half '])
    expect(call.error).toBeInstanceOf(errors.SocketError)
    expect(await failureOf((await fetched).text())).toMatchObject({ message: 'terminated' })
  })

  describe('is discarded after a renewal, and the call is repeated at once', () => {
    it.each([
      ['read to its end if it is small, and its connection is reused', 1024, 1],
      ['read to its end if it is just small enough', MAX_HELD_BYTES, 1],
    ])('it is %s', async (_, size, connections) => {
      const sockets = new Set<unknown>()
      await using api = await scripted((__, response, nth) => {
        sockets.add(response.socket)
        response.writeHead(nth === 1 ? 401 : 200).end(Buffer.alloc(size))
      })
      const { dispatcher, renew } = agentWithRenewal(api)
      renew(token('second.token'))
      expect((await request(api.url, { dispatcher })).statusCode).toBe(200)
      expect(sockets.size).toBe(connections)
    })

    it.each([
      ['read to its end if the rest is small', 'rest', 1],
      ['cut off if too much arrives', Buffer.alloc(5 * MAX_HELD_BYTES), 2],
    ])('it is %s, when half of it has arrived', async (_, rest, connections) => {
      const sockets = new Set<unknown>()
      let end = () => {}
      await using api = await scripted((__, response, nth) => {
        sockets.add(response.socket)
        response.writeHead(nth === 1 ? 401 : 200).write('half')
        if (nth === 1) end = () => void response.end(rest)
        else response.end()
      })
      const { dispatcher, renew, isAsked } = agentWithRenewal(api)
      const call = request(api.url, { dispatcher })
      await until(isAsked)
      await settled(20)
      renew(token('second.token'))
      await settled(20)
      end()
      expect((await call).statusCode).toBe(200)
      expect(sockets.size).toBe(connections)
    })
  })

  describe('as undici delivers it,', () => {
    /** A 401 of so many bytes, which has not ended. */
    function held(bytes: number) {
      const attempts: Played[] = []
      const { dispatcher, renew } = agentWithRenewal({ url: ORIGIN }, playedBy(attempts))
      startCall(dispatcher, ORIGIN)
      const [{ controller, handler }] = attempts as [Played]
      handler.onResponseStart?.(controller, 401, {})
      handler.onResponseData?.(controller, Buffer.alloc(bytes))
      return {
        controller,
        end: () => handler.onResponseEnd?.(controller, {}),
        renewed: async () => {
          renew(token('second.token'))
          await settled()
          expect(attempts).toHaveLength(2)
        },
      }
    }

    it.each(['before', 'after'])('it is not cut off if it ends %s the renewal', async (when) => {
      const { controller, end, renewed } = held(5)
      if (when === 'before') end()
      await renewed()
      if (when === 'after') end()
      await setTimeout(MAX_DRAINING_MS + 100) // a response that does not end is cut off
      expect(controller.abort).not.toHaveBeenCalled()
    })
  })

  it('is cut off after a renewal if it does not end: the repeated call gets a connection', async () => {
    await using api = await scripted((_, response, nth) => {
      if (nth === 1) response.writeHead(401).write('half')
      else response.end('good')
    })
    const { dispatcher, renew } = agentWithRenewal(api)
    renew(token('second.token'))
    const { statusCode, body } = await request(api.url, { dispatcher })
    expect([statusCode, await body.text()]).toEqual([200, 'good'])
  })
})
