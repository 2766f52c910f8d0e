/**
 * What a 401 means and how often it renews the token: for an API with attachments, for callers without, and in processes
 * with a store. The numbers of the limits are in request-limits.test.ts.
 */
import type { TokenRequestError } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { FIRST_GAP_MS, MAX_COUNTING_MS } from '../../src/token/limits/renewals.ts'
import { elsewhere, type Fleet, failuresOf, type Process } from '../store/fleet.ts'
import { FAILURES, slow } from '../store/memory-store.ts'
import { longLived, oneRenewed, renewedAfterRejection } from '../store/scenes.ts'
import { settled } from '../support/clock.ts'
import { DAY_MS, HOUR_MS } from '../support/periods.ts'
import { thinOut } from '../support/recorded.ts'
import {
  failedUntilGap,
  granted,
  IN_STORE_URL,
  MERCHANT_URL,
  type Rig,
  rejection,
  rig,
  status,
  withoutJitter,
} from './harness.ts'
import {
  type AttachedRig,
  attachedRig,
  Issued,
  OTHER_URL,
  REFUSED_URL,
  ScriptedApi,
  SLOW_URL,
} from './scripted-api.ts'

withoutJitter()

const MERCHANT = 'https://api.test.example/merchant'
/** The gap after one or two renewals is over, and the first 401 of a doubt is still counted. */
const AFTER_GAP_MS = 5 * FIRST_GAP_MS

const reasonOf = ({ events }: Pick<Rig, 'events'>): unknown =>
  events.flatMap((event) => (event.type === 'renewal-suppressed' ? [event.reason] : [])).at(-1)

/** An API in doubt, after a renewal for a call with a 401 of its own. It has accepted the second token. */
async function inDoubt(fields: Record<string, unknown> = {}): Promise<AttachedRig> {
  const made = attachedRig(fields)
  await made.api.call()
  expect(await made.api.call(REFUSED_URL)).toEqual([401, 1, 2])
  expect(await made.api.call()).toEqual([200, 2])
  await made.clock.advance(AFTER_GAP_MS)
  return made
}

describe('a 401 of an API with attachments', () => {
  it('renews and repeats the call, however often the API revokes tokens that it has accepted', async () => {
    const { api, events } = attachedRig()
    await api.call()
    for (const token of [2, 3, 4]) {
      api.accepts = (sent) => sent >= token
      expect(await api.call()).toEqual([200, token - 1, token])
    }
    expect(events.map(({ type }) => type)).not.toContain('renewal-suppressed')
  })

  it.each([304, 404, 409])(
    'renews and repeats the call, however often tokens are revoked, where all others are answered with %i',
    async (otherStatus) => {
      const { api } = attachedRig()
      api.otherStatus = otherStatus
      await api.call(OTHER_URL)
      for (const token of [2, 3, 4]) {
        api.accepts = (sent) => sent >= token
        expect(await api.call(OTHER_URL)).toEqual([otherStatus, token - 1, token])
        await api.call(OTHER_URL)
      }
    },
  )

  it('is about the call after a renewal that did not help, where others are accepted', async () => {
    const made = await inDoubt()
    for (let nth = 0; nth < 5; nth += 1) {
      expect(await made.api.call(REFUSED_URL)).toEqual([401, 2])
      expect(reasonOf(made)).toBe('accepted')
      expect(await made.api.call()).toEqual([200, 2])
    }
  })

  it('renews after a renewal that did not help, where no other call was accepted since the one before', async () => {
    const { api } = await inDoubt()
    api.accepts = (token) => token > 2
    await api.callsBeforeRenewal()
    expect(await api.call()).toEqual([200, 2, 3])
  })

  it('renews at once again after a renewal that helped', async () => {
    const { api } = await inDoubt()
    api.accepts = (token) => token > 2
    await api.callsBeforeRenewal()
    await api.call()
    api.accepts = (token) => token > 3
    expect(await api.call()).toEqual([200, 3, 4])
  })

  it.each([
    { otherStatus: 204, helps: true },
    { otherStatus: 302, helps: true },
    { otherStatus: 403, helps: true },
    { otherStatus: 499, helps: true },
    { otherStatus: 500, helps: false },
  ])(
    'may be about the token after one that was repeated and got a $otherStatus: $helps',
    async ({ otherStatus, helps }) => {
      const { api, clock, endpoint } = attachedRig()
      await api.call()
      api.accepts = (token) => token > 1
      api.otherStatus = otherStatus
      expect(await api.call(OTHER_URL)).toEqual([otherStatus, 1, 2])
      await api.call()
      await clock.advance(AFTER_GAP_MS)
      await api.call(REFUSED_URL)
      expect(endpoint.count).toBe(helps ? 3 : 2)
    },
  )

  it.each([
    { otherStatus: 0, isAccepted: false },
    { otherStatus: 204, isAccepted: true },
    { otherStatus: 300, isAccepted: false },
    { otherStatus: 304, isAccepted: true },
    { otherStatus: 404, isAccepted: false },
  ])('is about the call if others got a $otherStatus: $isAccepted', async ({ otherStatus, isAccepted }) => {
    const { api, endpoint } = await inDoubt()
    api.otherStatus = otherStatus
    await api.callsBeforeRenewal(REFUSED_URL)
    await api.call(OTHER_URL)
    await api.call(REFUSED_URL)
    expect(endpoint.count).toBe(isAccepted ? 2 : 3)
  })

  it('is not about the call because another API accepts calls', async () => {
    const { api, endpoint } = await inDoubt()
    await api.callsBeforeRenewal(REFUSED_URL)
    await api.call(IN_STORE_URL)
    await api.call(REFUSED_URL)
    expect(endpoint.count).toBe(3)
  })

  it('is not about the call because one with an earlier token is accepted late', async () => {
    const { api, clock, endpoint } = attachedRig()
    const late = api.call(SLOW_URL)
    await clock.advance(0)
    await api.call()
    await api.call(REFUSED_URL)
    await api.call()
    await clock.advance(AFTER_GAP_MS)
    await api.callsBeforeRenewal(REFUSED_URL)
    api.answerSlow()
    await late
    await api.call(REFUSED_URL)
    expect(endpoint.count).toBe(3)
  })

  it('puts no other API in doubt', async () => {
    const { api } = await inDoubt()
    await api.call(IN_STORE_URL)
    api.accepts = (token) => token > 2
    expect(await api.call(IN_STORE_URL)).toEqual([200, 2, 3])
  })

  it('renews for the next call where this one cannot be repeated', async () => {
    const { api } = attachedRig()
    await api.call()
    api.accepts = (token) => token > 1
    expect(await api.callOnce()).toEqual([401, 1])
    expect(await api.call()).toEqual([200, 2])
  })

  it('renews at once after a scheduled renewal, which puts no API in doubt', async () => {
    const { api, clock } = attachedRig()
    await api.call()
    await clock.advance(9.5 * HOUR_MS)
    await api.call()
    expect(await api.call()).toEqual([200, 2])
    api.accepts = (token) => token > 2
    expect(await api.call()).toEqual([200, 2, 3])
  })

  it('renews at once again after a renewal that helped a call which is answered after a scheduled one', async () => {
    const { api, clock, endpoint, issued } = attachedRig()
    await api.call()
    api.accepts = (token) => token > 1
    endpoint.answers.push(issued.granted({ expires_in: 600 }))
    const late = api.call(SLOW_URL)
    await settled()
    api.answerSlow() // a 401: it is repeated
    await settled()
    await clock.advance(500_000)
    await api.call()
    expect(await api.call()).toEqual([200, 3])
    api.answerSlow()
    expect((await late)[0]).toBe(200)
    await api.call()
    api.accepts = (token) => token > 3
    expect(await api.call()).toEqual([200, 3, 4])
  })

  it('is about the call after a scheduled renewal, too, while the API is in doubt', async () => {
    const made = await inDoubt({ expires_in: 3_600 })
    await made.clock.advance(0.9 * HOUR_MS)
    await made.api.call()
    expect(await made.api.call()).toEqual([200, 3])
    expect(await made.api.call(REFUSED_URL)).toEqual([401, 3])
    expect(reasonOf(made)).toBe('accepted')
  })
})

