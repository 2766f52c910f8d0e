// The token on undici’s other protocols: HTTP/2 and upgraded connections.
import { createServer } from 'node:http'
import { createServer as createHttp2Server } from 'node:http2'
import { H2CClient, upgrade } from 'undici'
import { describe, expect, it } from 'vitest'
import { listening, until } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import {
  agentWithToken,
  autoDestroyed,
  createAuthDispatch,
  RecordingHandler,
  recordedCall,
} from './undici-calls.ts'

describe('an undici call over HTTP/2', () => {
  const size = 5 * 1024 * 1024
  const started = async (renewed: string | undefined) => {
    const seen: (string | undefined)[] = []
    const server = createHttp2Server((incoming, response) => {
      seen.push(incoming.headers.authorization)
      if (incoming.headers.authorization === 'Bearer second.token') return void response.end('good')
      response.writeHead(401, { 'x-a': 'b' })
      response.end(Buffer.alloc(size, 'x'))
    })
    const { url, [Symbol.asyncDispose]: close } = await listening(server)
    const renew = async () => (renewed === undefined ? undefined : token(renewed))
    const tokens = provided({ current: token('first.token'), apiUrls: [url], renew })
    const dispatcher = autoDestroyed(new H2CClient(url)).compose(createAuthDispatch(tokens))
    return { url, dispatcher, seen, [Symbol.asyncDispose]: close }
  }

  it('is repeated with a new token after a 401', async () => {
    await using server = await started('second.token')
    const call = { origin: server.url, path: '/', method: 'POST', body: 'x' } as const
    const { statusCode, body } = await server.dispatcher.request(call)
    expect([statusCode, await body.text()]).toEqual([200, 'good'])
    expect(server.seen).toEqual(['Bearer first.token', 'Bearer second.token'])
  })

  it('passes the whole 401 to a handler that pauses after each chunk', async () => {
    await using server = await started(undefined)
    const recorded = new RecordingHandler((controller) => {
      controller.pause()
      setImmediate(() => controller.resume())
    })
    await recordedCall(server.dispatcher, server.url, recorded)
    expect([recorded.events, recorded.body.length]).toEqual([['start', 'answer 401', 'end'], size])
  })
})

describe('an undici upgrade', () => {
  it('carries the token, is repeated after a 401, and returns its socket', async () => {
    const seen: (string | undefined)[] = []
    const server = createServer((incoming, response) => {
      seen.push(incoming.headers.authorization)
      response.writeHead(401).end()
    })
    server.on('upgrade', (incoming, socket) => {
      seen.push(incoming.headers.authorization)
      if (seen.length === 1) return void socket.end('HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n')
      socket.end('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nhello')
    })
    await using upgrading = await listening(server)
    const dispatcher = agentWithToken({ apiUrls: [upgrading.url] })
    const { socket } = await upgrade(upgrading.url, { dispatcher, protocol: 'echo' })
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk
    })
    await until(() => text === 'hello')
    expect(seen).toEqual(['Bearer first.token', 'Bearer second.token'])
    socket.destroy()
  })
})
