/** The environment of a scenario: the service on loopback, other hosts, and a manual clock. It needs no test runner. */
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
  /** The events that the providers of this world emitted. */
  readonly events: AuthEvent[]
  provider(options?: Partial<TokenProviderOptions>): TokenProvider
  /** Starts a server that is not part of the service. */
  host: typeof scripted
}

/** Runs a function against its own service, and closes everything afterwards. */
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
        const tokens = createTokenProvider({
          environment,
          clientId,
          clientSecret,
          onEvent,
          ...options,
        } as TokenProviderOptions)
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
    const { method = '', url: path = '', headers } = request
    const one = { method, path, headers, body }
    seen.push(one)
    await answer(one, response, seen.length)
  })
  return { ...(await listening(server, host)), seen }
}

/** A port of 127.0.0.1 without a listener. */
export async function closedPort(): Promise<number> {
  const server = await scripted(() => {})
  await server[Symbol.asyncDispose]()
  return Number(new URL(server.url).port)
}

/** A clock that stands still until a test advances it. A sleep ends only when its signal aborts. */
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

/** Runs everything that is ready to run. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}
