// A 401 of undici's that is held back: handed out as it came, or dropped.
import type { Socket } from 'node:net'
import { Agent, request } from 'undici'
import { describe, expect, it } from 'vitest'
import { settled } from '../support/clock.ts'
import { scripted, until } from '../support/ground.ts'
import { token } from '../support/provided.ts'
import { closing, NotingHandler, notedCall, renewing } from './undici-calls.ts'

describe('a 401 that is held back', () => {
  it.each<[string, string | undefined]>([
    ['fails', 'error'],
    ['is suppressed', undefined],
    ['yields the same token', 'first.token'],
  ])('is handed out as it came when the renewal %s', async (_, renewed) => {
    await using server = await scripted((__, response) => {
      response.writeHead(401, { 'x-a': ['b', 'c'], trailer: 'x-t', 'transfer-encoding': 'chunked' })
      response.write('the API’s ')
      response.addTrailers({ 'x-t': 'tail' })
      response.end('own')
    })
    const { dispatcher, renew, rejectRenewal } = renewing(server.url)
    if (renewed === 'error') rejectRenewal(new Error('no renewal'))
    else renew(renewed === undefined ? undefined : token(renewed))
    const { statusCode, headers, body, trailers } = await request(server.url, { dispatcher })
    expect([statusCode, await body.text(), trailers]).toEqual([401, 'the API’s own', { 'x-t': 'tail' }])
    expect(headers['x-a']).toEqual(['b', 'c'])
    expect(server.seen).toHaveLength(1)
  })

  it.each(['HEAD', 'GET'] as const)('without a body is handed out, too: %s', async (method) => {
    await using server = await scripted((_, response) => void response.writeHead(401).end())
    const { dispatcher, renew, asked } = renewing(server.url)
    const answer = request(server.url, { method, dispatcher })
    await until(() => asked() === 1)
    renew(undefined)
    const { statusCode, body } = await answer
    expect([statusCode, await body.text()]).toEqual([401, ''])
  })

  it('is held back without being read into memory, and then flows as fast as it is taken', async () => {
    const size = 20 * 1024 * 1024
    let socket: Socket | undefined
    await using server = await scripted((_, response) => {
      socket = response.socket ?? undefined
      response.writeHead(401, { 'content-length': size }).end(Buffer.alloc(size, 'x'))
    })
    const { dispatcher, renew, asked } = renewing(server.url)
    let pauses = 0
    const noted = new NotingHandler((controller) => {
      pauses += 1
      controller.pause()
      setImmediate(() => controller.resume())
    })
    const over = notedCall(dispatcher, server.url, noted)
    await until(() => asked() === 1)
    await new Promise((resolve) => setTimeout(resolve, 50)) // time in which all of it would arrive
    expect(socket?.writableLength).toBeGreaterThan(0)
    expect(noted.events).toEqual(['start'])
    renew(undefined)
    await over
    expect(noted.events).toEqual(['start', 'answer 401', 'end'])
    expect(noted.body.length).toBe(size)
    expect(pauses).toBeGreaterThan(10)
  })

  it.each(['held', 'handed out'])(
    'that breaks off while it is %s is handed out as far as it came',
    async (when) => {
      const [written, broken] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      let breakOff = () => {}
      await using server = await scripted((_, response) => {
        response.socket?.on('close', broken.resolve)
        breakOff = () => void response.destroy()
        response.writeHead(401, { 'content-length': 10 }).write('half ', () => written.resolve())
      })
      const { dispatcher, renew, asked } = renewing(server.url)
      const noted = new NotingHandler(() => breakOff())
      const over = notedCall(dispatcher, server.url, noted)
      await Promise.all([written.promise, until(() => asked() === 1)])
      if (when === 'held') {
        breakOff()
        await broken.promise
        await settled(20)
      }
      renew(undefined)
      await over
      expect([noted.events, noted.body]).toEqual([['start', 'answer 401', 'error'], 'half '])
      expect(noted.error?.code).toBe('UND_ERR_SOCKET')
    },
  )

  it.each<[string, number, number]>([
    ['read to its end, when it is small: its connection is used again', 1024, 1],
    ['cut off, when it is large', 5 * 1024 * 1024, 2],
    ['cut off, when it says that it is large', -5 * 1024 * 1024, 2],
  ])('that is not handed out is %s', async (_, size, connections) => {
    const sockets = new Set<unknown>()
    await using server = await scripted((_, response, nth) => {
      sockets.add(response.socket)
      if (nth > 1) return void response.end('good')
      response.writeHead(401, size < 0 ? { 'content-length': -size } : { 'transfer-encoding': 'chunked' })
      response.end(Buffer.alloc(Math.abs(size)))
    })
    const { intercept, renew } = renewing(server.url)
    renew(token('second.token'))
    const dispatcher = closing(new Agent({ connections: 1 })).compose(intercept)
    const { body } = await request(server.url, { dispatcher })
    expect(await body.text()).toBe('good')
    expect(sockets.size).toBe(connections)
  })

  it('that is dropped, and never ends, holds up nothing for long', async () => {
    await using server = await scripted((_, response, nth) => {
      if (nth === 1) response.writeHead(401).write('half')
      else response.end('good')
    })
    const { intercept, renew } = renewing(server.url)
    renew(token('second.token'))
    const dispatcher = closing(new Agent({ connections: 1 })).compose(intercept)
    const { statusCode, body } = await request(server.url, { dispatcher })
    expect([statusCode, await body.text()]).toEqual([200, 'good'])
  })
})
