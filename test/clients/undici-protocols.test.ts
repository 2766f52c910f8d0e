// The token on undici’s other protocols: HTTP/2, and what a connection is upgraded to.
import { createServer, type Server } from 'node:http'
import { createServer as createHttp2Server } from 'node:http2'
import type { AddressInfo, Server as NetServer } from 'node:net'
import { H2CClient, request, upgrade } from 'undici'
import { describe, expect, it } from 'vitest'
import { until } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { agentWith, closing, createAuthDispatch, NotingHandler } from './undici-calls.ts'

async function listening(server: NetServer | Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

describe('over HTTP/2', () => {
  const size = 5 * 1024 * 1024
  const started = async (renewed: string | undefined) => {
    const seen: (string | undefined)[] = []
    const server = createHttp2Server((incoming, response) => {
      seen.push(incoming.headers.authorization)
      if (incoming.headers.authorization === 'Bearer second.token') return void response.end('good')
      response.writeHead(401, { 'x-a': 'b' })
      response.end(Buffer.alloc(size, 'x'))
    })
    const at = await listening(server)
    const tokens = provided({
      current: token('first.token'),
      apiUrls: [at],
      renew: async () => (renewed === undefined ? undefined : token(renewed)),
    })
    const dispatcher = closing(new H2CClient(at)).compose(createAuthDispatch(tokens))
    return { at, dispatcher, seen, server }
  }

  it('a 401 is answered by a repeat', async () => {
    const { at, dispatcher, seen, server } = await started('second.token')
    const { statusCode, body } = await dispatcher.request({
      origin: at,
      path: '/',
      method: 'POST',
      body: 'x',
    })
    expect([statusCode, await body.text()]).toEqual([200, 'good'])
    expect(seen).toEqual(['Bearer first.token', 'Bearer second.token'])
    await dispatcher.destroy()
    await new Promise((resolve) => server.close(resolve))
  })

  it('a 401 is handed out as fast as it is taken', async () => {
    const { at, dispatcher, server } = await started(undefined)
    const noted = new NotingHandler((controller) => {
      controller.pause()
      setImmediate(() => controller.resume())
    })
    dispatcher.dispatch({ origin: at, path: '/', method: 'GET' }, noted)
    await noted.ended
    expect([noted.events, noted.body.length]).toEqual([['start', 'answer 401', 'end'], size])
    await dispatcher.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
})

describe('an upgrade', () => {
  it('carries the token, is made again after a 401, and gives its socket', async () => {
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
    const at = await listening(server)
    const tokens = provided({ current: token('first.token'), apiUrls: [at] })
    const { socket } = await upgrade(at, {
      dispatcher: agentWith(createAuthDispatch(tokens)),
      protocol: 'echo',
    })
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk
    })
    await until(() => text === 'hello')
    expect(seen).toEqual(['Bearer first.token', 'Bearer second.token'])
    socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })

  it('is followed by plain calls', async () => {
    const server = createServer((_, response) => void response.end('plain'))
    const at = await listening(server)
    const tokens = provided({ current: token('first.token'), apiUrls: [at] })
    const { body } = await request(at, { dispatcher: agentWith(createAuthDispatch(tokens)) })
    expect(await body.text()).toBe('plain')
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
})
