/** What the tests of undici share: dispatchers that are closed after each test, and handlers that note what they get. */
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

/** Has a dispatcher destroyed after the test. */
export function closing<D extends Dispatcher>(dispatcher: D): D {
  open.push(dispatcher)
  return dispatcher
}

/** An agent with these interceptors, the innermost first. */
export function agentWith(...interceptors: Interceptor[]): Dispatcher {
  return closing(new Agent()).compose(...interceptors)
}

/** An interceptor that notes what reaches it. */
export function noting(seen: Dispatcher.DispatchOptions[]): Interceptor {
  return (dispatch) => (options, handler) => {
    seen.push(options)
    return dispatch(options, handler)
  }
}

/** A handler that notes what it gets, in order. */
export class NotingHandler implements Dispatcher.DispatchHandler {
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

/** An agent with the token of a provider that does what the test says, and which has one already. */
export function agentFor(given: Parameters<typeof provided>[0], above: Interceptor[] = []): Dispatcher {
  return agentWith(...above, createAuthDispatch(provided({ current: token('first.token'), ...given })))
}

/** Makes a call, whose handler notes what it gets. Resolves when it is over. */
export async function notedCall(dispatcher: Dispatcher, url: string, noted = new NotingHandler()) {
  const { origin, pathname: path } = new URL(url)
  dispatcher.dispatch({ origin, path, method: 'GET' }, noted)
  await noted.ended
  return noted
}

/** An agent whose first token is renewed when the test says so. */
export function renewing(apiUrl: string) {
  const { promise, resolve: renew, reject: rejectRenewal } = Promise.withResolvers<AccessToken | undefined>()
  promise.catch(() => {}) // it may be settled before it is asked for
  let asked = 0
  const renewal = () => {
    asked += 1
    return promise
  }
  const tokens = provided({ current: token('first.token'), apiUrls: [apiUrl], renew: renewal })
  const intercept = createAuthDispatch(tokens)
  return { intercept, dispatcher: agentWith(intercept), renew, rejectRenewal, asked: () => asked }
}

export const at = 'http://api.example'
export const held = () => provided({ current: token('the.one.token'), apiUrls: [`${at}/merchant`] })

/** What reaches undici when a call with these options is made, without sending it. */
export function passedOn(options: object, tokens = held(), attach = {}) {
  const seen: { options: Dispatcher.DispatchOptions; handler: Dispatcher.DispatchHandler }[] = []
  const dispatch = createAuthDispatch(
    tokens,
    attach,
  )((given: never, handler: never) => {
    seen.push({ options: given, handler })
    return false
  }) as unknown as Dispatcher['dispatch']
  const handler = new NotingHandler()
  const returned = dispatch(
    { origin: at, path: '/merchant/x', method: 'GET', ...options } as Dispatcher.DispatchOptions,
    handler,
  )
  const [first] = seen
  return { seen, returned, handler, headers: first?.options.headers, options: first?.options, first }
}
