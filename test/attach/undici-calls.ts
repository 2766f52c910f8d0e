/** Helpers of the undici tests: dispatchers that are destroyed after each test, and a handler that records its callbacks. */
import type { AccessToken } from 'merchant-auth'
import { createAuthDispatch } from 'merchant-auth/undici'
import { Agent, type Dispatcher } from 'undici'
import { type Mock, onTestFinished, vi } from 'vitest'
import { provided, token } from '../support/provided.ts'
import { outcomes } from '../support/recorded.ts'
import type { Scripted } from './world.ts'

type Interceptor = Dispatcher.DispatcherComposeInterceptor

/** A dispatcher that is destroyed after the test. */
export function autoDestroyed<D extends Dispatcher>(dispatcher: D): D {
  onTestFinished(() => dispatcher.destroy())
  return dispatcher
}

/** An agent with these interceptors, the innermost first. */
export function agentWith(...interceptors: Interceptor[]): Dispatcher {
  return autoDestroyed(new Agent()).compose(...interceptors)
}

/** The token on undici, for this API: `first.token`, which is renewed to `second.token`. */
export function authFor(
  { url }: Pick<Scripted, 'url'>,
  given: Parameters<typeof provided>[0] = {},
  attach = {},
): Interceptor {
  return createAuthDispatch(provided({ current: token('first.token'), apiUrls: [url], ...given }), attach)
}

/** An agent whose calls wait for a token until the test calls `give`; then these interceptors get them. */
export function agentThatWaits(apiUrl: string, ...others: Interceptor[]) {
  const { promise, resolve: give } = Promise.withResolvers<AccessToken>()
  const auth = createAuthDispatch(provided({ apiUrls: [apiUrl], get: () => promise }))
  return { dispatcher: agentWith(...others, auth), give: () => give(token('late.token')) }
}

/**
 * An agent with one connection, and a renewal that ends when the test calls `renew`. These interceptors get what the token
 * dispatches.
 */
export function agentWithRenewal(api: Pick<Scripted, 'url'>, ...others: Interceptor[]) {
  const { promise, resolve: renew } = Promise.withResolvers<AccessToken | undefined>()
  let asked = false
  const auth = authFor(api, {
    renew: () => {
      asked = true
      return promise
    },
  })
  const dispatcher = autoDestroyed(new Agent({ connections: 1 })).compose(...others, auth)
  return { dispatcher, renew, isAsked: () => asked }
}

/** An interceptor that sends nothing: the test plays the dispatcher. The attempts, with their controllers. */
export function playedBy(attempts: Played[]): Interceptor {
  return () => (_, handler) => {
    const controller = { abort: vi.fn(), pause: vi.fn(), resume: vi.fn() } as unknown as PlayedController
    attempts.push({ controller, handler })
    handler.onRequestStart?.(controller, {})
    return true
  }
}

type PlayedController = Dispatcher.DispatchController & { readonly abort: Mock }

export interface Played {
  readonly controller: PlayedController
  readonly handler: Dispatcher.DispatchHandler
}

/** The tokens that a server has received. */
export const tokensAt = (server: Scripted) => server.seen.map(({ headers }) => headers.authorization)

/** A handler that records its callbacks in order. */
export class RecordingHandler implements Dispatcher.DispatchHandler {
  readonly events: string[] = []
  controller: Dispatcher.DispatchController | undefined
  error: (Error & { code?: string }) | undefined
  body = ''
  readonly #end = Promise.withResolvers<void>()
  readonly ended = this.#end.promise

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller
    this.events.push('start')
    outcomes.push(controller)
  }

  onResponseStart(_: unknown, status: number, headers: Record<string, unknown>): void {
    this.events.push(`answer ${status}`)
    outcomes.push(headers)
  }

  onResponseData(_: unknown, chunk: Buffer): void {
    this.body += chunk.toString('latin1')
  }

  onResponseEnd(): void {
    this.events.push('end')
    this.#end.resolve()
  }

  onResponseError(_: unknown, error: Error): void {
    this.error = error
    this.events.push('error')
    outcomes.push(error)
    this.#end.resolve()
  }
}

/** Starts a call. */
export function startCall(
  dispatcher: Dispatcher,
  url: string,
  options: Partial<Dispatcher.DispatchOptions> = {},
  handler = new RecordingHandler(),
): RecordingHandler {
  const { origin, pathname: path } = new URL(url)
  dispatcher.dispatch({ origin, path, method: 'GET', ...options }, handler)
  return handler
}