describe('a new token that an API does not know yet', () => {
  /** Less than the shortest pause after a failed background renewal, for a token with an hour left. */
  const IN_PAUSE_MS = 60_000
  /** More than the longest one. */
  const AFTER_PAUSE_MS = 10 * 60_000
  const MARGIN_MS = 10_000

  /** A scheduled renewal has yielded the second token, of which the API does not know; the first one lives for 30 min more. */
  async function renewedOnSchedule(fields: Record<string, unknown> = {}): Promise<AttachedRig> {
    const made = attachedRig()
    await made.api.call()
    await made.clock.advance(9.5 * HOUR_MS)
    made.endpoint.answers.push(made.issued.granted({ expires_in: 36_000, ...fields }))
    expect(await made.api.call()).toEqual([200, 1])
    made.api.accepts = (token) => token === 1
    return made
  }

  /** `answer` answers a call that was rejected with the second token and is repeated with the first. */
  async function repeatedWithBefore(fields?: Record<string, unknown>) {
    const made = await renewedOnSchedule(fields)
    const late = made.api.call(SLOW_URL)
    await settled()
    made.api.answerSlow() // a 401: it is repeated
    await settled()
    const answer = async (): Promise<number> => {
      made.api.answerSlow()
      return (await late)[0]
    }
    return { ...made, answer }
  }

  it('does not displace the one before, which the API accepts', async () => {
    const { api, endpoint } = await renewedOnSchedule()
    expect(await api.call()).toEqual([200, 2, 1])
    expect(await api.call()).toEqual([200, 1])
    expect(await api.call(IN_STORE_URL)).toEqual([200, 1])
    expect(endpoint.count).toBe(2)
  })

  it('is tried again after the pause of a failed background renewal, without a token request', async () => {
    const { api, clock, endpoint } = await renewedOnSchedule()
    await api.call()
    await clock.advance(IN_PAUSE_MS)
    expect(await api.call()).toEqual([200, 1])
    await clock.advance(AFTER_PAUSE_MS)
    expect(await api.call()).toEqual([200, 2, 1])
    await clock.advance(IN_PAUSE_MS)
    expect(await api.call()).toEqual([200, 1])
    await clock.advance(AFTER_PAUSE_MS)
    api.accepts = () => true
    expect([await api.call(), await api.call()]).toEqual([
      [200, 2],
      [200, 2],
    ])
    expect(endpoint.count).toBe(2)
  })

  it('is used when the one before ends', async () => {
    const { api, clock, endpoint } = await renewedOnSchedule()
    await api.call()
    await clock.advance(IN_PAUSE_MS)
    clock.stepWallClock(0.5 * HOUR_MS)
    api.accepts = (token) => token === 2
    expect(await api.call()).toEqual([200, 2])
    expect(endpoint.count).toBe(2)
  })

  it('is tried at once where the API rejects the one before', async () => {
    const { api, endpoint } = await renewedOnSchedule()
    await api.call()
    api.accepts = (token) => token === 2
    expect(await api.call()).toEqual([200, 1, 2])
    expect(await api.call()).toEqual([200, 2])
    expect(endpoint.count).toBe(2)
  })

  it('is what renewToken, called by hand, yields for the one before, but not for an older one', async () => {
    const { api, endpoint, issued, provider } = await renewedOnSchedule()
    await api.call()
    const insteadOf = async (token: string): Promise<number> =>
      issued.numberOf(String((await provider.renewToken(token, { url: MERCHANT_URL }))?.value))
    expect(await insteadOf('an.older.token')).toBe(1)
    expect(await insteadOf(String(provider.currentToken()?.value))).toBe(2)
    expect(endpoint.count).toBe(2)
  })

  it('is replaced where a call with it is rejected after the one before has ended', async () => {
    const { api, clock, endpoint } = await renewedOnSchedule()
    const late = api.call(SLOW_URL)
    await settled()
    await api.call() // from now on the one before is in use again
    await clock.advance(0.5 * HOUR_MS)
    api.accepts = (token) => token > 2
    api.answerSlow() // a 401: it is repeated
    await settled()
    api.answerSlow()
    expect((await late)[0]).toBe(200)
    expect(endpoint.count).toBe(3)
  })

  it('is tried by a call with a 401 of its own, but does not displace the one before because of it', async () => {
    const { api, endpoint } = await renewedOnSchedule()
    await api.call()
    expect(await api.call(REFUSED_URL)).toEqual([401, 1, 2])
    expect(await api.call()).toEqual([200, 1])
    expect(endpoint.count).toBe(2)
  })

  it.each([
    { otherStatus: 204, isDisplaced: true },
    { otherStatus: 304, isDisplaced: true },
    { otherStatus: 302, isDisplaced: false },
    { otherStatus: 403, isDisplaced: false },
    { otherStatus: 404, isDisplaced: false },
    { otherStatus: 429, isDisplaced: false },
    { otherStatus: 500, isDisplaced: false },
  ])(
    'is displaced by the one before if the repeated call gets a $otherStatus: $isDisplaced',
    async ({ otherStatus, isDisplaced }) => {
      const { api } = await renewedOnSchedule()
      api.otherStatus = otherStatus
      expect(await api.call(OTHER_URL)).toEqual([otherStatus, 2, 1])
      api.accepts = () => true
      expect(await api.call()).toEqual([200, isDisplaced ? 1 : 2])
    },
  )

  describe('and that was replaced before the call was answered that is repeated with the one before', () => {
    /** The third token is current. */
    async function replacedMeanwhile(
      replace = ({ provider }: AttachedRig): Promise<unknown> => provider.getToken({ forceRefresh: true }),
    ) {
      const made = await repeatedWithBefore()
      await replace(made)
      expect(made.endpoint.count).toBe(3)
      return made
    }

    it('does not bring the one before back, which the API may have revoked since it accepted the call', async () => {
      const { api, answer } = await replacedMeanwhile()
      expect(await answer()).toBe(200)
      api.accepts = (token) => token === 3
      expect(await api.call()).toEqual([200, 3])
    })

    it('has not helped because the call is accepted with the one before', async () => {
      const made = await replacedMeanwhile(async ({ api }) => {
        await api.callsBeforeRenewal(REFUSED_URL)
        await api.call(REFUSED_URL)
      })
      const { api } = made
      expect(await made.answer()).toBe(200)
      api.accepts = () => true
      expect(await api.call()).toEqual([200, 3])
      await made.clock.advance(AFTER_GAP_MS)
      expect(await api.call(REFUSED_URL)).toEqual([401, 3])
      expect(reasonOf(made)).toBe('accepted')
    })

    it('does not put the API in doubt by a rejection of that call', async () => {
      const { api, answer } = await replacedMeanwhile()
      api.accepts = (token) => token === 3
      expect(await answer()).toBe(401)
      expect(await api.call()).toEqual([200, 3])
      api.accepts = (token) => token > 3
      expect(await api.call()).toEqual([200, 3, 4])
    })
  })

  describe('while a call is answered that was rejected with it and is repeated with the one before', () => {
    it('stays in use if the one before ends and the call is accepted: its own renewal begins at once', async () => {
      const { api, answer, clock, endpoint } = await repeatedWithBefore({ expires_in: 2_000 })
      await clock.advance(0.5 * HOUR_MS) // into its refresh window
      expect(await answer()).toBe(200)
      api.accepts = () => true
      expect(await api.call()).toEqual([200, 2])
      expect(endpoint.count).toBe(3)
    })

    it('does not put the API in doubt if it ends and the call is rejected', async () => {
      const made = await repeatedWithBefore()
      const { api, answer, clock } = made
      clock.stepWallClock(DAY_MS)
      api.accepts = (token) => token > 2
      expect(await answer()).toBe(401)
      expect(reasonOf(made)).toBeUndefined()
      expect(await api.call()).toEqual([200, 3])
      api.accepts = (token) => token > 3
      expect(await api.call()).toEqual([200, 3, 4])
    })
  })

  it('has not helped because a call that was repeated with the one before is accepted late', async () => {
    const made = attachedRig()
    const { api, clock, endpoint } = made
    await api.call()
    api.accepts = (token) => token > 1
    const late = api.call(SLOW_URL)
    await settled()
    api.answerSlow() // a 401: it is repeated
    await settled()
    await api.call()
    await clock.advance(AFTER_GAP_MS)
    await api.callsBeforeRenewal(REFUSED_URL)
    await api.call(REFUSED_URL)
    api.accepts = (token) => token === 2
    expect((await api.call()).slice(-2)).toEqual([3, 2])
    api.answerSlow()
    expect((await late)[0]).toBe(200)
    await clock.advance(AFTER_GAP_MS)
    api.accepts = () => false
    expect(await api.callOnce()).toEqual([401, 2])
    expect(reasonOf(made)).toBe('accepted')
    expect(endpoint.count).toBe(3)
  })

  it('is forgotten when it has no life left: then another one is requested', async () => {
    const { api, clock, endpoint } = await renewedOnSchedule({ expires_in: 600 })
    await api.call()
    await clock.advance(AFTER_PAUSE_MS)
    expect(await api.call()).toEqual([200, 1])
    expect(endpoint.count).toBe(3)
    expect(await api.call()).toEqual([200, 3, 1])
  })

  it('is replaced when it was rejected and the one before has ended', async () => {
    const { api, clock, endpoint } = await renewedOnSchedule()
    await clock.advance(0.5 * HOUR_MS)
    api.accepts = (token) => token !== 2
    expect(await api.call()).toEqual([200, 2, 3])
    expect(endpoint.count).toBe(3)
  })

  it('is replaced when it was rejected in the moment in which the one before reaches its margin', async () => {
    const { api, clock, endpoint } = await renewedOnSchedule()
    await clock.advance(0.5 * HOUR_MS - MARGIN_MS)
    api.accepts = (token) => token !== 2
    expect(await api.call()).toEqual([200, 2, 3])
    expect(endpoint.count).toBe(3)
  })

  it('does not displace the one before after a renewal for a rejected call, either', async () => {
    const { api, endpoint } = attachedRig()
    await api.call()
    api.accepts = (token) => token === 1
    expect(await api.call(REFUSED_URL)).toEqual([401, 1, 2])
    expect(await api.call()).toEqual([200, 2, 1])
    expect(await api.call()).toEqual([200, 1])
    expect(endpoint.count).toBe(2)
  })

  it('does not displace the one before because a call with a 401 of its own was rejected with both', async () => {
    const made = await renewedOnSchedule()
    expect(await made.api.call(REFUSED_URL)).toEqual([401, 2, 1])
    expect(reasonOf(made)).toBe('accepted')
    expect(await made.api.call()).toEqual([200, 2, 1])
    expect(made.endpoint.count).toBe(2)
  })

  it('is replaced after some calls in a row that were rejected with both, and the one before is kept', async () => {
    const { api, endpoint } = await renewedOnSchedule()
    await api.callsBeforeRenewal(REFUSED_URL)
    expect(endpoint.count).toBe(2)
    expect(await api.call(REFUSED_URL)).toEqual([401, 2, 1])
    expect(endpoint.count).toBe(3)
    expect(await api.call()).toEqual([200, 3, 1])
  })

  it('is used for an API that has accepted it, while another one gets the one before', async () => {
    const { api, endpoint } = await renewedOnSchedule()
    api.accepts = () => true
    await api.call()
    api.accepts = (token) => token === 1
    expect(await api.call(IN_STORE_URL)).toEqual([200, 2, 1])
    expect(endpoint.count).toBe(2)
  })

  it('is replaced where the API has accepted it, and a call with the one before is accepted late', async () => {
    const { api, clock } = attachedRig()
    const late = api.call(SLOW_URL)
    await clock.advance(0)
    await api.call()
    api.accepts = (token) => token > 1
    expect((await api.call()).at(-1)).toBe(2)
    await api.call()
    api.accepts = () => true
    api.answerSlow()
    await late
    api.accepts = (token) => token > 2
    expect(await api.call()).toEqual([200, 2, 3])
  })

  it('is replaced where the API has accepted it before', async () => {
    const { api } = await renewedOnSchedule()
    api.accepts = () => true
    await api.call()
    api.accepts = (token) => token !== 2
    expect(await api.call()).toEqual([200, 2, 3])
  })

  it('is replaced for the next call where the rejected one cannot be repeated, and the API is not in doubt', async () => {
    const { api, endpoint } = await renewedOnSchedule()
    expect(await api.callOnce()).toEqual([401, 2])
    expect(endpoint.count).toBe(3)
    expect(await api.call()).toEqual([200, 3, 1])
  })

  it('is not replaced for a call that cannot be repeated while the API is in doubt', async () => {
    const made = await renewedOnSchedule()
    await made.api.call(REFUSED_URL)
    made.api.accepts = () => true
    await made.api.call()
    made.api.accepts = (token) => token === 1
    expect(await made.api.callOnce()).toEqual([401, 2])
    expect(reasonOf(made)).toBe('accepted')
    expect(made.endpoint.count).toBe(2)
  })

  it('is the only one where the token endpoint issues the same again: then calls are limited', async () => {
    const made = attachedRig({ access_token: 'the.same.token' })
    made.api.accepts = () => false
    expect(await made.api.call()).toEqual([401, 1])
    expect(made.endpoint.count).toBe(2)
    await made.api.call()
    expect(reasonOf(made)).toBeDefined()
    await made.clock.advance(AFTER_GAP_MS)
    made.endpoint.otherwise = made.issued.granted()
    made.api.accepts = (token) => token === 2
    await made.api.callsBeforeRenewal()
    expect(await made.api.call()).toEqual([200, 2])
  })
})

