/** A network that answers at once and costs next to nothing: for axios, for fetch and for undici. */
import { AxiosError, AxiosHeaders, type AxiosResponse, type InternalAxiosRequestConfig } from 'axios'
import type { Dispatcher } from 'undici'
import type { Contender, Transport } from '../contender.ts'

/** Decides on the status of a call; `authorization` reads the header that it carries. */
export type Answer = (authorization: () => string) => number | Promise<number>

/** Makes one for a kind of client. */
export async function createTransport(client: Contender['client'], answer: Answer): Promise<Transport> {
  const dispatcher = client === 'undici' ? await createDispatcher(answer) : undefined
  return {
    adapter: (config) => {
      const status = answer(() => String(AxiosHeaders.from(config.headers).get('authorization') ?? ''))
      return typeof status === 'number'
        ? settled(config, status)
        : status.then((later) => settled(config, later))
    },
    fetch: async (input, init) => {
      const headers = init?.headers ?? (input instanceof Request ? input.headers : undefined)
      const status = await answer(() => new Headers(headers).get('authorization') ?? '')
      return new Response(null, { status })
    },
    get dispatcher(): Dispatcher {
      if (dispatcher === undefined) throw new TypeError(`There is no dispatcher for a client of ${client}`)
      return dispatcher
    },
  }
}

/** As axios' own adapters do: a status that the config does not allow is an error. */
function settled(config: InternalAxiosRequestConfig, status: number): Promise<AxiosResponse> {
  const response = { data: '', status, statusText: '', headers: {}, config, request: undefined }
  if (config.validateStatus?.(status) ?? true) return Promise.resolve(response)
  const message = `Request failed with status code ${status}`
  return Promise.reject(
    new AxiosError(message, AxiosError.ERR_BAD_REQUEST, config, undefined, {
      ...response,
      headers: new AxiosHeaders(),
    }),
  )
}

async function createDispatcher(answer: Answer): Promise<Dispatcher> {
  const { Dispatcher } = await import('undici')
  const controller: Dispatcher.DispatchController = {
    aborted: false,
    paused: false,
    reason: null,
    abort() {},
    pause() {},
    resume() {},
  }
  class Stub extends Dispatcher {
    override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
      handler.onRequestStart?.(controller, {})
      const status = answer(
        () => new Headers(options.headers as Record<string, string>).get('authorization') ?? '',
      )
      const respond = (code: number): void => {
        handler.onResponseStart?.(controller, code, {}, '')
        handler.onResponseEnd?.(controller, {})
      }
      if (typeof status === 'number') queueMicrotask(() => respond(status))
      else status.then(respond)
      return true
    }
  }
  return new Stub()
}
