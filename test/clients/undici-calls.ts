/** Helpers of the undici tests: dispatchers that are destroyed after each test, and handlers that record their callbacks. */
import type { AccessToken } from 'merchant-auth'
import { createAuthDispatch } from 'merchant-auth/undici'
import { Agent, type Dispatcher } from 'undici'
import { afterEach } from 'vitest'
import { provided, token } from '../support/provided.ts'
import { outcomes } from '../support/recorded.ts'

export { createAuthDispatch }

type Interceptor = Dispatcher.DispatcherComposeInterceptor

const open: Dispatcher[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((dispatcher) => dispatcher.destroy()))
})

/** A dispatcher that is destroyed after the test. */
export function autoDestroyed<D extends Dispatcher>(dispatcher: D): D {
  open.push(dispatcher)
  return dispatcher
}

/** An agent with these interceptors, the innermost first. */
export function agentWith(...interceptors: Interceptor[]): Dispatcher {
  return autoDestroyed(new Agent()).compose(...interceptors)
}

/** An interceptor that records the options of each dispatch. */
export function recordingInterceptor(seen: Dispatcher.DispatchOptions[]): Interceptor {
  return (dispatch) => (options, handler) => {
    seen.push(options)
    return dispatch(options, handler)
  }
}

/** A handler that records its callbacks in order. */
export class RecordingHandler implements Dispatcher.DispatchHandler {
  readonly events: string[] = []
  controller: Dispatcher.DispatchController | undefined
  error: (Error & { code?: string }) | undefined
  body = ''
  trailers: unknown
  status = 0
  readonly ended: Promise<void>
  readonly onChunk: ((controller: Dispatcher.DispatchController) => void) | undefined
  #end: () => void = () => {}

  constructor(onChunk?: (controller: Dispatcher.DispatchController) => void) {
    this.onChunk = onChunk
    this.ended = new Promise((resolve) => {
      this.#end = resolve
    })
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller
    this.events.push('start')
  }

  onResponseStart(_: unknown, status: number, headers: Record<string, unknown>): void {
    this.status = status
    this.events.push(`answer ${status}`)
    outcomes.push(headers)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.body += chunk.toString('latin1')
    this.onChunk?.(controller)
  }

  onResponseEnd(_: unknown, trailers: unknown): void {
    this.trailers = trailers
    this.events.push('end')
    this.#end()
  }

  onResponseError(_: unknown, error: Error): void {
    this.error = error
    this.events.push('error')
    outcomes.push(error)
    this.#end()
  }
}

/** An agent with the token of a custom provider, which has a cached token unless the test says otherwise. */
export function agentWithToken(given: Parameters<typeof provided>[0], above: Interceptor[] = []): Dispatcher {
  return agentWith(...above, createAuthDispatch(provided({ current: token('first.token'), ...given })))
}

/** Makes a call with a recording handler. Resolves when the call has ended. */
export async function recordedCall(dispatcher: Dispatcher, url: string, recorded = new RecordingHandler()) {
  const { origin, pathname: path } = new URL(url)
  dispatcher.dispatch({ origin, path, method: 'GET' }, recorded)
  await recorded.ended
  return recorded
}

/** An agent whose renewal settles when the test calls `renew` or `rejectRenewal`. */
export function agentWithRenewal(apiUrl: string) {
  const { promise, resolve: renew, reject: rejectRenewal } = Promise.withResolvers<AccessToken | undefined>()
  promise.catch(() => {}) // it may reject before a call asks for it
  let asked = 0
  const renewal = () => {
    asked += 1
    return promise
  }
  const tokens = provided({ current: token('first.token'), apiUrls: [apiUrl], renew: renewal })
  const intercept = createAuthDispatch(tokens)
  return { intercept, dispatcher: agentWith(intercept), renew, rejectRenewal, asked: () => asked }
}

export const ORIGIN = 'http://api.example'
export const providerWithToken = () =>
  provided({ current: token('the.one.token'), apiUrls: [`${ORIGIN}/merchant`] })

/** What the interceptor dispatches to undici for a call with these options. Nothing is sent. */
export function dispatched(options: object, tokens = providerWithToken(), attach = {}) {
  const seen: { options: Dispatcher.DispatchOptions; handler: Dispatcher.DispatchHandler }[] = []
  const dispatch = createAuthDispatch(
    tokens,
    attach,
  )((given: never, handler: never) => {
    seen.push({ options: given, handler })
    return false
  }) as unknown as Dispatcher['dispatch']
  const handler = new RecordingHandler()
  const returned = dispatch(
    { origin: ORIGIN, path: '/merchant/x', method: 'GET', ...options } as Dispatcher.DispatchOptions,
    handler,
  )
  const [first] = seen
  return { seen, returned, handler, headers: first?.options.headers, options: first?.options, first }
}
