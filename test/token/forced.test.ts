/** `getToken({ forceRefresh: true })`: a token that was requested after the call, whatever is cached or stored. */
import {
  type AuthEvent,
  createAuthFetch,
  ProviderClosedError,
  type TokenProvider,
  TokenResponseError,
} from 'merchant-auth'
import { createStaticTokenProvider } from 'merchant-auth/testing'
import { describe, expect, it } from 'vitest'
import { MAX_ROUNDS } from '../../src/token/client-credentials-provider.ts'
import { BUCKET } from '../../src/token/limits/renewals.ts'
import { elsewhere, type Fleet, type Process, quiet, sourcesOf } from '../store/fleet.ts'
import { FAILURES, slow } from '../store/memory-store.ts'
import { longLived, renewedAfterRejection, sharing } from '../store/scenes.ts'
import { settled } from '../support/clock.ts'
import {
  type Answer,
  granted,
  grantedWith,
  hang,
  MERCHANT_URL,
  noConnection,
  type Rig,
  rejection,
  rig,
  status,
  withoutJitter,
} from './harness.ts'
import { attachedRig, Issued, ScriptedApi } from './scripted-api.ts'

withoutJitter()

const forced = ({ provider }: { readonly provider: TokenProvider }, signal?: AbortSignal) =>
  provider.getToken({ forceRefresh: true, signal })

const typesOf = (events: readonly AuthEvent[]): string[] => events.map(({ type }) => type)

/** An answer that the test gives by `release`. */
function held(answer = granted()): { readonly answer: Answer; readonly release: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { answer: (init) => promise.then(() => answer(init)), release: resolve }
}

/** A process with a token. */
async function begun(next: Answer[] = [], options: Parameters<typeof rig>[1] = {}) {
  const made = rig([granted(), ...next], options)
  const { value } = await made.provider.getToken()
  made.events.length = 0
  return { ...made, token: value }
}

