/** What surrounds the client of a test: servers on loopback, a token endpoint that blocks, and what to wait for. */
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Server, Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'

export interface Listening extends AsyncDisposable {
  readonly url: string
}

/** Starts a server on a free port of the loopback; disposing it destroys its connections. */
export async function listening(server: Server, host = '127.0.0.1'): Promise<Listening> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => sockets.add(socket))
  // A thousand concurrent calls exceed the default backlog, and some would be reset.
  await new Promise<void>((resolve) => void server.listen({ port: 0, host, backlog: 4096 }, resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** A request that a scripted server received. */
export interface Seen {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly rawHeaders: readonly string[]
  readonly body: Buffer
}

export interface Scripted extends Listening {
  readonly seen: Seen[]
}

/** A server that responds as `answer` says and records its requests. */
export async function scripted(
  answer: (request: Seen, response: ServerResponse, nth: number) => unknown,
  host?: string,
): Promise<Scripted> {
  const seen: Seen[] = []
  const server = createServer({ keepAliveTimeout: 0 }, async (request, response) => {
    const body = await buffer(request).catch(() => Buffer.alloc(0))
    const { method = '', url: path = '', headers, rawHeaders } = request
    const one = { method, path, headers, rawHeaders, body }
    seen.push(one)
    await answer(one, response, seen.length)
  })
  return { ...(await listening(server, host)), seen }
}

/**
 * A port of 127.0.0.1 without a listener, that no server of another test file gets meanwhile: systems choose the ports
 * for `port: 0` from 32768 on.
 */
export async function closedPort(): Promise<number> {
  for (let tries = 0; tries < 20; tries += 1) {
    const port = randomInt(20_000, 32_000)
    const server = createServer().listen(port, '127.0.0.1')
    const listens = await once(server, 'listening').catch(() => undefined)
    if (listens === undefined) continue
    await new Promise((resolve) => server.close(resolve))
    return port
  }
  throw new Error('found no free port')
}

/** The real one: tests may replace the global one with fake timers. */
const { setTimeout: wait } = globalThis

/** Resolves as soon as the condition holds. */
export async function until(holds: () => boolean, limitMs = 50_000): Promise<void> {
  const endsAt = performance.now() + limitMs
  while (!holds()) {
    if (performance.now() > endsAt) throw new Error(`timed out: ${holds}`)
    await new Promise((resolve) => void wait(resolve, 1))
  }
}

/** Resolves with the rejection reason of a promise. */
export async function failureOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('the promise did not reject')
}

/** A `fetch` for a provider that blocks its token requests, from the nth on, until they are released. */
export function blockedFetch(from = 1): { readonly fetch: typeof fetch; count(): number; release(): void } {
  const gate = Promise.withResolvers<void>()
  let count = 0
  return {
    fetch: async (input, init) => {
      count += 1
      if (count >= from) await gate.promise
      return await fetch(input, init)
    },
    count: () => count,
    release: gate.resolve,
  }
}
