/** What a scenario has around it: the service on loopback, other hosts, a clock of its own. No test runner is needed. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Server, Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import {
  type AuthEvent,
  type Clock,
  createTokenProvider,
  type TokenProvider,
  type TokenProviderOptions,
} from 'merchant-auth'
import { type Sandbox, type SandboxEnvironment, startSandbox } from 'merchant-auth/testing'

export interface World {
  readonly service: SandboxEnvironment
  /** What the providers of this world emitted. */
  readonly events: AuthEvent[]
  provider(options?: Partial<TokenProviderOptions>): TokenProvider
  /** Starts a server that is no part of the service. */
  host: typeof scripted
}

/** Runs something against a service of its own, and leaves nothing of it behind. */
export async function inWorld<T>(run: (world: World) => Promise<T>): Promise<T> {
  const sandbox: Sandbox = await startSandbox()
  const ends: (() => PromiseLike<unknown>)[] = []
  const events: AuthEvent[] = []
  const { environment, clientId, clientSecret } = sandbox.test
  try {
    return await run({
      service: sandbox.test,
      events,
      provider: (options = {}) => {
        const onEvent = (event: AuthEvent): void => {
          events.push(event)
        }
        const tokens = createTokenProvider({ environment, clientId, clientSecret, onEvent, ...options })
        ends.push(() => tokens.close())
        return tokens
      },
      host: async (answer) => {
        const server = await scripted(answer)
        ends.push(() => server[Symbol.asyncDispose]())
        return server
      },
    })
  } finally {
    for (const end of ends) await end()
    await sandbox.close()
  }
}

export interface Listening extends AsyncDisposable {
  readonly url: string
}

/** Starts a server of a test's own on a free port of the loopback; disposing it cuts its connections. */
export async function listening(server: Server, host = '127.0.0.1'): Promise<Listening> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => sockets.add(socket))
  // A thousand calls at once are more than wait by default, and some would be reset.
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
  readonly body: Buffer
}

export interface Scripted extends Listening {
  readonly seen: Seen[]
}

/** A server that answers as the test says, and remembers what it got. */
export async function scripted(
  answer: (request: Seen, response: ServerResponse, nth: number) => unknown,
  host?: string,
): Promise<Scripted> {
  const seen: Seen[] = []
  const server = createServer({ keepAliveTimeout: 0 }, async (request, response) => {
    const body = await buffer(request).catch(() => Buffer.alloc(0))
    const { method = '', url: path = '', headers } = request
    const one = { method, path, headers, body }
    seen.push(one)
    await answer(one, response, seen.length)
  })
  return { ...(await listening(server, host)), seen }
}

/** A port of 127.0.0.1 that nobody listens on. */
export async function closedPort(): Promise<number> {
  const server = await scripted(() => {})
  await server[Symbol.asyncDispose]()
  return Number(new URL(server.url).port)
}

/** A clock that stands until a test moves it. Sleepers wake only when their signal is aborted. */
export class MovedClock implements Clock {
  #ms = 1_000

  monotonicMs(): number {
    return this.#ms
  }

  epochMs(): number {
    return Date.UTC(2030, 0, 1) + this.#ms
  }

  sleep(_ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((_, reject) => {
      signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
    })
  }

  advance(ms: number): void {
    this.#ms += ms
  }
}

/** As it is before a test puts another one in its place. */
const { setTimeout: wait } = globalThis

/** Resolves as soon as the condition holds. */
export async function until(holds: () => boolean, limitMs = 50_000): Promise<void> {
  const endsAt = performance.now() + limitMs
  while (!holds()) {
    if (performance.now() > endsAt) throw new Error(`waited in vain: ${holds}`)
    await new Promise((resolve) => void wait(resolve, 1))
  }
}

/** What a promise rejects with. */
export async function failureOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('nothing was rejected')
}

/** A `fetch` for a provider whose token requests, from the nth on, wait until they are released. */
export function heldFetch(from = 1): { readonly fetch: typeof fetch; count(): number; release(): void } {
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

/** Lets everything run that is ready to. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}