describe('a token that is asked for', () => {
  it('replaces a fresh one, which is used until it is there', async () => {
    const next = held()
    const made = await begun([next.answer])
    const waiting = forced(made)
    await settled()
    expect((await made.provider.getToken()).value).toBe(made.token)
    expect(made.provider.currentToken()?.value).toBe(made.token)
    next.release()
    const { value } = await waiting
    expect(value).not.toBe(made.token)
    expect(made.provider.currentToken()?.value).toBe(value)
    expect(made.endpoint.count).toBe(2)
    expect(made.events).toMatchObject([
      { type: 'token-requested', attempt: 1 },
      { type: 'token-acquired', source: 'endpoint' },
      { type: 'token-renewed', reason: 'forced' },
    ])
  })

  it('is the first one of a process that has none, which replaces nothing', async () => {
    const made = rig()
    const [one, other] = await Promise.all([forced(made), made.provider.getToken()])
    expect(one).toBe(other)
    expect(made.endpoint.count).toBe(1)
    expect(typesOf(made.events)).toEqual(['token-requested', 'token-acquired'])
  })

  it('is shared by all who ask before its request begins', async () => {
    const made = await begun()
    const tokens = await Promise.all(Array.from({ length: 1_000 }, () => forced(made)))
    expect(new Set(tokens).size).toBe(1)
    expect(made.endpoint.count).toBe(2)
    expect(typesOf(made.events).filter((type) => type === 'token-renewed')).toHaveLength(1)
  })

  it.each<[what: string, start: (made: Rig) => unknown]>([
    ['another one that was asked for', forced],
    ['a background renewal', ({ provider }) => provider.currentToken()],
    ['a renewal after a 401', ({ provider }) => provider.renewToken(String(provider.currentToken()?.value))],
  ])('is not that of a request sent before: %s', async (_, start) => {
    const [first, second] = [held(), held()]
    const made = await begun([first.answer, second.answer])
    await made.clock.advance(800_000) // into the refresh window
    const before = start(made)
    await settled()
    expect(made.endpoint.count).toBe(2)
    // Those who ask meanwhile share one.
    const waiting = [forced(made)]
    await settled()
    waiting.push(forced(made))
    first.release()
    await settled()
    const between = made.provider.currentToken()
    expect(made.endpoint.count).toBe(3)
    second.release()
    const [one, other] = await Promise.all(waiting)
    await before
    expect(one).toBe(other)
    expect([undefined, made.token, between?.value]).not.toContain(one?.value)
    expect(made.endpoint.count).toBe(3)
  })

  it('may be that of a request that another need sends after the call', async () => {
    const failing = held(status(503))
    const made = await begun([failing.answer], { timeoutMs: 600_000 })
    await made.clock.advance(800_000)
    made.provider.currentToken()
    await made.clock.advance(190_000) // the token has expired, while its renewal is in flight
    const both = [made.provider.getToken(), forced(made)]
    failing.release()
    const [one, other] = await Promise.all(both)
    expect(one).toBe(other)
    expect(made.endpoint.count).toBe(3)
  })

  it('is no renewal where the token endpoint issues the same one until it ends', async () => {
    const made = rig()
    made.endpoint.otherwise = granted({ access_token: 'head.body.always-the-same' })
    const { value } = await made.provider.getToken()
    made.events.length = 0
    expect((await forced(made)).value).toBe(value)
    expect(typesOf(made.events)).toEqual(['token-requested', 'token-acquired'])
  })

  it('twice the same does not end the use of the one before it, where an API does not know it', async () => {
    const made = rig()
    const values = ['a.b.1', 'a.b.2', 'a.b.2']
    made.endpoint.otherwise = (init) => granted({ access_token: values.shift() })(init)
    for (const _ of ['first', 'second', 'the same']) await forced(made)
    const sent: string[] = []
    const authFetch = createAuthFetch(made.provider, {
      fetch: async (_, init) => {
        const value = String(new Headers(init?.headers).get('authorization'))
        sent.push(value)
        return new Response('', { status: value === 'Bearer a.b.1' ? 200 : 401 })
      },
    })
    expect((await authFetch(MERCHANT_URL)).status).toBe(200)
    expect(sent).toEqual(['Bearer a.b.2', 'Bearer a.b.1'])
  })

  it('does not end the use of the one before it, where an API does not know it yet', async () => {
    const { api, provider, endpoint } = attachedRig()
    expect(await api.call()).toEqual([200, 1])
    await forced({ provider })
    api.accepts = (number) => number === 1
    expect(await api.call()).toEqual([200, 2, 1])
    expect(await api.call()).toEqual([200, 1])
    expect(endpoint.count).toBe(2)
    await forced({ provider })
    api.accepts = (number) => number === 3
    expect(await api.call()).toEqual([200, 3])
    expect(endpoint.count).toBe(3)
  })

  it('does not end the use of one that no API had accepted yet', async () => {
    const { api, provider } = attachedRig()
    await provider.getToken()
    await forced({ provider })
    api.accepts = (number) => number === 1
    expect(await api.call()).toEqual([200, 2, 1])
  })

  it('is the new one also where an API rejects it before the store has it, and accepts the one before', async () => {
    const fleet = longLived()
    const { provider } = fleet.start()
    const api = new ScriptedApi(provider, new Issued(fleet.endpoint, { expires_in: 10 * 86_400 }))
    await api.call()
    api.accepts = (number) => number === 1
    fleet.store.faults.set = slow(fleet.clock, 500)
    const waiting = forced({ provider })
    await settled()
    expect(await api.call()).toEqual([200, 2, 1])
    await fleet.pass(500)
    expect((await waiting).value).not.toBe(provider.currentToken()?.value)
    expect(fleet.endpoint.count).toBe(2)
  })
})

describe('tokens that have no moment left when they arrive', () => {
  /** A process whose tokens end as soon as they are acquired. */
  function endingAtOnce(answers: Answer[] = []): Rig {
    const made = rig(answers, {
      retries: 0,
      onEvent: ({ type }) => {
        if (type === 'token-acquired') made.clock.stepWallClock(990_000)
      },
    })
    return made
  }

  it('are handed out to nobody who asks for one: the call fails in the end', async () => {
    const made = endingAtOnce()
    expect(await rejection(forced(made))).toBeInstanceOf(TokenResponseError)
    expect(made.endpoint.count).toBe(MAX_ROUNDS)
  })
})