/** Reports the current token as rejected; resolves with whether it was renewed. */
async function renewed(
  { provider }: Pick<Rig, 'provider'>,
  url: string | undefined = MERCHANT_URL,
): Promise<boolean> {
  const token = await provider.getToken()
  const newer = await provider.renewToken(token, { url })
  expect(newer?.value).not.toBe(token.value)
  return newer !== undefined
}

describe('renewToken, called by hand', () => {
  /** A provider whose tokens live for 10 days. */
  function long(): Rig {
    const made = rig([], { retries: 0 })
    made.endpoint.otherwise = granted({ expires_in: 10 * 86_400 })
    return made
  }

  it('renews at once the first time, then after each gap: no 401 counts as one about the call', async () => {
    const made = long()
    expect(await renewed(made)).toBe(true)
    for (let nth = 0; nth < 3; nth += 1) {
      made.events.length = 0
      expect(await renewed(made)).toBe(false)
      const suppressed = made.events.at(-1)
      expect(suppressed).toMatchObject({ type: 'renewal-suppressed', reason: 'limited' })
      const waitMs = suppressed?.type === 'renewal-suppressed' ? Number(suppressed.nextRenewalMs) : 0
      await made.clock.advance(waitMs - 1)
      expect(await renewed(made)).toBe(false)
      await made.clock.advance(1)
      expect(await renewed(made)).toBe(true)
    }
  })

  it('renews at once although clients with the token attached report accepted calls', async () => {
    const { api, clock, issued, provider } = attachedRig()
    expect(await api.call(REFUSED_URL)).toEqual([401, 1, 2]) // from now on the API is in doubt
    expect(await api.call()).toEqual([200, 2])
    await clock.advance(AFTER_GAP_MS)
    const token = await provider.getToken()
    const renewed = await provider.renewToken(token, { url: MERCHANT_URL })
    expect([issued.numberOf(token.value), issued.numberOf(String(renewed?.value))]).toEqual([2, 3])
    const withoutUrl = await provider.renewToken(String(renewed?.value))
    expect(issued.numberOf(String(withoutUrl?.value))).toBe(4)
  })

  it('leaves no doubt about the API, which nobody would end: an attached call renews at its first 401', async () => {
    const { api, clock, issued, provider } = attachedRig()
    await api.call()
    for (let nth = 1; nth <= 4; nth += 1) {
      api.accepts = (token) => token > nth // revoked
      const token = await provider.getToken()
      const renewed = await provider.renewToken(token, { url: MERCHANT_URL })
      expect(issued.numberOf(String(renewed?.value))).toBe(nth + 1)
      expect(await api.call()).toEqual([200, nth + 1])
      await clock.advance(HOUR_MS)
    }
    api.accepts = (token) => token > 5
    expect(await api.call()).toEqual([200, 5, 6])
  })

  it('has gaps that double, also hours after a doubt of attached calls began', async () => {
    const made = attachedRig({ expires_in: 20 * 36_000 })
    await made.api.call()
    await made.api.call(REFUSED_URL)
    await made.clock.advance(5 * HOUR_MS)
    expect(await renewed(made)).toBe(true)
    await made.clock.advance(1_000)
    expect(await renewed(made)).toBe(true)
    await made.clock.advance(1_000)
    expect(await renewed(made)).toBe(false)
  })

  it('answers its 401, which does not count for attached calls any more', async () => {
    const { api, clock, endpoint, provider } = attachedRig()
    expect(await api.call(REFUSED_URL)).toEqual([401, 1, 2]) // from now on the API is in doubt
    await clock.advance(AFTER_GAP_MS)
    const token = await provider.getToken()
    await provider.renewToken(token, { url: MERCHANT_URL })
    await clock.advance(AFTER_GAP_MS)
    expect(await api.call(REFUSED_URL)).toEqual([401, 3, 2]) // with the token before
    await settled()
    expect(endpoint.count).toBe(3)
  })

  it('is limited for each apiUrls entry by itself', async () => {
    const made = long()
    expect(await renewed(made)).toBe(true)
    expect(await renewed(made, IN_STORE_URL)).toBe(true)
    expect(await renewed(made, IN_STORE_URL)).toBe(false)
    expect(await renewed(made, `${MERCHANT}/refunds?a=b`)).toBe(false)
  })

  it('has a limit of its own without a url, and renews nothing for a url outside apiUrls', async () => {
    const { provider } = long()
    const token = await provider.getToken()
    const url = new URL('https://x.example')
    expect(await provider.renewToken(token, { url })).toBeUndefined()
    const newer = await provider.renewToken(token, { url: MERCHANT_URL })
    const newest = await provider.renewToken(String(newer?.value))
    expect(newest).toBeDefined()
    expect(await provider.renewToken(String(newest?.value))).toBeUndefined()
  })

  it('requests nothing for a url outside apiUrls, even if the token has expired', async () => {
    const { provider, clock, endpoint } = rig()
    const token = await provider.getToken()
    await clock.advance(1_000_000)
    expect(await provider.renewToken(token, { url: 'https://x.example' })).toBeUndefined()
    expect(endpoint.count).toBe(1)
  })

  it('says of each call that waited for a renewal which limit held that back', async () => {
    const made = long()
    const token = await made.provider.getToken()
    const gate = Promise.withResolvers<void>()
    made.endpoint.otherwise = async (init) => {
      await gate.promise
      return await status(429, '', { 'retry-after': '60' })(init)
    }
    const forced = rejection(made.provider.getToken({ forceRefresh: true }))
    const paths = ['stores/1', 'stores/2', 'stores/3']
    const calls = paths.map((path) => made.provider.renewToken(token, { url: `${MERCHANT}/${path}` }))
    calls.push(made.provider.renewToken(token)) // of an API that is not named
    await settled()
    gate.resolve()
    await forced
    const [one] = await Promise.all(calls.map((call) => rejection<TokenRequestError>(call)))
    expect(one?.status).toBe(429)
    const suppressed = made.events.filter(({ type }) => type === 'renewal-suppressed')
    const urls = [...paths.map((path) => `${MERCHANT}/${path}`), undefined]
    expect(suppressed.map((event) => 'url' in event && event.url)).toEqual(urls.map((url) => url ?? false))
    expect(suppressed).toMatchObject(urls.map(() => ({ reason: 'cooldown' })))
  })

  it('says the same of calls that were rejected with the token before, too', async () => {
    const { api, endpoint, events, provider } = attachedRig()
    await api.call()
    await provider.getToken({ forceRefresh: true })
    const gate = Promise.withResolvers<void>()
    endpoint.otherwise = async (init) => {
      await gate.promise
      return await status(429, '', { 'retry-after': '60' })(init)
    }
    const forced = rejection(provider.getToken({ forceRefresh: true }))
    await settled()
    const calls = [1, 2, 3, 4].map(() => api.call(REFUSED_URL))
    await Promise.all(calls)
    gate.resolve()
    await forced
    await settled()
    const reasons = events.flatMap((event) => (event.type === 'renewal-suppressed' ? [event.reason] : []))
    expect(reasons).toEqual(['accepted', 'cooldown', 'cooldown', 'cooldown'])
  })

  it('waits for the gap after a renewal that failed, too, when the cooldown is over', async () => {
    const { provider, endpoint, clock, events } = long()
    const token = await provider.getToken()
    endpoint.otherwise = status(503)
    await failedUntilGap(clock, () => provider.renewToken(token, { url: MERCHANT_URL }))
    const suppressed = events.at(-1)
    expect(suppressed).toMatchObject({ type: 'renewal-suppressed', reason: 'limited' })
    const waitMs = suppressed?.type === 'renewal-suppressed' ? Number(suppressed.nextRenewalMs) : 0
    endpoint.otherwise = granted()
    await clock.advance(waitMs - 1)
    expect(await provider.renewToken(token, { url: MERCHANT_URL })).toBeUndefined()
    expect(await provider.renewToken(token, { url: IN_STORE_URL })).toBeDefined()
  })

  it('resolves with undefined where the endpoint issues the rejected token again, cached or not', async () => {
    const made = rig()
    made.endpoint.otherwise = granted({ access_token: 'the.same.token' })
    expect(await made.provider.renewToken('the.same.token', { url: MERCHANT_URL })).toBeUndefined()
    expect(made.endpoint.count).toBe(1)
    expect(await made.provider.renewToken('the.same.token', { url: MERCHANT_URL })).toBeUndefined()
    expect(made.endpoint.count).toBe(2)
  })
})

