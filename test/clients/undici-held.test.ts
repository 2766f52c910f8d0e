// A 401 that the undici handler holds back while the token is renewed: it is passed to the caller unchanged, or discarded.
import type { Socket } from 'node:net'
import { Agent, fetch, request } from 'undici'
import { describe, expect, it } from 'vitest'
import { settled } from '../support/clock.ts'
import { rejectionOf, scripted, until } from '../support/ground.ts'
import { token } from '../support/provided.ts'
import { agentWithRenewal, autoDestroyed, RecordingHandler, recordedCall } from './undici-calls.ts'

describe('a 401 that undici holds back during the renewal', () => {
  it.each<[string, string | undefined]>([
    ['fails', 'error'],
    ['is suppressed', undefined],
    ['yields the same token', 'first.token'],
  ])('is passed to the caller unchanged if the renewal %s', async (_, renewed) => {
    await using server = await scripted((__, response) => {
      response.writeHead(401, { 'x-a': ['b', 'c'], trailer: 'x-t', 'transfer-encoding': 'chunked' })
      response.write('the API’s ')
      response.addTrailers({ 'x-t': 'tail' })
      response.end('own')
    })
    const { dispatcher, renew, rejectRenewal } = agentWithRenewal(server.url)
    if (renewed === 'error') rejectRenewal(new Error('no renewal'))
    else renew(renewed === undefined ? undefined : token(renewed))
    const { statusCode, headers, body, trailers } = await request(server.url, { dispatcher })
    expect([statusCode, await body.text(), trailers]).toEqual([401, 'the API’s own', { 'x-t': 'tail' }])
    expect(headers['x-a']).toEqual(['b', 'c'])
    expect(server.seen).toHaveLength(1)
  })

  it.each(['HEAD', 'GET'] as const)('is passed to the caller if it has no body: %s', async (method) => {
    await using server = await scripted((_, response) => void response.writeHead(401).end())
    const { dispatcher, renew, asked } = agentWithRenewal(server.url)
    const answer = request(server.url, { method, dispatcher })
    await until(() => asked() === 1)
    renew(undefined)
    const { statusCode, body } = await answer
    expect([statusCode, await body.text()]).toEqual([401, ''])
  })

  it('is not read into memory, and then flows as fast as the caller reads it', async () => {
    const size = 20 * 1024 * 1024
    let socket: Socket | undefined
    await using server = await scripted((_, response) => {
      socket = response.socket ?? undefined
      response.writeHead(401, { 'content-length': size }).end(Buffer.alloc(size, 'x'))
    })
    const { dispatcher, renew, asked } = agentWithRenewal(server.url)
    let pauses = 0
    const recorded = new RecordingHandler((controller) => {
      pauses += 1
      controller.pause()
      setImmediate(() => controller.resume())
    })
    const over = recordedCall(dispatcher, server.url, recorded)
    await until(() => asked() === 1)
    await new Promise((resolve) => setTimeout(resolve, 50)) // long enough for all of it to arrive
    expect(socket?.writableLength).toBeGreaterThan(0)
    expect(recorded.events).toEqual(['start'])
    renew(undefined)
    await over
    expect(recorded.events).toEqual(['start', 'answer 401', 'end'])
    expect(recorded.body.length).toBe(size)
    expect(pauses).toBeGreaterThan(10)
  })

  it.each(['it is held back', 'the caller reads it'])(
    'is passed to the caller up to the break if its connection breaks while %s',
    async (when) => {
      const [written, broken] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      let breakOff = () => {}
      await using server = await scripted((_, response) => {
        response.socket?.on('close', broken.resolve)
        breakOff = () => void response.destroy()
        response.writeHead(401, { 'content-length': 10 }).write('half ', () => written.resolve())
      })
      const { dispatcher, renew, asked } = agentWithRenewal(server.url)
      const recorded = new RecordingHandler(() => breakOff())
      const over = recordedCall(dispatcher, server.url, recorded)
      await Promise.all([written.promise, until(() => asked() === 1)])
      if (when === 'it is held back') {
        breakOff()
        await broken.promise
        await settled(20)
      }
      renew(undefined)
      await over
      expect([recorded.events, recorded.body]).toEqual([['start', 'answer 401', 'error'], 'half '])
      expect(recorded.error?.code).toBe('UND_ERR_SOCKET')
    },
  )

  it('is passed to undici’s fetch up to the break if its connection breaks while it is held back', async () => {
    const broken = Promise.withResolvers<void>()
    await using server = await scripted((_, response) => {
      response.socket?.on('close', broken.resolve)
      response.writeHead(401, { 'content-length': 10 }).write('half ', () => response.destroy())
    })
    const { dispatcher, renew, asked } = agentWithRenewal(server.url)
    const answer = fetch(server.url, { dispatcher })
    await Promise.all([broken.promise, until(() => asked() === 1)])
    await settled(20)
    renew(undefined)
    const response = await answer
    expect(response.status).toBe(401)
    expect(await rejectionOf(response.text())).toMatchObject({ message: 'terminated' })
  })

  it.each<[string, number, number]>([
    ['read to its end if it is small, and its connection is reused', 1024, 1],
    ['cut off if it is large', 5 * 1024 * 1024, 2],
    ['cut off if its content-length is large', -5 * 1024 * 1024, 2],
  ])('is discarded after a renewal: it is %s', async (_, size, connections) => {
    const sockets = new Set<unknown>()
    await using server = await scripted((_, response, nth) => {
      sockets.add(response.socket)
      if (nth > 1) return void response.end('good')
      response.writeHead(401, size < 0 ? { 'content-length': -size } : { 'transfer-encoding': 'chunked' })
      response.end(Buffer.alloc(Math.abs(size)))
    })
    const { intercept, renew } = agentWithRenewal(server.url)
    renew(token('second.token'))
    const dispatcher = autoDestroyed(new Agent({ connections: 1 })).compose(intercept)
    const { body } = await request(server.url, { dispatcher })
    expect(await body.text()).toBe('good')
    expect(sockets.size).toBe(connections)
  })

  it('reaches the caller as it arrives, once the renewal is suppressed', async () => {
    let write = (_: string) => {}
    let end = () => {}
    await using server = await scripted((_, response) => {
      write = (text) => void response.write(text)
      end = () => void response.end()
      response.writeHead(401).write('one ')
    })
    const { dispatcher, renew, asked } = agentWithRenewal(server.url)
    const recorded = new RecordingHandler()
    const ended = recordedCall(dispatcher, server.url, recorded)
    await until(() => asked() === 1)
    renew(undefined)
    await until(() => recorded.body === 'one ')
    write('two ')
    await until(() => recorded.body === 'one two ')
    end()
    await ended
    expect(recorded.events).toEqual(['start', 'answer 401', 'end'])
  })

  it('is read to its end if the rest of it is small, and its connection is reused', async () => {
    const sockets = new Set<unknown>()
    let finish = () => {}
    await using server = await scripted((_, response, nth) => {
      sockets.add(response.socket)
      if (nth > 1) return void response.end('good')
      finish = () => void response.end('whole')
      response.writeHead(401, { 'content-length': 10 }).write('half ')
    })
    const { intercept, renew, asked } = agentWithRenewal(server.url)
    const dispatcher = autoDestroyed(new Agent({ connections: 1 })).compose(intercept)
    const answer = request(server.url, { dispatcher })
    await until(() => asked() === 1)
    renew(token('second.token'))
    await settled(20) // it is discarded now, and the second call waits for its connection
    finish()
    expect(await (await answer).body.text()).toBe('good')
    expect(sockets.size).toBe(1)
  })

  it('does not block the repeated call if it never ends', async () => {
    await using server = await scripted((_, response, nth) => {
      if (nth === 1) response.writeHead(401).write('half')
      else response.end('good')
    })
    const { intercept, renew } = agentWithRenewal(server.url)
    renew(token('second.token'))
    const dispatcher = autoDestroyed(new Agent({ connections: 1 })).compose(intercept)
    const { statusCode, body } = await request(server.url, { dispatcher })
    expect([statusCode, await body.text()]).toEqual([200, 'good'])
  })
})