describe('a request that was asked for', () => {
  it('has retries, and the current token stays in use if all fail', async () => {
    const made = await begun([status(503), noConnection, status(503)])
    const failing = rejection(forced(made))
    await made.clock.advance(1_000)
    expect(await failing).toMatchObject({ code: 'ERR_TOKEN_STATUS', attempts: 3 })
    expect((await made.provider.getToken()).value).toBe(made.token)
    expect(typesOf(made.events)).not.toContain('token-rejected')
    expect(typesOf(made.events)).not.toContain('token-renewed')
  })

  it('is not sent in a cooldown, whose rest the error names', async () => {
    const made = await begun([status(429, '', { 'retry-after': '60' })])
    await rejection(forced(made))
    await made.clock.advance(20_000)
    expect(await rejection(forced(made))).toMatchObject({ status: 429, retryAfterMs: 40_000 })
    expect(made.endpoint.count).toBe(2)
    await made.clock.advance(40_000)
    expect((await forced(made)).value).not.toBe(made.token)
  })

  it('is not held back by the pause after a failed background renewal', async () => {
    const made = await begun([status(503)])
    await made.clock.advance(800_000)
    made.provider.currentToken()
    await settled()
    expect((await forced(made)).value).not.toBe(made.token)
    expect(made.endpoint.count).toBe(3)
  })

  it('is not held back by a quota that is nearly spent', async () => {
    const low = grantedWith({ 'Auth0-Client-Quota-Limit': 'b=per_hour;q=10;r=1;t=3000' })
    const made = rig([low])
    const { value } = await made.provider.getToken()
    expect(await made.provider.renewToken(value)).toBeUndefined()
    expect((await forced(made)).value).not.toBe(value)
  })

  it('is not limited by the renewals that an API caused, and limits none', async () => {
    const { provider, endpoint } = await begun()
    const limited = async () =>
      (await provider.renewToken(await current(), { url: MERCHANT_URL })) === undefined
    const current = async () => (await provider.getToken()).value
    for (let times = 0; times < BUCKET; times += 1) expect(await limited()).toBe(false)
    expect(await limited()).toBe(true)
    const { count } = endpoint
    for (let times = 0; times < 20; times += 1) await forced({ provider })
    expect(endpoint.count).toBe(count + 20)
    const other = await begun()
    for (let times = 0; times < 20; times += 1) await forced(other)
    expect(await other.provider.renewToken(String(other.provider.currentToken()?.value))).toBeDefined()
  })

  it('ends the wait of a caller by its own signal only', async () => {
    const next = held()
    const made = await begun([next.answer])
    const controller = new AbortController()
    const leaving = rejection(forced(made, controller.signal))
    const staying = forced(made)
    await settled()
    controller.abort('no longer needed')
    expect(await leaving).toBe('no longer needed')
    next.release()
    expect((await staying).value).not.toBe(made.token)
  })

  it('is not sent for a caller whose signal is aborted already', async () => {
    const made = await begun()
    expect(await rejection(forced(made, AbortSignal.abort('no longer needed')))).toBe('no longer needed')
    await settled()
    expect(made.endpoint.count).toBe(1)
  })

  it('ends with the provider', async () => {
    const made = await begun([hang])
    const waiting = rejection(forced(made))
    await settled()
    await made.provider.close()
    expect(await waiting).toBeInstanceOf(ProviderClosedError)
    expect(await rejection(forced(made))).toBeInstanceOf(ProviderClosedError)
  })
})

