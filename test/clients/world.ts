/** What a scenario has around it: the service on loopback, other hosts, a clock of its own. No test runner is needed. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import {
  type AuthEvent,
  type Clock,
  createTokenProvider,
  type TokenProvider,
  type TokenProviderOptions,
} from 'merchant-auth'
import { type Sandbox, type SandboxEnvironment, startSandbox } from 'merchant-auth/testing'

/** A request that a host of ours received. */
export interface Received {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** A server of ours that is no part of the service. */
export interface Host {
  readonly url: string
  readonly received: readonly Received[]
}

export interface World {
  readonly service: SandboxEnvironment
  /** What the providers of this world emitted. */
  readonly events: AuthEvent[]
  provider(options?: Partial<TokenProviderOptions>): TokenProvider
  /** Starts a host that answers everything alike. */
  host(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<Host>
}

/** Runs something against a service of its own, and leaves nothing of it behind. */
export async function inWorld<T>(run: (world: World) => Promise<T>): Promise<T> {
  const sandbox: Sandbox = await startSandbox()
  const ends: (() => Promise<unknown>)[] = []
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
        const { host, stop } = await startHost(answer)
        ends.push(stop)
        return host
      },
    })
  } finally {
    for (const end of ends) await end()
    await sandbox.close()
  }
}

async function startHost(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<{ host: Host; stop: () => Promise<unknown> }> {
  const received: Received[] = []
  const sockets = new Set<Socket>()
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const headers = request.headers as Record<string, string>
      const { method = '', url: path = '' } = request
      received.push({ method, path, headers, body: Buffer.concat(chunks).toString() })
      answer(request, response)
    })
  })
  server.on('connection', (socket: Socket) => sockets.add(socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const stop = (): Promise<unknown> => {
    for (const socket of sockets) socket.destroy()
    return new Promise((resolve) => server.close(resolve))
  }
  return { host: { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received }, stop }
}

/** A port of 127.0.0.1 that nobody listens on. */
export async function closedPort(): Promise<number> {
  const { host, stop } = await startHost(() => {})
  await stop()
  return Number(new URL(host.url).port)
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
