/** Callers that leave by their signal, in every phase of a call. */
import assert from 'node:assert/strict'
import type { Call, Driver } from '../drivers.ts'
import { failureOf, heldFetch, MovedClock, settled, until, type World } from '../world.ts'
import { counted, type Scenario } from './scenario.ts'

export const PHASES = ['the first token', 'the API', 'the renewal', 'the repeated call'] as const
export type Phase = (typeof PHASES)[number]

/** The token requests and the sends of the caller's own call, by when the caller leaves. */
export const COSTS: Readonly<Record<Phase, readonly [tokens: number, sends: number]>> = {
  'the first token': [1, 0],
  'the API': [1, 1],
  'the renewal': [2, 1],
  'the repeated call': [2, 2],
}

/** A provider and an API that hold the call `/mine` in this phase until they are released. */
export async function heldIn(world: World, phase: Phase) {
  const gate = Promise.withResolvers<void>()
  const held = heldFetch({ 'the first token': 1, 'the renewal': 2 }[phase as string])
  if (phase === 'the API' || phase === 'the repeated call') held.release()
  const isRejected = phase === 'the renewal' || phase === 'the repeated call'
  let first: string | undefined
  const api = await world.host(async ({ path, headers: { authorization } }, response) => {
    first ??= authorization
    const rejected = isRejected && authorization === first
    const last = phase === 'the API' || (phase === 'the repeated call' && !rejected)
    if (last && path === '/mine') await gate.promise
    response.writeHead(rejected ? 401 : 200, { 'content-length': '0' }).end()
  })
  const environment = { ...world.service.environment, apiUrls: [api.url] }
  const tokens = world.provider({ environment, fetch: held.fetch, clock: new MovedClock() })
  const sends = (): number => api.seen.filter(({ path }) => path === '/mine').length
  const rejections = (): number => world.events.filter(({ type }) => type === 'token-rejected').length
  const reached: Record<Phase, () => boolean> = {
    'the first token': () => held.count() === 1,
    'the API': () => sends() === 1,
    'the renewal': () => rejections() === 2,
    'the repeated call': () => sends() === 2,
  }
  return {
    tokens,
    url: api.url,
    costs: () => [held.count(), sends()] as const,
    /** Makes the call that is held, and one that nobody ends. Resolves when the phase is reached. */
    async start<T>(mine: (url: string) => Promise<T>, other: (url: string) => Promise<T>) {
      if (phase !== 'the first token') await tokens.getToken()
      const calls = { mine: mine(`${api.url}/mine`), other: other(`${api.url}/other`) }
      calls.mine.catch(() => {}) // it may be over before the test looks
      await until(reached[phase])
      await settled()
      return calls
    },
    release: () => {
      gate.resolve()
      held.release()
    },
  }
}

/** What a caller got of an aborted call, in a few words. */
function wordFor(driver: Driver, error: unknown, reason: unknown): string {
  assert.ok(driver.isAbort(error, reason), `${error}`)
  return error === reason ? 'the signal’s reason' : (error as Error).name
}

export const costs = ([tokens, sends]: readonly [number, number]): string =>
  `${counted(tokens, 'token request')}, ${counted(sends, 'send')}`

/** What a caller leaves by: what the call is given, how it ends, and the reason. */
type Leaving = readonly [given: Partial<Call>, leave: () => void, reason?: Error]

const bySignal = (): Leaving => {
  const [caller, reason] = [new AbortController(), new Error('the customer has gone')]
  return [{ signal: caller.signal }, () => caller.abort(reason), reason]
}

const byToken = ({ cancelSource }: Driver): Leaving => {
  const { token: cancelToken, cancel } = (cancelSource as NonNullable<typeof cancelSource>)()
  return [{ options: { cancelToken } }, () => cancel('the customer has gone')]
}

