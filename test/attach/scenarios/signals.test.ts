// Callers of every client that abort their call, in every phase of it, and the listeners on their signals.
import { EventEmitter, getEventListeners } from 'node:events'
import { CanceledError } from 'axios'
import { createAuthFetch, type TokenProvider } from 'merchant-auth'
import { describe, expect, it, onTestFinished } from 'vitest'
import { untilAborted } from '../../../src/base/waiting.ts'
import { settled } from '../../support/clock.ts'
import { apiAt, rejectionOf, scripted, until, useGround } from '../../support/ground.ts'
import { provided, token } from '../../support/provided.ts'
import { granted, MERCHANT_URL, rig } from '../../token/harness.ts'
import { answering } from '../axios-fakes.ts'
import { CLIENTS } from '../conform.ts'
import { axiosWith } from '../drivers.ts'
import { blockedFetch } from '../world.ts'

const ground = useGround()

const rejections = () => ground.events.filter(({ type }) => type === 'token-rejected').length

/** An API and a provider, one of which blocks each call to `/mine` in a phase of the call. */
async function blocking({ rejects = false, token = Infinity, send = Infinity }) {
  const gate = Promise.withResolvers<void>()
  const blocked = blockedFetch(token)
  let first: string | undefined
  const api = await scripted(async ({ path, headers: { authorization } }, response) => {
    first ??= authorization
    const sends = api.seen.filter((one) => one.path === '/mine').length
    if (path === '/mine' && sends >= send) await gate.promise
    response.writeHead(rejects && authorization === first ? 401 : 200, { 'content-length': '0' }).end()
  })
  onTestFinished(() => api[Symbol.asyncDispose]())
  const tokens = ground.provider({ environment: apiAt(ground.env, api.url), fetch: blocked.fetch })
  const sends = (): number => api.seen.filter(({ path }) => path === '/mine').length
  return {
    tokens,
    url: api.url,
    /** The token requests, and the sends of the call to `/mine`. */
    costs: () => [blocked.count(), sends()],
    release: () => {
      gate.resolve()
      blocked.release()
    },
  }
}

const PHASES: [phase: string, blocks: Parameters<typeof blocking>[0], tokens: number, sends: number][] = [
  ['its first token', { token: 1 }, 1, 0],
  ['the API', { send: 1 }, 1, 1],
  ['the renewal', { rejects: true, token: 2 }, 2, 1],
  ['the API to answer its second send', { rejects: true, send: 2 }, 2, 2],
]

describe.each(CLIENTS)('$name', ({ create, isAbort }) => {
  it.each(PHASES)('ends only the aborted call while it waits for %s', async (_, blocks, tokens, sends) => {
    const phase = await blocking(blocks)
    const send = create(phase.tokens)
    const [caller, reason] = [new AbortController(), new Error('the customer has gone')]
    const mine = rejectionOf(send({ url: `${phase.url}/mine`, signal: caller.signal }))
    const other = send({ url: `${phase.url}/other` })
    await until(() => phase.costs().join() === `${tokens},${sends}`)
    if (blocks.rejects) await until(() => rejections() === 2)
    await settled()
    caller.abort(reason)
    expect(isAbort(await mine, reason)).toBe(true)
    phase.release()
    expect((await other).status).toBe(200)
    expect(phase.costs()).toEqual([tokens, sends])
  })

  it.each(['without', 'with'])(
    'sends nothing if its signal is aborted, %s a cached token',
    async (cached) => {
      if (cached === 'with') await ground.tokens.getToken()
      const [signal, before] = [AbortSignal.abort(new Error('gone')), ground.env.counts.token]
      const error = await rejectionOf(create(ground.tokens)({ url: ground.env.merchantUrl, signal }))
      expect(isAbort(error, signal.reason)).toBe(true)
      expect([ground.env.counts.token, ground.sent().length]).toEqual([before, 0])
    },
  )

  it('is ended by AbortSignal.timeout while it waits for a token', async () => {
    const phase = await blocking({ token: 1 })
    const signal = AbortSignal.timeout(1)
    const error = await rejectionOf(create(phase.tokens)({ url: phase.url, signal }))
    expect(isAbort(error, signal.reason)).toBe(true)
    phase.release()
  })
})

/** Clients of an API that responds in memory, so that only this package adds listeners to the signal. */
const IN_MEMORY = {
  axios: (tokens: TokenProvider, statusFor: (authorization: unknown) => number) => {
    const api = axiosWith(tokens, {
      adapter: (config) => answering([{ status: statusFor(config.headers.get('authorization')) }])(config),
    })
    return (signal: AbortSignal) => api.get(MERCHANT_URL, { signal })
  },
  fetch: (tokens: TokenProvider, statusFor: (authorization: unknown) => number) => {
    const send = createAuthFetch(tokens, {
      fetch: async (_, init) =>
        new Response(null, { status: statusFor(new Headers(init?.headers).get('authorization')) }),
    })
    return (signal: AbortSignal) => send(MERCHANT_URL, { signal })
  },
}

