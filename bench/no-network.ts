/** Everything on loopback or in memory: a token endpoint, and what takes the place of the network behind each client. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Dispatcher } from 'undici'
import type { Service, Transport } from './contender.ts'

/** As long as a signed token of a usual size. */
const TOKEN = `${'e'.repeat(60)}.${'y'.repeat(600)}.${'s'.repeat(342)}`

/** A service with a token endpoint that answers everyone, and an API that is not there. */
export async function startTokenEndpoint(): Promise<{ service: Service; close: () => Promise<void> }> {
  const body = JSON.stringify({
    access_token: TOKEN,
    expires_in: 86_400,
    scope: 'merchant',
    token_type: 'Bearer',
  })
  const server = createServer((request, response) => {
    request.resume()
    // No connection is kept: its end would go unseen while a measurement keeps the event loop busy.
    response.writeHead(200, { 'content-type': 'application/json', connection: 'close' }).end(body)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const authUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    service: {
      authUrl,
      audience: 'https://api.example.com/',
      clientId: 'bench',
      clientSecret: 'not-a-real-secret',
      apiUrl: 'http://127.0.0.1:9/v1',
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** What a stub waits for before it answers. By default nothing. */
type Arrive = () => Promise<void> | undefined

export interface StubOptions {
  /** `ready`: every call gets the same Response; `built`: each gets one of its own. */
  readonly response?: 'ready' | 'built'
  readonly arrive?: Arrive
}

/** Each contender gets a transport of its own, since some of them write to the Response that they get. */
export function stubTransport({ response = 'ready', arrive }: StubOptions = {}): Transport {
  const readyResponse = new Response(null)
  return {
    adapter: arrive
      ? async (config) => {
          await arrive()
          return { data: '', status: 200, statusText: 'OK', headers: {}, config }
        }
      : async (config) => ({ data: '', status: 200, statusText: 'OK', headers: {}, config }),
    fetch: stubFetch(response === 'ready' ? () => readyResponse : () => new Response(null), arrive),
    dispatcher: new StubDispatcher(),
  }
}

function stubFetch(answer: () => Response, arrive: Arrive | undefined): typeof fetch {
  if (!arrive) return async () => answer()
  return async () => {
    await arrive()
    return answer()
  }
}

class StubDispatcher extends Dispatcher {
  override dispatch(_options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const controller = new StubController()
    handler.onRequestStart?.(controller, undefined)
    queueMicrotask(() => {
      handler.onResponseStart?.(controller, 200, {}, 'OK')
      handler.onResponseEnd?.(controller, {})
    })
    return true
  }

  override close(): Promise<void>
  override close(callback: () => void): void
  override close(callback?: () => void): Promise<void> | undefined {
    if (!callback) return Promise.resolve()
    callback()
    return undefined
  }
}

class StubController implements Dispatcher.DispatchController {
  readonly aborted = false
  readonly paused = false
  readonly reason = null
  abort(): void {}
  pause(): void {}
  resume(): void {}
}

/** Holds calls until a given number of them has arrived, so that so many are in flight at once. */
export class Gate {
  #size = 1
  #waiting: (() => void)[] = []

  /** For the next calls, while nothing is in flight. */
  setSize(size: number): void {
    this.#size = size
  }

  /** Each call waits for a promise of its own, so that a call costs the same here in a small batch as in a large one. */
  readonly arrive = (): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.push(resolve)
    if (this.#waiting.length === this.#size) {
      const arrived = this.#waiting
      this.#waiting = []
      for (const answer of arrived) answer()
    }
    return promise
  }
}