describe('processes with a store', () => {
  it.each([
    ['with leases', true],
    ['without leases', false],
  ])('wait for the gap after the renewal of another one: store %s', async (_, leases) => {
    const { fleet, other } = await oneRenewed(leases)
    await fleet.skip(400)
    other.events.length = 0
    expect(await renewedAfterRejection(fleet, other)).toBe(false)
    expect(other.events.at(-1)).toMatchObject({ reason: 'limited', nextRenewalMs: FIRST_GAP_MS - 400 })
    await fleet.skip(AFTER_GAP_MS)
    expect(await renewedAfterRejection(fleet, other)).toBe(true)
  })

  it('wait for the gap after a renewal of another one that failed', async () => {
    const fleet = longLived()
    const [one, other] = [await fleet.begin(), await fleet.begin()]
    fleet.endpoint.answers.push(status(400))
    await rejection(one.provider.renewToken(one.token, { url: MERCHANT_URL }))
    expect(await other.provider.renewToken(other.token, { url: MERCHANT_URL })).toBeUndefined()
    expect(reasonOf(other)).toBe('limited')
    expect(fleet.endpoint.count).toBe(2)
  })

  it('do not wait for a lease while the gap forbids a renewal', async () => {
    const { fleet, other } = await oneRenewed()
    const old = await other.provider.getToken()
    const newer = await other.provider.renewToken(old, { url: MERCHANT_URL })
    fleet.store.hold(fleet.store.tokenKey, 5_000)
    const renewal = other.provider.renewToken(String(newer?.value), { url: MERCHANT_URL })
    expect(await fleet.tookMs(renewal)).toBe(0)
    expect(await renewal).toBeUndefined()
    expect(fleet.endpoint.count).toBe(2)
  })

  it('do not hold back another API that rejects the token at the same time', async () => {
    const { fleet, one } = await oneRenewed()
    await fleet.skip(AFTER_GAP_MS)
    expect(await renewedAfterRejection(fleet, one)).toBe(true)
    const token = await one.provider.getToken()
    const renewals = [MERCHANT_URL, IN_STORE_URL].map((url) => one.provider.renewToken(token, { url }))
    expect([token, undefined]).not.toContain((await Promise.all(renewals))[1])
    expect(fleet.endpoint.count).toBe(4)
  })

  it.each([0, 1])('do not announce the gap for a token that expired %i ms ago', async (agoMs) => {
    const { fleet, one, other } = await oneRenewed()
    const old = await other.provider.getToken()
    fleet.store.faults.get = (run) => {
      fleet.store.faults.get = undefined
      const { expiresAt } = one.provider.currentToken() ?? { expiresAt: 0 }
      fleet.clock.stepWallClock(expiresAt - 10_000 - fleet.clock.epochMs() + agoMs)
      return run()
    }
    other.events.length = 0
    await other.provider.renewToken(old, { url: MERCHANT_URL })
    expect(other.events.map(({ type }) => type)).not.toContain('renewal-suppressed')
  })

  it('do not announce a gap that has ended before they could return the lease', async () => {
    const fleet = longLived()
    const [one, other] = [await fleet.begin(), await fleet.begin()]
    fleet.store.faults.lease = slow(fleet.clock, 200)
    const renewal = other.provider.renewToken(other.token, { url: MERCHANT_URL })
    await settled()
    fleet.store.faults.lease = undefined
    fleet.endpoint.answers.push(status(400))
    await rejection(one.provider.renewToken(one.token, { url: MERCHANT_URL })) // the gap begins
    fleet.store.faults.release = slow(fleet.clock, FIRST_GAP_MS - 100)
    expect(await fleet.tookMs(renewal)).toBe(FIRST_GAP_MS + 100)
    expect(await renewal).toBeUndefined()
    expect(reasonOf(other)).toBeUndefined()
    expect(fleet.endpoint.count).toBe(2)
  })

  it("measure the gap by the store's clock, whatever the clocks of the machines say", async () => {
    const { fleet } = await oneRenewed()
    await fleet.skip(FIRST_GAP_MS - 1)
    const clock = elsewhere(fleet.clock, { monotonicMs: 12_345_678, epochMs: -5 * HOUR_MS })
    const late = fleet.start({ clock })
    expect(await renewedAfterRejection(fleet, late)).toBe(false)
    await fleet.skip(1)
    expect(await renewedAfterRejection(fleet, late)).toBe(true)
  })

  it('do not limit another client', async () => {
    const { fleet } = await oneRenewed()
    expect(await renewedAfterRejection(fleet, fleet.start({ clientId: 'client-2' }))).toBe(true)
  })

  it.each([
    { seconds: 10, processes: 3, hours: 3 },
    { seconds: 300, processes: 4, hours: 30 },
  ])(
    'renew as often as one process does for an API that rejects everything: $processes, a call every $seconds s',
    async ({ seconds, processes, hours }) => {
      const renewals = async (count: number): Promise<number> => {
        const fleet = longLived()
        const started = Array.from({ length: count }, () => fleet.start())
        for (let step = 0; step * seconds < hours * 3_600; step += 1) {
          await renewedAfterRejection(fleet, started[step % count] as Process)
          await fleet.clock.advance(seconds * 1_000)
        }
        thinOut()
        return fleet.endpoint.count
      }
      expect(await renewals(processes)).toBe(await renewals(1))
    },
  )

  it('have limits of their own while the store fails', async () => {
    const { fleet, one, other } = await oneRenewed()
    fleet.store.faults.get = FAILURES.rejects
    expect(await renewedAfterRejection(fleet, other)).toBe(true)
    expect(await renewedAfterRejection(fleet, one)).toBe(false)
  })

  interface AttachedFleet {
    readonly fleet: Fleet
    readonly one: ScriptedApi
    readonly other: ScriptedApi
    /** Starts a further process. */
    readonly start: () => ScriptedApi
  }

  /** Two processes whose tokens are attached to a scripted API. */
  function attachedFleet(): AttachedFleet {
    const fleet = longLived()
    const issued = new Issued(fleet.endpoint, { expires_in: 10 * 86_400 })
    const start = () => new ScriptedApi(fleet.start().provider, issued)
    return { fleet, one: start(), other: start(), start }
  }

  it('share doubt: a renewal of one that did not help makes the other count', async () => {
    const { fleet, one, other } = attachedFleet()
    await one.call()
    await one.call(REFUSED_URL)
    await fleet.skip(AFTER_GAP_MS)
    expect(await other.call()).toEqual([200, 2])
    await other.callsBeforeRenewal(REFUSED_URL)
    expect(fleet.endpoint.count).toBe(2)
    expect(await other.call(REFUSED_URL)).toEqual([401, 2, 3])
  })

  it('are in doubt after one acquired the token that another had requested', async () => {
    const { one, other } = attachedFleet()
    await one.call()
    await other.call()
    one.accepts = (token) => token > 1
    await one.call()
    expect(await other.call(REFUSED_URL)).toEqual([401, 1, 2])
    await other.call()
    expect(await other.call(REFUSED_URL)).toEqual([401, 2])
  })

  it('that start after a renewal that helped are in no doubt: they lose no call to the next revocation', async () => {
    const { fleet, one, start } = attachedFleet()
    await one.call()
    for (const token of [2, 3]) {
      await fleet.skip(AFTER_GAP_MS)
      const next = start()
      next.accepts = (sent) => sent >= token
      expect(await next.call()).toEqual([200, token - 1, token])
    }
    expect(fleet.endpoint.count).toBe(3)
  })

  it.each([
    {
      what: 'one renewed for a call with a 401 of its own',
      renew: async ({ start }: AttachedFleet) => void (await start().call(REFUSED_URL)),
    },
    {
      what: 'one renewed, and ended before it wrote that this helped',
      renew: async ({ fleet, start }: AttachedFleet) => {
        const api = start()
        api.accepts = (token) => {
          if (token > 1) fleet.store.faults.set = FAILURES.rejects
          return token > 1
        }
        await api.call()
        fleet.store.faults.set = undefined
      },
    },
  ])('that make one call each lose none to a revocation a minute after $what', async ({ renew }) => {
    const made = attachedFleet()
    const { fleet, start } = made
    await start().call()
    await renew(made)
    expect(await start().call()).toEqual([200, 2])
    await fleet.skip(MAX_COUNTING_MS)
    const next = start()
    next.accepts = (token) => token > 2
    expect(await next.call()).toEqual([200, 2, 3])
  })

  it('are in doubt after one acquired, for a rejected call, the token that another had asked for', async () => {
    const fleet = longLived()
    const issued = new Issued(fleet.endpoint, { expires_in: 10 * 86_400 })
    const [one, other] = [fleet.start(), fleet.start()]
    const api = new ScriptedApi(other.provider, issued)
    await api.call()
    await fleet.skip(1_000)
    await one.provider.getToken({ forceRefresh: true })
    expect(await api.call(REFUSED_URL)).toEqual([401, 1, 2])
    expect(await api.call()).toEqual([200, 2])
    expect(await api.call(REFUSED_URL)).toEqual([401, 2])
    expect(fleet.endpoint.count).toBe(2)
  })

  describe('write that a doubt has ended', () => {
    /** A process with a token. What it asks of the store from now on is recorded. */
    async function begun(fleet: Fleet = longLived()) {
      const issued = new Issued(fleet.endpoint, { expires_in: 10 * 86_400 })
      const { provider, events } = fleet.start()
      const api = new ScriptedApi(provider, issued)
      await api.call()
      fleet.store.asked.length = 0
      return { fleet, provider, api, events }
    }

    it('once for all calls that a renewal helped, and with the lease', async () => {
      const { fleet, api } = await begun()
      api.accepts = (token) => token > 1
      await Promise.all([api.call(), api.call(), api.call()])
      await settled()
      const operations = ['get', 'lease', 'get', 'set', 'release']
      expect(fleet.store.operations).toEqual([...operations, 'lease', 'get', 'set', 'release'])
    })

    it('not while another process has the lease, which writes its own result', async () => {
      const { fleet, api } = await begun()
      let release = (): void => {}
      api.accepts = (token) => {
        if (token > 1) release = fleet.store.hold(fleet.store.tokenKey, 60_000)
        return token > 1
      }
      await api.call()
      await settled()
      expect(fleet.store.operations.slice(-2)).toEqual(['release', 'lease'])
      release()
    })

    it('and release the lease if the write fails', async () => {
      const { fleet, api, events } = await begun()
      api.accepts = (token) => {
        if (token > 1) fleet.store.faults.set = FAILURES.rejects
        return token > 1
      }
      await api.call()
      await settled()
      expect(fleet.store.operations.slice(-2)).toEqual(['set', 'release'])
      expect(fleet.store.leased).toBe(0)
      expect(failuresOf(events)).toMatchObject([{ operation: 'set' }])
    })

    it('not if the look before it fails', async () => {
      const { fleet, api, events } = await begun()
      api.accepts = (token) => {
        if (token > 1) fleet.store.faults.get = FAILURES.rejects
        return token > 1
      }
      expect(await api.call()).toEqual([200, 1, 2])
      await settled()
      expect(fleet.store.operations.slice(-3)).toEqual(['lease', 'get', 'release'])
      expect(failuresOf(events)).toMatchObject([{ operation: 'get' }])
    })

    it('not while the store fails', async () => {
      const { fleet, api } = await begun()
      Object.assign(fleet.store.faults, { get: FAILURES.rejects, set: FAILURES.rejects })
      api.accepts = (token) => token > 1
      expect(await api.call()).toEqual([200, 1, 2])
      await settled()
      expect(fleet.store.operations).not.toContain('lease')
    })

    it('before close() resolves, and leave no lease behind', async () => {
      const { fleet, api, provider } = await begun()
      fleet.store.faults.lease = slow(fleet.clock, 300)
      api.accepts = (token) => token > 1
      const calling = api.call()
      await fleet.pass(400)
      await calling
      const closing = provider.close()
      expect(await fleet.tookMs(closing)).toBe(200)
      expect(fleet.store.leased).toBe(0)
    })

    it('not over a token that is requested meanwhile, in a store without leases', async () => {
      const { fleet, api, provider } = await begun(longLived({ leases: false }))
      let writes = 0
      api.accepts = (token) => {
        const late = slow(fleet.clock, 500)
        if (token > 1) fleet.store.faults.set = (run) => (writes++ === 0 ? late(run) : run())
        return token > 1
      }
      await api.call()
      const forced = provider.getToken({ forceRefresh: true })
      await fleet.pass(1_000)
      expect(await fleet.tokenOf()).toBe((await forced).value)
    })
  })

  it('do not get back from the store what a renewal that helped has ended', async () => {
    const { one } = attachedFleet()
    await one.call()
    for (const token of [2, 3, 4]) {
      one.accepts = (sent) => sent >= token
      expect(await one.call()).toEqual([200, token - 1, token])
    }
  })
})