describe('processes with a store', () => {
  /** Calls of so many processes, each so long (ms) after the one before. */
  async function calls(fleet: Fleet, processes: readonly Process[], gapMs: number) {
    const waiting: Promise<string>[] = []
    for (const process of processes) {
      waiting.push(forced(process).then(({ value }) => value))
      await fleet.pass(gapMs)
    }
    await fleet.tookMs(Promise.all(waiting))
    return await Promise.all(waiting)
  }

  it.each([
    ['at the same time', 0, 1],
    ['20 ms apart, while a request takes 300 ms', 20, 2],
  ])('that ask %s share one or two requests', async (_, gapMs, requests) => {
    const { fleet, processes, token } = await sharing(8)
    fleet.answerAfter(300)
    fleet.answerAfter(300)
    const tokens = await calls(fleet, processes, gapMs)
    expect(tokens).not.toContain(token)
    expect(fleet.endpoint.count).toBe(1 + requests)
    expect(new Set(tokens).size).toBe(requests)
    await quiet()
    expect([fleet.store.leased, await fleet.tokenOf()]).toEqual([0, tokens.at(-1)])
    for (const { events } of processes) expect(typesOf(events)).not.toContain('token-rejected')
    const renewed = processes.flatMap(({ events }) => events.filter(({ type }) => type === 'token-renewed'))
    expect(renewed).toHaveLength(8)
  })

  it('do not accept what another process requested before the call, whatever its clock says', async () => {
    const { fleet, one, token } = await sharing(1)
    const other = fleet.start({ clock: elsewhere(fleet.clock, { epochMs: 3_600_000, monotonicMs: -500 }) })
    await other.provider.getToken()
    fleet.answerAfter(300)
    const before = forced(one)
    await fleet.pass(10)
    const waiting = forced(other)
    await fleet.tookMs(Promise.all([before, waiting]))
    expect(new Set([token, (await before).value, (await waiting).value]).size).toBe(3)
    expect(fleet.endpoint.count).toBe(3)
  })

  it('do not share what was found in the store with a call that came after that was requested', async () => {
    const { fleet, one, other } = await sharing(2)
    fleet.answerAfter(20)
    const release = fleet.store.hold(fleet.store.tokenKey, 60_000)
    const early = forced(other) // waits for the lease
    await fleet.pass(20)
    release()
    const first = forced(one)
    await fleet.pass(10)
    const late = forced(other)
    await fleet.tookMs(Promise.all([early, first, late]))
    expect((await early).value).toBe((await first).value)
    expect((await late).value).not.toBe((await first).value)
    expect(fleet.endpoint.count).toBe(3)
  })

  it('that do not ask keep their token until its refresh window, and a new process gets the new one', async () => {
    const { fleet, one, other, token } = await sharing(2)
    const { value } = await forced(one)
    await fleet.pass(10)
    expect(other.provider.currentToken()?.value).toBe(token)
    expect(await fleet.tokenOf()).toBe(value)
    await fleet.skip(795_000)
    other.provider.currentToken()
    await quiet()
    expect(fleet.endpoint.count).toBe(3) // by then the new one is in its refresh window, too
  })

  it('share the pause after a 429', async () => {
    const { fleet, one, other } = await sharing(2)
    fleet.endpoint.answers.push(status(429, '', { 'retry-after': '60' }))
    expect(await rejection(forced(one))).toMatchObject({ status: 429 })
    await quiet()
    expect(await rejection(forced(other))).toMatchObject({ status: 429, retryAfterMs: expect.any(Number) })
    await quiet()
    fleet.store.asked.length = 0
    expect(await rejection(forced(other))).toMatchObject({ status: 429 })
    expect(fleet.store.asked).toEqual([])
    expect(fleet.endpoint.count).toBe(2)
    expect([one, other].map(({ provider }) => provider.currentToken()?.value)).not.toContain(undefined)
  })

  it('request one without the store while it fails', async () => {
    const { fleet, one, token } = await sharing(1)
    await fleet.skip(1_000)
    fleet.store.failAlways(FAILURES.rejects)
    expect((await forced(one)).value).not.toBe(token)
    expect(fleet.endpoint.count).toBe(2)
  })

  it('leave the token of the entry where the request fails', async () => {
    const { fleet, one, token } = await sharing(1)
    fleet.endpoint.answers.push(status(400))
    await rejection(forced(one))
    await quiet()
    expect([fleet.store.leased, await fleet.tokenOf()]).toEqual([0, token])
  })

  it('without leases request one each', async () => {
    const fleet = longLived({ leases: false })
    const processes = [await fleet.begin(), await fleet.begin(), await fleet.begin()]
    for (const _ of processes) fleet.answerAfter(300)
    expect(new Set(await calls(fleet, processes, 0)).size).toBe(3)
    expect(fleet.endpoint.count).toBe(4)
  })

  it('draw from no limit of renewals', async () => {
    const fleet = longLived()
    const one = await fleet.begin()
    for (let times = 0; times < 10; times += 1) await forced(one)
    await quiet()
    const other = fleet.start()
    expect(await renewedAfterRejection(fleet, other)).toBe(true)
    expect(sourcesOf(other.events)).toEqual(['store', 'endpoint'])
  })
})

it('a provider for unit tests has the same token, whoever asks', async () => {
  await using tokens = createStaticTokenProvider({ value: 'abc' })
  expect(await tokens.getToken({ forceRefresh: true })).toBe(tokens.currentToken())
})
