// undici handlers that throw, abort or pause in any callback: the call ends as it does without the token.
import { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import type { AccessToken } from 'merchant-auth'
import { type Dispatcher, errors } from 'undici'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Scripted, scripted } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { agentWith, createAuthDispatch } from './undici-calls.ts'

let server: Scripted
beforeAll(async () => {
  server = await scripted(({ headers, path }, response) => {
    const isRejected =
      path === '/rejected' || (path === '/once' && headers.authorization === 'Bearer first.token')
    response.writeHead(isRejected ? 401 : 200).end('answer')
  })
})
afterAll(() => server[Symbol.asyncDispose]())

const first = () => token('first.token')
const composed = (current: AccessToken | undefined, renewed: AccessToken | undefined): Dispatcher => {
  const given = { apiUrls: [server.url], renew: async () => renewed }
  return agentWith(createAuthDispatch(provided(current ? { ...given, current } : given)))
}

/** The ways in which a call reaches its response, and the path that leads to it. */
const WAYS: Record<string, [path: string, dispatcher: () => Dispatcher]> = {
  'with a token': ['/', () => composed(first(), undefined)],
  'that waits for a token': ['/', () => composed(undefined, undefined)],
  'whose caller gets the 401': ['/rejected', () => composed(first(), undefined)],
  'that waits, and whose caller gets the 401': ['/rejected', () => composed(undefined, undefined)],
  'that is made again after a 401': ['/once', () => composed(first(), token('second.token'))],
}

const CALLBACKS = [
  'onRequestStart',
  'onBodySent',
  'onRequestSent',
  'onResponseStarted',
  'onResponseStart',
  'onResponseData',
  'onResponseEnd',
]

type Act = (controller: Dispatcher.DispatchController) => void

const thrown = new Error('thrown by the handler')
const reason = new Error('aborted by the handler')
const raise = (): never => {
  throw thrown
}
const raiseAgain = (): never => raise()
let isPaused = false
const ACTS: Record<string, Act> = {
  throws: raise,
  'throws, then again in onResponseError,': raiseAgain,
  'aborts with a reason': (controller) => controller.abort(reason),
  'aborts without a reason': (controller) => controller.abort(undefined as never),
  'aborts and throws': (controller) => {
    controller.abort(reason)
    raise()
  },
  'pauses for a while': (controller) => {
    isPaused = true
    controller.pause()
    setImmediate(() => {
      isPaused = false
      controller.resume()
    })
  },
}

const BODIES: Record<string, () => string | Readable | null> = {
  'no body': () => null,
  'a body': () => 'body',
  'a stream': () => Readable.from([Buffer.from('once')]),
}

/** The outcome of a call whose handler acts in the callback `at`, and lacks the callback `missing`. */
async function outcomeOf(
  dispatcher: Dispatcher,
  options: object,
  { at, act, missing }: { at?: string; act?: Act; missing?: string },
) {
  const recorded: string[] = []
  const caught: unknown[] = []
  let last: Dispatcher.DispatchController | undefined
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  const handler = Object.fromEntries(
    [...CALLBACKS, 'onResponseError']
      .filter((name) => name !== missing)
      .map((name) => [
        name,
        (...args: [Dispatcher.DispatchController, unknown]) => {
          if (name === 'onRequestStart') [last] = [args[0], recorded.splice(0)] // a call that waits or is repeated starts twice
          recorded.push(isPaused && name === 'onResponseData' ? 'data while paused' : name)
          if (name === 'onResponseError') caught.push(args[1])
          if (name === 'onResponseEnd' || name === 'onResponseError') end()
          if (missing === 'onResponseEnd' && name === 'onResponseData') end()
          if (name === at && last !== undefined) act?.(last)
          if (name === 'onResponseError' && act === raiseAgain) raise()
        },
      ]),
  )
  const body = (options as { body: unknown }).body
  const returned = dispatcher.dispatch({ origin: server.url, ...options } as never, handler)
  await ended
  await dispatcher.close()
  await turn()
  return {
    returned,
    recorded,
    caught: caught.map((error) => (error === reason || error === thrown ? error : describeError(error))),
    aborted: last?.aborted,
    reason: last?.reason,
    destroyed: body instanceof Readable && body.destroyed,
    listeners: body instanceof Readable && body.listenerCount('error'),
  }
}
const describeError = (error: unknown) => [error instanceof errors.UndiciError, String(error)]

/** In the earlier callbacks, an error that onResponseError throws ends the process. */
const FROM_RESPONSE_START = CALLBACKS.slice(4)

const rows = Object.entries(ACTS).flatMap(([act, acts]) =>
  (acts === raiseAgain ? FROM_RESPONSE_START : CALLBACKS).flatMap((at) =>
    Object.keys(BODIES).map((body) => [act, at, body] as const),
  ),
)

describe.each(Object.entries(WAYS))('an undici call %s', (_, [path, make]) => {
  it.each(rows)(
    'ends as it does without the token if its handler %s in %s, with %s',
    async (act, at, kind) => {
      const call = (dispatcher: Dispatcher, plain: boolean) =>
        outcomeOf(
          dispatcher,
          { path: plain && path === '/once' ? '/' : path, method: 'POST', body: BODIES[kind]?.() },
          { at, act: ACTS[act] as Act },
        )
      expect(await call(make(), false)).toEqual(await call(agentWith(), true))
    },
  )

  // Undici 7 allows that, and undici 8 does not.
  it.each(CALLBACKS.slice(1))('calls the other callbacks if its handler has no %s', async (missing) => {
    const all = await outcomeOf(agentWith(), { path: path === '/once' ? '/' : path, method: 'GET' }, {})
    const some = await outcomeOf(make(), { path, method: 'GET' }, { missing })
    expect(some).toEqual({ ...all, recorded: all.recorded.filter((name) => name !== missing) })
  })
})
