/** The worked examples of the contract (5.7): what calls are sent with, what that costs, and what their callers get. */
import { PassThrough } from 'node:stream'
import { createAuthDispatch } from 'merchant-auth/undici'
import type { Dispatcher } from 'undici'
import { expect, it } from 'vitest'
import { MAX_DOUBT } from '../../src/token/limits/renewals.ts'
import { settled } from '../support/clock.ts'
import { thinOut } from '../support/recorded.ts'
import { type Rig, withoutJitter } from './harness.ts'
import {
  type AttachedRig,
  attachedFleet,
  attachedRig,
  type Called,
  inDoubt,
  REFUSED_URL,
  renewedOnSchedule,
  SLOW_URL,
} from './scripted-api.ts'

withoutJitter()

const IN_STORE_URL = 'https://api.test.example/in-store/sales'

interface Outcome {
  /** The status that each caller gets, and the numbers of the tokens that its call was sent with. */
  readonly calls: readonly Called[]
  readonly requests: number
  /** Why the 401s renewed nothing that did not. */
  readonly reasons: readonly string[]
}

interface Example {
  readonly situation: string
  play(): Promise<Outcome>
  readonly outcome: Outcome
}

async function observed(
  { endpoint, events }: Pick<Rig, 'endpoint' | 'events'>,
  run: () => Promise<readonly Called[]>,
): Promise<Outcome> {
  const requests = endpoint.count
  const from = events.length
  const calls = await run()
  const reasons = events
    .slice(from)
    .flatMap((event) => (event.type === 'renewal-suppressed' ? [event.reason] : []))
  return { calls, requests: endpoint.count - requests, reasons }
}

/** All tokens up to this one are revoked. */
function revoke({ api }: Pick<AttachedRig, 'api'>, upTo: number): void {
  api.accepts = (token) => token > upTo
}

/** The API is out of doubt: the next revocation costs no call. */
async function expectNoDoubt(made: AttachedRig, current: number): Promise<void> {
  revoke(made, current)
  expect(await made.api.call()).toEqual([200, current, current + 1])
}

/** The API is in doubt: a call with a 401 of its own renews nothing. */
async function expectDoubt({ api, endpoint }: AttachedRig, current: number): Promise<void> {
  const { count } = endpoint
  expect(await api.call()).toEqual([200, current])
  expect(await api.call(REFUSED_URL)).toEqual([401, current])
  expect(endpoint.count).toBe(count)
}

async function accepted(): Promise<AttachedRig> {
  const made = attachedRig()
  expect(await made.api.call()).toEqual([200, 1])
  return made
}

const EXAMPLES: readonly Example[] = [
  {
    situation: 'revoked, out of doubt, 50 calls in flight',
    play: async () => {
      const made = await accepted()
      revoke(made, 1)
      return await observed(made, () => made.api.calls(50))
    },
    outcome: { calls: Array(50).fill([200, 1, 2]), requests: 1, reasons: [] },
  },
  {
    situation: 'renewed on schedule, API B not called since, all revoked, 30 calls to B',
    play: async () => {
      const made = await renewedOnSchedule()
      const { api } = made
      expect(await api.call(IN_STORE_URL)).toEqual([200, 2])
      revoke(made, 2)
      return await observed(made, async () => {
        const late = api.call(SLOW_URL)
        await settled()
        const calls = await api.calls(29)
        api.answerSlow()
        await settled()
        api.answerSlow()
        return [...calls, await late]
      })
    },
    outcome: { calls: [...Array(29).fill([200, 2, 1, 3]), [200, 2, 3]], requests: 1, reasons: [] },
  },
  {
    situation: 'this process has t1, the store t2, all revoked',
    play: async () => {
      const { fleet, start } = attachedFleet()
      const { api, events } = start()
      await api.call()
      await fleet.skip(1_000)
      await start().provider.getToken({ forceRefresh: true })
      revoke({ api }, 2)
      return await observed({ endpoint: fleet.endpoint, events }, () => api.calls(1))
    },
    outcome: { calls: [[200, 1, 2, 3]], requests: 1, reasons: [] },
  },
  {
    situation: 'a 401 about a store id, out of doubt, t1 accepted before',
    play: async () => {
      const made = await accepted()
      const outcome = await observed(made, () => made.api.calls(1, REFUSED_URL))
      await expectDoubt(made, 2)
      return outcome
    },
    outcome: { calls: [[401, 1, 2]], requests: 1, reasons: [] },
  },
  {
    situation: 'the same again, other calls accepted in between',
    play: async () => {
      const made = await inDoubt()
      return await observed(made, () => made.api.calls(1, REFUSED_URL))
    },
    outcome: { calls: [[401, 2]], requests: 0, reasons: ['accepted'] },
  },
  {
    situation: 'revoked then, at a call each 10 s',
    play: async () => {
      const made = await inDoubt()
      revoke(made, 2)
      const outcome = await observed(made, async () => {
        const calls: Called[] = []
        for (let nth = 0; nth < 4; nth += 1) {
          await made.clock.advance(10_000)
          calls.push(await made.api.call())
        }
        return calls
      })
      await expectNoDoubt(made, 3)
      return outcome
    },
    outcome: {
      calls: [
        [401, 2],
        [401, 2],
        [401, 2],
        [200, 2, 3],
      ],
      requests: 1,
      reasons: ['accepted', 'accepted', 'accepted'],
    },
  },
  {
    situation: 'a 401 about a store id right after a scheduled renewal, no call accepted with t2 yet',
    play: async () => {
      const made = await renewedOnSchedule()
      const outcome = await observed(made, () => made.api.calls(1, REFUSED_URL))
      await expectDoubt(made, 3)
      return outcome
    },
    outcome: { calls: [[401, 2, 1, 3]], requests: 1, reasons: [] },
  },
  {
    situation: 'the API knows t2 only after 5 min',
    play: async () => {
      const made = await renewedOnSchedule()
      const { api, clock } = made
      api.accepts = (token) => token === 1
      return await observed(made, async () => {
        const calls = [await api.call(), await api.call()]
        api.accepts = () => true
        await clock.advance(5 * 60_000)
        return [...calls, await api.call()]
      })
    },
    outcome: {
      calls: [
        [200, 2, 1],
        [200, 1],
        [200, 2],
      ],
      requests: 0,
      reasons: [],
    },
  },
  {
    situation: 'a stream, revoked',
    play: async () => {
      const made = await accepted()
      revoke(made, 1)
      const outcome = await observed(made, async () => [await made.api.callOnce()])
      expect(await made.api.call()).toEqual([200, 2])
      return outcome
    },
    outcome: { calls: [[401, 1]], requests: 1, reasons: [] },
  },
  {
    situation: 'an upgrade (WebSocket), revoked',
    play: async () => {
      const made = await accepted()
      revoke(made, 1)
      const outcome = await observed(made, async () => [await upgraded(made)])
      await expectNoDoubt(made, 2)
      return outcome
    },
    outcome: { calls: [[101, 1, 2]], requests: 1, reasons: [] },
  },
]

