/** A network that answers at once and costs next to nothing, for axios, fetch and undici. */
import { AxiosError, AxiosHeaders, type AxiosResponse, type InternalAxiosRequestConfig } from 'axios'
import { Dispatcher } from 'undici'
import type { Transport } from './contenders/contender.ts'

/** Decides on the status of a call; `authorization` reads the header that the call carries. */
type Answer = (authorization: () => string) => number | Promise<number>

/** Each contender gets a stub of its own. */
export function stubTransport(answer: Answer = () => 200): Transport {
  return {
    axios: {
      adapter: (config) => {
        const status = answer(() => String(AxiosHeaders.from(config.headers).get('authorization') ?? ''))
        return typeof status === 'number'
          ? settled(config, status)
          : status.then((later) => settled(config, later))
      },
    },
    fetch: async (input, init) => {
      const status = answer(() => {
        const headers = init?.headers ?? (input instanceof Request ? input.headers : undefined)
        return new Headers(headers).get('authorization') ?? ''
      })
      return new Response(null, { status: typeof status === 'number' ? status : await status })
    },
    dispatcher: new StubDispatcher(answer),
  }
}

/** As axios' own adapters do: a status that the config does not allow is an error. */
function settled(config: InternalAxiosRequestConfig, status: number): Promise<AxiosResponse> {
  const response = { data: '', status, statusText: '', headers: {}, config }
  if (config.validateStatus?.(status) ?? true) return Promise.resolve(response)
  const message = `Request failed with status code ${status}`
  const rejected = { ...response, headers: new AxiosHeaders() }
  return Promise.reject(new AxiosError(message, AxiosError.ERR_BAD_REQUEST, config, undefined, rejected))
}

class StubDispatcher extends Dispatcher {
  readonly #answer: Answer

  constructor(answer: Answer) {
    super()
    this.#answer = answer
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const controller = new StubController()
    handler.onRequestStart?.(controller, {})
    const status = this.#answer(
      () => new Headers(options.headers as Record<string, string>).get('authorization') ?? '',
    )
    const respond = (code: number): void => {
      try {
        handler.onResponseStart?.(controller, code, {}, '')
        handler.onResponseEnd?.(controller, {})
      } catch (error) {
        handler.onResponseError?.(controller, error as Error) // as undici does: its RetryHandler relies on it
      }
    }
    if (typeof status === 'number') queueMicrotask(() => respond(status))
    else status.then(respond)
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

/** Answers no call before `size` of them have arrived. Each call waits for a promise of its own, however large the batch is. */
export function gate(size: number): Answer {
  let waiting: ((status: number) => void)[] = []
  return () => {
    const { promise, resolve } = Promise.withResolvers<number>()
    waiting.push(resolve)
    if (waiting.length === size) {
      const arrived = waiting
      waiting = []
      for (const answer of arrived) answer(200)
    }
    return promise
  }
}