const inPhases = [
  { group: 'Aborted signal', by: bySignal },
  { group: "axios' cancelToken", by: byToken, drivers: ['axios'] },
].flatMap(({ by, ...about }) =>
  PHASES.map(
    (phase): Scenario => ({
      ...about,
      name: `waiting for ${phase}`,
      run: async (world, driver) => {
        const held = await heldIn(world, phase)
        const send = driver.create(held.tokens)
        const [given, leave, reason] = by(driver)
        const { mine, other } = await held.start(
          (url) => send({ url, ...given }),
          (url) => send({ url }),
        )
        leave()
        const error = await failureOf(mine) // while it is still held
        const word = wordFor(driver, error, reason)
        if (reason === undefined) assert.equal((error as Error).message, 'the customer has gone')
        assert.deepEqual(held.costs(), COSTS[phase])
        held.release()
        assert.equal((await other).status, 200)
        await settled()
        assert.deepEqual(held.costs(), COSTS[phase])
        return `${word}; ${costs(COSTS[phase])}`
      },
    }),
  ),
)

class OwnError extends Error {}

/** Reasons, each made anew, as `AbortController.abort` takes them. */
const REASONS: Readonly<Record<string, () => unknown[]>> = {
  'no reason': () => [],
  'a string': () => ['gone'],
  null: () => [null],
  'an object': () => [{ left: true }],
  'an error of the caller’s class': () => [new OwnError('gone')],
}

const reasons = Object.entries(REASONS).map(
  ([name, reason]): Scenario => ({
    group: 'Reasons of a signal, in every phase',
    name,
    nodeOnly: true,
    // Where a reason is null, undici itself makes up an error of its own.
    ...(name === 'null' ? { drivers: ['axios', 'fetch'] } : {}),
    run: async (world, driver) => {
      let word = ''
      for (const phase of PHASES) {
        const held = await heldIn(world, phase)
        const send = driver.create(held.tokens)
        const caller = new AbortController()
        const signal = AbortSignal.any([new AbortController().signal, caller.signal])
        world.events.splice(0)
        const { mine, other } = await held.start(
          (url) => send({ url, signal }),
          (url) => send({ url }),
        )
        caller.abort(...reason())
        word = wordFor(driver, await failureOf(mine), signal.reason)
        held.release()
        await other
      }
      return word
    },
  }),
)

export const SIGNALS: readonly Scenario[] = [
  ...inPhases,
  ...[true, false].map(
    (cold): Scenario => ({
      group: 'Aborted signal',
      name: cold ? 'before the call' : 'before the call, with a fresh token',
      run: async (world, driver) => {
        const tokens = world.provider()
        if (!cold) await tokens.getToken()
        let word = ''
        for (const by of driver.cancelSource === undefined ? [bySignal] : [byToken, bySignal]) {
          const [given, leave, reason] = by(driver)
          leave()
          const error = await failureOf(driver.create(tokens)({ url: world.service.merchantUrl, ...given }))
          word = wordFor(driver, error, reason)
          await settled()
          assert.deepEqual([world.service.counts.token, world.service.counts.merchant], [cold ? 0 : 1, 0])
        }
        return `${word}; 0 sends`
      },
    }),
  ),
  {
    group: 'Aborted signal',
    name: 'after the answer',
    run: async (world, driver) => {
      const send = driver.create(world.provider())
      const caller = new AbortController()
      const { status } = await send({ url: world.service.merchantUrl, signal: caller.signal })
      caller.abort()
      await settled()
      assert.deepEqual([status, (await send({ url: world.service.merchantUrl })).status], [200, 200])
      assert.equal(world.service.counts.token, 1)
      return '200'
    },
  },
  {
    group: 'Reasons of a signal, in every phase',
    name: 'AbortSignal.timeout, waiting for the first token',
    run: async (world, driver) => {
      const held = await heldIn(world, 'the first token')
      const signal = AbortSignal.timeout(1)
      const error = await failureOf(driver.create(held.tokens)({ url: held.url, signal }))
      const word = wordFor(driver, error, signal.reason)
      assert.equal(signal.reason.name, 'TimeoutError')
      held.release()
      return word
    },
  },
  ...reasons,
]
