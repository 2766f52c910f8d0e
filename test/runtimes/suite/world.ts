/** What a check finds around itself: the service on loopback, other hosts, a clock that it moves, and a tidy end. */
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

/** A request as a host of ours got it. */
export interface Received {
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
  /** What the providers of this world told. */
  readonly events: readonly AuthEvent[]
  provider(options?: Partial<TokenProviderOptions>): TokenProvider
  /** Starts a host that answers everything alike. */
  host(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<Host>
}

/** Runs a check against a service of its own, and leaves nothing of it behind. */
export async function inWorld(run: (world: World) => Promise<void>): Promise<void> {
  const sandbox: Sandbox = await startSandbox()
  const ends: (() => Promise<unknown>)[] = []
  const events: AuthEvent[] = []
  const { environment, clientId, clientSecret } = sandbox.test
  try {
    await run({
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
      received.push({ path: request.url ?? '', headers, body: Buffer.concat(chunks).toString() })
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

/** A clock that stands until a check moves it. Sleepers sleep until they are told not to. */
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

/** Resolves as soon as the condition holds. */
export async function until(holds: () => boolean, limitMs = 50_000): Promise<void> {
  const endsAt = performance.now() + limitMs
  while (!holds()) {
    if (performance.now() > endsAt) throw new Error(`waited in vain: ${holds}`)
    await new Promise((resolve) => setTimeout(resolve, 1))
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