it.each(['axios', 'fetch'] as const)(
  'a signal of 200 calls has one listener while they wait and none afterwards: %s',
  async (client) => {
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const
    const { provider, endpoint, events } = rig(
      gates.map(
        ({ promise }) =>
          () =>
            promise.then(() => granted()({})),
      ),
    )
    let first: unknown
    const call = IN_MEMORY[client](provider, (authorization) => {
      first ??= authorization
      return authorization === first ? 401 : 200
    })
    const { signal } = new AbortController()
    const calls = Array.from({ length: 200 }, () => call(signal))
    const listeners = () => getEventListeners(signal, 'abort').length
    await until(() => endpoint.count === 1)
    expect(listeners()).toBe(1)
    gates[0].resolve()
    await until(() => events.filter(({ type }) => type === 'token-rejected').length === 200)
    await settled()
    expect(listeners()).toBe(1)
    gates[1].resolve()
    expect(new Set((await Promise.all(calls)).map(({ status }) => status))).toEqual(new Set([200]))
    expect([listeners(), endpoint.count]).toEqual([0, 2])
  },
)

/** The parts of an abort controller of another package. */
interface ForeignController {
  readonly signal: AbortSignal
  abort(): void
}

/** Signals as packages for older runtimes make them. None has a `reason` or a `throwIfAborted`. */
const FOREIGN: Record<string, () => ForeignController> = {
  'that calls its listeners with an event of its own, and without `this`': () => {
    const listeners = new Set<(event: object) => void>()
    const signal = {
      aborted: false,
      addEventListener: (_: string, listener: () => void) => listeners.add(listener),
      removeEventListener: (_: string, listener: () => void) => listeners.delete(listener),
    }
    const abort = () => {
      signal.aborted = true
      for (const listener of listeners) listener({ type: 'abort' })
    }
    return { signal: signal as never, abort }
  },
  'on an EventEmitter, which is `this` for its listeners': () => {
    const emitter = new EventEmitter()
    const signal = {
      aborted: false,
      addEventListener: (name: string, listener: () => void) => emitter.on(name, listener),
      removeEventListener: (name: string, listener: () => void) => emitter.removeListener(name, listener),
    }
    const abort = () => {
      signal.aborted = true
      emitter.emit('abort', { type: 'abort', target: signal })
    }
    return { signal: signal as never, abort }
  },
  'on an EventTarget, without an event for its listeners': () => {
    class Signal {
      aborted = false
      readonly listeners: Array<() => void> = []
      addEventListener(_: string, listener: () => void) {
        this.listeners.push(listener)
      }
      removeEventListener(_: string, listener: () => void) {
        this.listeners.splice(this.listeners.indexOf(listener), 1)
      }
    }
    const signal = new Signal()
    const abort = () => {
      signal.aborted = true
      for (const listener of [...signal.listeners]) listener.call(signal)
    }
    return { signal: signal as never, abort }
  },
}

describe.each(Object.entries(FOREIGN))('a signal of another package, %s,', (_, create) => {
  const forever = () => new Promise<never>(() => {})
  const renew: TokenProvider['renewToken'] = (_, wait) => untilAborted(forever(), wait?.signal)
  const tokensFor = (wait: 'first' | 'renewal') =>
    wait === 'first' ? rig([forever]).provider : provided({ current: token('current.token'), renew })

  it.each(['first', 'renewal'] as const)('ends the wait of axios for its %s token', async (wait) => {
    const { signal, abort } = create()
    const adapter = answering([{ status: 401 }])
    const call = rejectionOf(axiosWith(tokensFor(wait), { adapter }).get(MERCHANT_URL, { signal }))
    await settled()
    abort()
    expect(await call).toBeInstanceOf(CanceledError)
  })

  it.each(['first', 'renewal'] as const)('ends the wait of fetch for its %s token', async (wait) => {
    const { signal, abort } = create()
    const fetch = async () => new Response('', { status: 401 })
    const call = rejectionOf(createAuthFetch(tokensFor(wait), { fetch })(MERCHANT_URL, { signal }))
    await settled()
    abort()
    expect(await call).toMatchObject({ name: 'AbortError' })
  })

  it('that is aborted before ends the call', async () => {
    const { signal, abort } = create()
    abort()
    const { provider, endpoint } = rig([forever])
    expect(await rejectionOf(provider.getToken({ signal }))).toMatchObject({ name: 'AbortError' })
    expect(endpoint.count).toBe(0)
  })
})
