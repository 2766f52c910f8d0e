/** Callers that abort their call, in every phase of the call. */
import assert from 'node:assert/strict'
import type { Call, Driver } from '../drivers.ts'
import { blockedFetch, failureOf, MovedClock, settled, until, type World } from '../world.ts'
import { counted, type Scenario } from './scenario.ts'

export const PHASES = ['the first token', 'the API', 'the renewal', 'the repeated call'] as const
export type Phase = (typeof PHASES)[number]

/** The token requests and the sends of the caller's own call, by the phase in which the caller aborts. */
export const COSTS: Readonly<Record<Phase, readonly [tokens: number, sends: number]>> = {
  'the first token': [1, 0],
  'the API': [1, 1],
  'the renewal': [2, 1],
  'the repeated call': [2, 2],
}

/** A provider and an API that block the call `/mine` in this phase until they are released. */
export async function blockedIn(world: World, phase: Phase) {
  const gate = Promise.withResolvers<void>()
  const blocked = blockedFetch({ 'the first token': 1, 'the renewal': 2 }[phase as string])
  if (phase === 'the API' || phase === 'the repeated call') blocked.release()
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
  const tokens = world.provider({ environment, fetch: blocked.fetch, clock: new MovedClock() })
  const sends = (): number => api.seen.filter(({ path }) => path === '/mine').length
  const rejections = (): number => world.events.filter(({ type }) => type === 'token-rejected').length
  const reached: Record<Phase, () => boolean> = {
    'the first token': () => blocked.count() === 1,
    'the API': () => sends() === 1,
    'the renewal': () => rejections() === 2,
    'the repeated call': () => sends() === 2,
  }
  return {
    tokens,
    url: api.url,
    costs: () => [blocked.count(), sends()] as const,
    /** Starts the blocked call, and another one that is not aborted. Resolves when the phase is reached. */
    async start<T>(mine: (url: string) => Promise<T>, other: (url: string) => Promise<T>) {
      if (phase !== 'the first token') await tokens.getToken()
      const calls = { mine: mine(`${api.url}/mine`), other: other(`${api.url}/other`) }
      calls.mine.catch(() => {}) // it may reject before the test awaits it
      await until(reached[phase])
      await settled()
      return calls
    },
    release: () => {
      gate.resolve()
      blocked.release()
    },
  }
}

/** The error of an aborted call in a few words. */
function wordFor(driver: Driver, error: unknown, reason: unknown): string {
  assert.ok(driver.isAbort(error, reason), `${error}`)
  return error === reason ? 'the signal’s reason' : (error as Error).name
}

const costs = ([tokens, sends]: readonly [number, number]): string =>
  `${counted(tokens, 'token request')}, ${counted(sends, 'send')}`

/** A way to abort a call: the options of the call, the function that aborts it, and the reason. */
type AbortWay = readonly [given: Partial<Call>, abort: () => void, reason?: Error]

const bySignal = (): AbortWay => {
  const [caller, reason] = [new AbortController(), new Error('the customer has gone')]
  return [{ signal: caller.signal }, () => caller.abort(reason), reason]
}

const byToken = ({ cancelSource }: Driver): AbortWay => {
  const { token: cancelToken, cancel } = (cancelSource as NonNullable<typeof cancelSource>)()
  return [{ options: { cancelToken } }, () => cancel('the customer has gone')]
}

const inPhases = [
  { group: 'Aborted signal', by: bySignal },
  { group: 'Canceled axios cancelToken', by: byToken, drivers: ['axios'] },
].flatMap(({ by, ...about }) =>
  PHASES.map(
    (phase): Scenario => ({
      ...about,
      name: `waiting for ${phase}`,
      run: async (world, driver) => {
        const blocked = await blockedIn(world, phase)
        const send = driver.create(blocked.tokens)
        const [given, abort, reason] = by(driver)
        const { mine, other } = await blocked.start(
          (url) => send({ url, ...given }),
          (url) => send({ url }),
        )
        abort()
        const error = await failureOf(mine) // while it is still blocked
        const word = wordFor(driver, error, reason)
        if (reason === undefined) assert.equal((error as Error).message, 'the customer has gone')
        assert.deepEqual(blocked.costs(), COSTS[phase])
        blocked.release()
        assert.equal((await other).status, 200)
        await settled()
        assert.deepEqual(blocked.costs(), COSTS[phase])
        return `${word}; ${costs(COSTS[phase])}`
      },
    }),
  ),
)

class OwnError extends Error {}

/** The arguments of `AbortController.abort` for each reason, created for each call. */
const REASONS: Readonly<Record<string, () => unknown[]>> = {
  'no reason': () => [],
  'a string': () => ['gone'],
  null: () => [null],
  'an object': () => [{ left: true }],
  'an error of the caller’s class': () => [new OwnError('gone')],
}

const reasons = Object.entries(REASONS).map(
  ([name, reason]): Scenario => ({
    group: 'Abort reasons, in every phase',
    name,
    nodeOnly: true,
    // For a null reason, undici creates its own error.
    ...(name === 'null' ? { drivers: ['axios', 'fetch'] } : {}),
    run: async (world, driver) => {
      let word = ''
      for (const phase of PHASES) {
        const blocked = await blockedIn(world, phase)
        const send = driver.create(blocked.tokens)
        const caller = new AbortController()
        const signal = AbortSignal.any([new AbortController().signal, caller.signal])
        world.events.splice(0)
        const { mine, other } = await blocked.start(
          (url) => send({ url, signal }),
          (url) => send({ url }),
        )
        caller.abort(...reason())
        word = wordFor(driver, await failureOf(mine), signal.reason)
        blocked.release()
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
          const [given, abort, reason] = by(driver)
          abort()
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
    group: 'Abort reasons, in every phase',
    name: 'AbortSignal.timeout, waiting for the first token',
    run: async (world, driver) => {
      const blocked = await blockedIn(world, 'the first token')
      const signal = AbortSignal.timeout(1)
      const error = await failureOf(driver.create(blocked.tokens)({ url: blocked.url, signal }))
      const word = wordFor(driver, error, signal.reason)
      assert.equal(signal.reason.name, 'TimeoutError')
      blocked.release()
      return word
    },
  },
  ...reasons,
]
