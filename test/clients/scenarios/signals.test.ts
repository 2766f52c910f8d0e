// Callers of every client that abort their call, in every phase of it, and the listeners on their signals.
import { getEventListeners } from 'node:events'
import { createAuthFetch, type TokenProvider } from 'merchant-auth'
import { describe, expect, it, onTestFinished } from 'vitest'
import { settled } from '../../support/clock.ts'
import { apiAt, rejectionOf, scripted, until, useGround } from '../../support/ground.ts'
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