it.each(EXAMPLES)('$situation', async ({ play, outcome }) => {
  expect(await play()).toEqual(outcome)
})

it('the API rejects everything for a minute, 20 calls a second', async () => {
  const made = await accepted()
  const { api, clock, endpoint, events } = made
  api.accepts = () => false
  const requestedAtS: number[] = []
  for (let ms = 0; ms <= 60_000; ms += 50) {
    const { count } = endpoint
    const [status, ...tokens] = await api.call()
    expect([status, tokens.length <= 3]).toEqual([401, true])
    if (endpoint.count > count) requestedAtS.push(ms / 1_000)
    await clock.advance(50)
  }
  thinOut()
  expect(requestedAtS).toEqual([0, 4, 12, 28, 60])
  const reasons = events.flatMap((event) => (event.type === 'renewal-suppressed' ? [event.reason] : []))
  expect(new Set(reasons)).toEqual(new Set(['limited']))
  // The next revocation costs fewer than n calls, and the one after that none.
  api.accepts = () => true
  await clock.advance(MAX_DOUBT * 1_000)
  const current = endpoint.count
  expect(await api.call()).toEqual([200, current])
  revoke(made, current)
  let lost = 0
  while ((await api.call())[0] === 401) lost += 1
  expect(lost).toBeLessThan(MAX_DOUBT)
  await expectNoDoubt(made, current + 1)
})

/** Makes a call of undici that upgrades its connection. */
async function upgraded({ api, issued, provider }: AttachedRig): Promise<Called> {
  const sent: number[] = []
  const { promise: status, resolve } = Promise.withResolvers<number>()
  const send: Dispatcher['dispatch'] = ({ headers }, handler) => {
    const { Authorization: header } = headers as Record<string, string>
    const token = issued.numberOf(String(header).slice('Bearer '.length))
    sent.push(token)
    const controller = { resume: () => {} } as Dispatcher.DispatchController
    handler.onRequestStart?.(controller, {})
    if (api.accepts(token)) handler.onRequestUpgrade?.(controller, 101, {}, new PassThrough())
    else {
      handler.onResponseStart?.(controller, 401, {})
      handler.onResponseEnd?.(controller, {})
    }
    return true
  }
  const dispatch = (createAuthDispatch(provider) as (...of: unknown[]) => Dispatcher['dispatch'])(send)
  const options = { origin: 'https://api.test.example', path: '/merchant/live', method: 'GET' } as const
  dispatch(
    { ...options, upgrade: 'websocket' },
    {
      onRequestStart: () => {},
      onRequestUpgrade: (_, code) => resolve(code),
      onResponseStart: (_, code) => resolve(code),
    },
  )
  return [await status, ...sent]
}
