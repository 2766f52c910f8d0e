/**
 * What a 401 means and how often it renews the token: for an API with attachments, for callers without, and in processes
 * with a store. The contract's own examples are in worked-examples.test.ts, the numbers of the limits in request-limits.test.ts.
 */
import { describe, expect, it } from 'vitest'
import { BUCKET, FIRST_DOUBT, MAX_ROW_MS } from '../../src/token/limits/renewals.ts'
import { elsewhere } from '../store/fleet.ts'
import { FAILURES } from '../store/memory-store.ts'
import { longLived, renewedAfterRejection } from '../store/scenes.ts'
import { settled } from '../support/clock.ts'
import { DAY_MS, HOUR_MS } from '../support/periods.ts'
import { granted, IN_STORE_URL, MERCHANT_URL, type Rig, rig, status, withoutJitter } from './harness.ts'
import {
  type AttachedRig,
  attachedFleet,
  attachedRig,
  Issued,
  inDoubt,
  OTHER_URL,
  REFUSED_URL,
  renewedOnSchedule,
  ScriptedApi,
  SLOW_URL,
} from './scripted-api.ts'

withoutJitter()

/** In doubt for the first time, renewals are held back for so long. */
const FIRST_DOUBT_MS = FIRST_DOUBT * 1_000

const suppressedIn = ({ events }: Pick<Rig, 'events'>) =>
  events.filter((event) => event.type === 'renewal-suppressed')
const reasonOf = (made: Pick<Rig, 'events'>): unknown => suppressedIn(made).at(-1)?.reason

describe('a 401 of an API with attachments', () => {
  it('to a stream with a token that is no longer in use changes nothing for the next call', async () => {
    const { api, events } = attachedRig()
    await api.call()
    const body = new ReadableStream({ start: (controller) => controller.close() })
    const slow = api.call(SLOW_URL, { method: 'POST', body, duplex: 'half' } as RequestInit)
    await settled()
    api.accepts = (sent) => sent >= 2
    expect(await api.call()).toEqual([200, 1, 2])
    expect(events.at(-1)).toMatchObject({ type: 'token-renewed', reason: 'rejected' })
    api.answerSlow()
    expect(await slow).toEqual([401, 1])
    expect(await api.call()).toEqual([200, 2])
  })

  it('is about its call while the API has accepted the token, also where the time holds a renewal back', async () => {
    const made = attachedRig()
    await made.api.call()
    await made.api.call(REFUSED_URL)
    await made.api.call()
    for (let nth = 0; nth < FIRST_DOUBT; nth += 1) await made.api.call(REFUSED_URL)
    expect(suppressedIn(made).map(({ reason }) => reason)).toEqual(Array(FIRST_DOUBT).fill('accepted'))
  })

  it.each([200, 304, 404, 409])(
    'renews and repeats the call, however often tokens are revoked, where all others are answered with %i',
    async (otherStatus) => {
      const { api, events } = attachedRig()
      api.otherStatus = otherStatus
      await api.call(OTHER_URL)
      for (const token of [2, 3, 4]) {
        api.accepts = (sent) => sent >= token
        expect(await api.call(OTHER_URL)).toEqual([otherStatus, token - 1, token])
        await api.call(OTHER_URL)
      }
      expect(suppressedIn({ events })).toEqual([])
    },
  )

  it.each([
    { otherStatus: 204, helps: true },
    { otherStatus: 302, helps: true },
    { otherStatus: 403, helps: true },
    { otherStatus: 499, helps: true },
    { otherStatus: 500, helps: false },
  ])(
    'may be about the token after one that was repeated and got a $otherStatus: $helps',
    async ({ otherStatus, helps }) => {
      const { api, endpoint } = attachedRig()
      await api.call()
      api.accepts = (token) => token > 1
      api.otherStatus = otherStatus
      expect(await api.call(OTHER_URL)).toEqual([otherStatus, 1, 2])
      await api.call()
      await api.call(REFUSED_URL)
      expect(endpoint.count).toBe(helps ? 3 : 2)
    },
  )

  it.each([
    { otherStatus: 0, isAccepted: false },
    { otherStatus: 101, isAccepted: true },
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
    await settled()
    await api.call()
    await api.call(REFUSED_URL)
    await api.call()
    await clock.advance(FIRST_DOUBT_MS)
    await api.callsBeforeRenewal(REFUSED_URL)
    api.answerSlow()
    expect(await late).toEqual([200, 1])
    await api.call(REFUSED_URL)
    expect(endpoint.count).toBe(3)
  })

  it('counts once, however often its call is sent', async () => {
    const { api } = await renewedOnSchedule()
    expect(await api.call(REFUSED_URL)).toEqual([401, 2, 1, 3])
    await settled()
    for (let nth = 1; nth < FIRST_DOUBT; nth += 1) expect(await api.call(REFUSED_URL)).toEqual([401, 3, 1])
  })

  it('counts once for all calls that wait for a renewal which fails', async () => {
    const { api, clock, endpoint } = attachedRig()
    await api.call()
    endpoint.answers.push(status(503))
    expect(new Set((await api.calls(50, REFUSED_URL)).map(String))).toEqual(new Set(['401,1']))
    await clock.advance(FIRST_DOUBT_MS)
    for (let nth = 2; nth < FIRST_DOUBT; nth += 1) expect(await api.call(REFUSED_URL)).toEqual([401, 1])
    expect(await api.call(REFUSED_URL)).toEqual([401, 1, 2])
  })

  it('renews in doubt, too, but not within n seconds of the renewal before', async () => {
    const made = attachedRig()
    const { api, clock } = made
    await api.call()
    await api.call(REFUSED_URL)
    await api.call()
    api.accepts = (token) => token > 2
    await clock.advance(FIRST_DOUBT_MS - 1)
    for (let nth = 0; nth < 2 * FIRST_DOUBT; nth += 1) expect(await api.call()).toEqual([401, 2])
    await clock.advance(1)
    expect(await api.call()).toEqual([200, 2, 3])
  })

  it('says in how long the next one may renew, if it is the time that holds it back', async () => {
    const made = attachedRig()
    const { api, clock } = made
    api.accepts = () => false
    await api.call()
    await clock.advance(FIRST_DOUBT_MS - 1)
    await api.call()
    await clock.advance(1)
    await api.call()
    const [first, second] = suppressedIn(made)
    expect(first).toMatchObject({ reason: 'limited', nextRenewalMs: 1 })
    expect(second).toMatchObject({ reason: 'limited' })
    expect(second).not.toHaveProperty('nextRenewalMs')
  })

  it('puts no other API in doubt', async () => {
    const { api } = await inDoubt()
    await api.call(IN_STORE_URL)
    api.accepts = (token) => token > 2
    expect(await api.call(IN_STORE_URL)).toEqual([200, 2, 3])
  })

  it('renews at once again where a call was repeated with a token that another API needed, and accepted', async () => {
    const { api } = await inDoubt()
    api.accepts = (token) => token > 2
    const late = api.call(SLOW_URL)
    await settled()
    await api.call(IN_STORE_URL)
    api.answerSlow() // a 401: it is repeated
    await settled()
    api.answerSlow()
    expect(await late).toEqual([200, 2, 3])
    api.accepts = (token) => token > 3
    expect(await api.call()).toEqual([200, 3, 4])
  })

  it('renews at once after a scheduled renewal, which puts no API in doubt', async () => {
    const { api } = await renewedOnSchedule()
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
    expect(await late).toEqual([200, 1, 2])
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
  /** Less than the shortest pause after a failed background renewal, for a token with half an hour left. */
  const IN_PAUSE_MS = 60_000
  /** More than the longest one. */
  const AFTER_PAUSE_MS = 10 * 60_000
  const MARGIN_MS = 10_000

  /** A scheduled renewal has yielded the second token, of which the API does not know; the first one lives for 30 min more. */
  async function unknownYet(fields?: Record<string, unknown>): Promise<AttachedRig> {
    const made = await renewedOnSchedule(fields)
    made.api.accepts = (token) => token === 1
    return made
  }

  /** `answer` answers a call that was rejected with the second token and is repeated with the first. */
  async function repeatedWithBefore() {
    const made = await unknownYet()
    const late = made.api.call(SLOW_URL)
    await settled()
    made.api.answerSlow() // a 401: it is repeated
    await settled()
    const answer = async () => {
      made.api.answerSlow()
      await settled()
      made.api.answerSlow() // it may be sent once more
      return await late
    }
    return { ...made, answer }
  }

  it('is tried again after the pause of a failed background renewal, without a token request', async () => {
    const { api, clock, endpoint } = await unknownYet()
    expect(await api.call()).toEqual([200, 2, 1])
    await clock.advance(IN_PAUSE_MS)
    expect(await api.call()).toEqual([200, 1])
    expect(await api.call(IN_STORE_URL)).toEqual([200, 1])
    await clock.advance(AFTER_PAUSE_MS)
    expect(await api.call()).toEqual([200, 2, 1])
    await clock.advance(IN_PAUSE_MS)
    expect(await api.call()).toEqual([200, 1])
    expect(endpoint.count).toBe(2)
  })

  it('is used when the one before ends', async () => {
    const { api, clock, endpoint } = await unknownYet()
    await api.call()
    clock.stepWallClock(0.5 * HOUR_MS)
    api.accepts = (token) => token === 2
    expect(await api.call()).toEqual([200, 2])
    expect(endpoint.count).toBe(2)
  })

  it('is tried at once where the API rejects the one before', async () => {
    const { api, endpoint } = await unknownYet()
    await api.call()
    api.accepts = (token) => token === 2
    expect(await api.call()).toEqual([200, 1, 2])
    expect(await api.call()).toEqual([200, 2])
    expect(endpoint.count).toBe(2)
  })

  it('is what renewToken, called by hand, yields for the one before, but not for an older one', async () => {
    const { api, endpoint, issued, provider } = await unknownYet()
    await api.call()
    const insteadOf = async (token: string): Promise<number> =>
      issued.numberOf(String((await provider.renewToken(token, { url: MERCHANT_URL }))?.value))
    expect(await insteadOf('an.older.token')).toBe(1)
    expect(await insteadOf(String(provider.currentToken()?.value))).toBe(2)
    expect(endpoint.count).toBe(2)
  })

  it('is tried by a call with a 401 of its own; the one that it renews does not displace the one before, either', async () => {
    const { api, endpoint } = await unknownYet()
    await api.call()
    expect(await api.call(REFUSED_URL)).toEqual([401, 1, 2, 3])
    expect(await api.call()).toEqual([200, 3, 1])
    expect(await api.call()).toEqual([200, 1])
    expect(endpoint.count).toBe(3)
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
      const { api } = await unknownYet()
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
      expect(await answer()).toEqual([200, 2, 1])
      api.accepts = (token) => token === 3
      expect(await api.call()).toEqual([200, 3])
    })

    it('has not helped because the call is accepted with the one before', async () => {
      const made = await replacedMeanwhile(({ api }) => api.call(REFUSED_URL))
      const { api } = made
      expect(await made.answer()).toEqual([200, 2, 1])
      api.accepts = () => true
      expect(await api.call()).toEqual([200, 3])
      expect(await api.call(REFUSED_URL)).toEqual([401, 3])
      expect(reasonOf(made)).toBe('accepted')
    })

    it('is followed by the third where the call is rejected with the one before, too, without a request', async () => {
      const { api, answer, endpoint } = await replacedMeanwhile()
      api.accepts = (token) => token === 3
      expect(await answer()).toEqual([200, 2, 1, 3])
      expect(endpoint.count).toBe(3)
    })
  })

  it('has not helped because a call that was repeated with the one before is accepted late', async () => {
    const made = attachedRig()
    const { api, clock, endpoint } = made
    await api.call()
    api.accepts = (token) => token > 1
    const late = api.call(SLOW_URL)
    await settled()
    api.answerSlow() // a 401: it is repeated with the second token
    await settled()
    await api.call()
    await clock.advance(FIRST_DOUBT_MS)
    await api.callsBeforeRenewal(REFUSED_URL)
    await api.call(REFUSED_URL)
    api.accepts = (token) => token === 2
    expect(await api.call()).toEqual([200, 3, 2])
    api.answerSlow()
    expect(await late).toEqual([200, 1, 2])
    await clock.advance(2 * FIRST_DOUBT_MS)
    expect(await api.call(REFUSED_URL)).toEqual([401, 2, 3])
    expect(endpoint.count).toBe(3)
  })

  it('is forgotten when it has no life left: then another one is requested', async () => {
    const { api, clock, endpoint } = await unknownYet({ expires_in: 600 })
    await api.call()
    await clock.advance(AFTER_PAUSE_MS)
    expect(await api.call()).toEqual([200, 1])
    expect(endpoint.count).toBe(3)
    expect(await api.call()).toEqual([200, 3, 1])
  })

  it.each([0, MARGIN_MS])(
    'is replaced when it was rejected and the one before has %i ms left',
    async (leftMs) => {
      const { api, clock, endpoint } = await unknownYet()
      await clock.advance(0.5 * HOUR_MS - leftMs)
      api.accepts = (token) => token !== 2
      expect(await api.call()).toEqual([200, 2, 3])
      expect(endpoint.count).toBe(3)
    },
  )

  it('does not displace the one before after a renewal for a rejected call, either', async () => {
    const { api, endpoint } = attachedRig()
    await api.call()
    api.accepts = (token) => token === 1
    expect(await api.call(REFUSED_URL)).toEqual([401, 1, 2])
    expect(await api.call()).toEqual([200, 2, 1])
    expect(await api.call()).toEqual([200, 1])
    expect(endpoint.count).toBe(2)
  })

  it('does not displace the one in use, even if another API has accepted only an earlier one', async () => {
    const { api, provider } = attachedRig()
    await api.call(IN_STORE_URL)
    await provider.getToken({ forceRefresh: true })
    await api.call()
    await provider.getToken({ forceRefresh: true })
    api.accepts = (token) => token === 2
    expect(await api.call()).toEqual([200, 3, 2])
  })

  it('does not displace the one before for good, although that was accepted only in a late answer', async () => {
    const { api, provider } = attachedRig()
    const late = api.call(SLOW_URL)
    await settled()
    await provider.getToken({ forceRefresh: true })
    api.accepts = (token) => token === 1
    api.answerSlow()
    await late
    expect(await api.call(REFUSED_URL)).toEqual([401, 2, 1, 3])
    expect(await api.call()).toEqual([200, 3, 1])
  })

  it('is used for an API that has accepted it, until another one accepts the one before', async () => {
    const { api, endpoint } = await unknownYet()
    api.accepts = () => true
    await api.call()
    api.accepts = (token) => token === 1
    expect(await api.call(IN_STORE_URL)).toEqual([200, 2, 1])
    expect(endpoint.count).toBe(2)
  })

  it('is replaced where the API has accepted it before', async () => {
    const { api } = await unknownYet()
    api.accepts = () => true
    await api.call()
    api.accepts = (token) => token !== 2
    expect(await api.call()).toEqual([200, 2, 3])
  })

  it('is replaced where the API has accepted it, and a call with the one before is accepted late', async () => {
    const { api } = attachedRig()
    const late = api.call(SLOW_URL)
    await settled()
    await api.call()
    api.accepts = (token) => token > 1
    expect(await api.call()).toEqual([200, 1, 2])
    await api.call()
    api.accepts = () => true
    api.answerSlow()
    await late
    api.accepts = (token) => token > 2
    expect(await api.call()).toEqual([200, 2, 3])
  })

  describe('and a call that cannot be repeated', () => {
    it('is rejected with it: the one before is in use for the next call, and nothing is requested', async () => {
      const { api, endpoint } = await unknownYet()
      expect(await api.callOnce()).toEqual([401, 2])
      expect(await api.call()).toEqual([200, 1])
      expect(endpoint.count).toBe(2)
    })

    it('is rejected with the one before: another one is requested for the next call', async () => {
      const { api, endpoint } = await unknownYet()
      await api.call()
      api.accepts = (token) => token > 2
      expect(await api.callOnce()).toEqual([401, 1])
      expect(await api.call()).toEqual([200, 3])
      expect(endpoint.count).toBe(3)
    })

    it('is rejected while the API is in doubt and accepts others: nothing is requested', async () => {
      const made = await inDoubt()
      made.api.accepts = () => false
      expect(await made.api.callOnce()).toEqual([401, 2])
      expect(reasonOf(made)).toBe('accepted')
      expect(made.endpoint.count).toBe(2)
    })
  })

  it('is the only one where the token endpoint issues the same again: that is limited like a renewal', async () => {
    const made = attachedRig({ access_token: 'the.same.token' })
    const { api } = made
    api.accepts = () => false
    expect(await api.call()).toEqual([401, 1])
    expect(made.endpoint.count).toBe(2)
    await made.clock.advance(FIRST_DOUBT_MS)
    await api.callsBeforeRenewal()
    expect([reasonOf(made), made.endpoint.count]).toEqual(['limited', 2])
    made.endpoint.otherwise = made.issued.granted()
    api.accepts = (token) => token === 2
    expect(await api.call()).toEqual([200, 1, 2])
  })
})

describe('renewToken, called by hand', () => {
  /** A provider whose tokens live for 10 days. */
  function long(): Rig {
    const made = rig([], { retries: 0 })
    made.endpoint.otherwise = granted({ expires_in: 10 * 86_400 })
    return made
  }

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

  /** No renewal for the merchant API is left. */
  async function spent(): Promise<Rig> {
    const made = long()
    for (let nth = 0; nth < BUCKET; nth += 1) expect(await renewed(made)).toBe(true)
    expect(await renewed(made)).toBe(false)
    return made
  }

  it('renews at once each time, until the bucket of the API is empty', async () => {
    const made = await spent()
    const [suppressed] = suppressedIn(made)
    expect(suppressed?.reason).toBe('limited')
    await made.clock.advance(Number(suppressed?.nextRenewalMs) - 1)
    expect(await renewed(made)).toBe(false)
    await made.clock.advance(1)
    expect(await renewed(made)).toBe(true)
  })

  it('is limited for each apiUrls entry by itself, and without a url', async () => {
    const made = await spent()
    expect(await renewed(made, 'https://api.test.example/merchant/refunds?a=b')).toBe(false)
    expect(await renewed(made, IN_STORE_URL)).toBe(true)
    const newer = await made.provider.renewToken(await made.provider.getToken())
    expect(newer).toBeDefined()
  })

  it('is not limited for a token that has expired', async () => {
    const made = await spent()
    const token = await made.provider.getToken()
    made.clock.stepWallClock(10 * DAY_MS)
    expect(await made.provider.renewToken(token, { url: MERCHANT_URL })).toBeDefined()
    expect(made.endpoint.count).toBe(BUCKET + 2)
  })

  it('renews nothing for a url outside apiUrls, even if the token has expired', async () => {
    const { provider, clock, endpoint } = rig()
    const token = await provider.getToken()
    const url = new URL('https://x.example')
    expect(await provider.renewToken(token, { url })).toBeUndefined()
    await clock.advance(1_000_000)
    expect(await provider.renewToken(token, { url })).toBeUndefined()
    expect(endpoint.count).toBe(1)
  })

  it('renews at once although the API is in doubt and accepts attached calls, for which its 401s do not count', async () => {
    const { api, endpoint, provider } = await inDoubt()
    for (let nth = 1; nth < FIRST_DOUBT; nth += 1) expect(await renewed({ provider })).toBe(true)
    await api.call(REFUSED_URL)
    expect(endpoint.count).toBe(2 + FIRST_DOUBT - 1)
  })

  it('leaves no doubt about the API, which nobody would end: an attached call renews at its first 401', async () => {
    const { api, provider } = attachedRig()
    await api.call()
    api.accepts = (token) => token > 1
    expect(await renewed({ provider })).toBe(true)
    expect(await api.call()).toEqual([200, 2])
    api.accepts = (token) => token > 2
    expect(await api.call()).toEqual([200, 2, 3])
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

it('a renewal has its retries, although the API accepts another call with the current token meanwhile', async () => {
  const made = rig([], { retries: 1 })
  const issued = new Issued(made.endpoint, { expires_in: 36_000 })
  const api = new ScriptedApi(made.provider, issued)
  await api.call()
  await api.call(REFUSED_URL)
  await made.clock.advance(FIRST_DOUBT_MS)
  for (let nth = 1; nth < FIRST_DOUBT; nth += 1) await api.call(REFUSED_URL)
  made.endpoint.answers.push(async () => {
    expect(await api.call()).toEqual([200, 2])
    return new Response('', { status: 503 })
  })
  const renewing = api.call(REFUSED_URL)
  await settled(20)
  await made.clock.advance(1_000)
  expect((await renewing).slice(-1)).toEqual([3])
  expect(made.endpoint.count).toBe(4)
})

describe('processes with a store', () => {
  /** One process has renewed in vain, and another one has found its token: both are in doubt. */
  async function bothInDoubt() {
    const { fleet, start } = attachedFleet()
    const [one, other] = [start(), start()]
    await one.api.call()
    await other.api.call()
    expect(await one.api.call(REFUSED_URL)).toEqual([401, 1, 2])
    await fleet.skip(FIRST_DOUBT_MS)
    other.api.accepts = (token) => token > 1
    return { fleet, other }
  }

  it('share doubt: a renewal of one that did not help makes the other count', async () => {
    const { fleet, other } = await bothInDoubt()
    expect(await other.api.call(REFUSED_URL)).toEqual([401, 1, 2])
    for (let nth = 2; nth < FIRST_DOUBT; nth += 1) await other.api.call(REFUSED_URL)
    expect(fleet.endpoint.count).toBe(2)
    await other.api.call(REFUSED_URL)
    expect(fleet.endpoint.count).toBe(3)
  })

  it('end a doubt for themselves by a call that is accepted with a token that they found', async () => {
    const { fleet, other } = await bothInDoubt()
    expect(await other.api.call()).toEqual([200, 1, 2])
    other.api.accepts = (token) => token > 2
    expect(await other.api.call()).toEqual([200, 2, 3])
    expect(fleet.endpoint.count).toBe(3)
  })

  it.each([
    ['n seconds', FIRST_DOUBT_MS - 1],
    ['n 401s in a row', FIRST_DOUBT_MS + 1_000],
  ])('wait for %s after a renewal of another one that failed', async (_, ms) => {
    const { fleet, start } = attachedFleet()
    const [one, other] = [start(), start()]
    await one.api.call()
    await other.api.call()
    fleet.endpoint.answers.push(status(400))
    await one.api.call(REFUSED_URL)
    await fleet.skip(ms)
    expect(await other.api.call(REFUSED_URL)).toEqual([401, 1])
    expect(suppressedIn(other)).toMatchObject([{ reason: 'accepted' }])
    expect(fleet.endpoint.count).toBe(2)
  })

  it('send a call three times at most, however many tokens there are', async () => {
    const { fleet, start } = attachedFleet()
    const { api, provider } = start()
    await api.call()
    await fleet.skip(1_000)
    await provider.getToken({ forceRefresh: true })
    await fleet.skip(1_000)
    await start().provider.getToken({ forceRefresh: true })
    await fleet.skip(1_000)
    api.accepts = () => false
    expect(await api.call()).toEqual([401, 2, 1, 3])
  })

  it('are in no doubt after a token that another one had asked for, which is no renewal', async () => {
    const { fleet, start } = attachedFleet()
    const { api } = start()
    await api.call()
    await fleet.skip(1_000)
    await start().provider.getToken({ forceRefresh: true })
    expect(await api.call(REFUSED_URL)).toEqual([401, 1, 2, 3])
    expect(fleet.endpoint.count).toBe(3)
  })

  it.each([
    { when: 'that did not help', url: REFUSED_URL },
    { when: 'that helped, which its entry does not say', url: MERCHANT_URL },
  ])('that make one call each lose none to a revocation a minute after a renewal $when', async ({ url }) => {
    const { fleet, start } = attachedFleet()
    await start().api.call()
    const { api } = start()
    api.accepts = (token) => token > 1
    expect((await api.call(url)).slice(1)).toEqual([1, 2])
    expect(await start().api.call()).toEqual([200, 2])
    await fleet.skip(MAX_ROW_MS)
    const next = start().api
    next.accepts = (token) => token > 2
    expect(await next.call()).toEqual([200, 2, 3])
  })

  it('do not get back from the store what a renewal that helped has ended', async () => {
    const { api } = attachedFleet().start()
    await api.call()
    for (const token of [2, 3, 4]) {
      api.accepts = (sent) => sent >= token
      expect(await api.call()).toEqual([200, token - 1, token])
    }
  })

  it("measure n seconds by the store's clock, whatever the clocks of the machines say", async () => {
    const { fleet, start, issued } = attachedFleet()
    await start().api.call(REFUSED_URL)
    const clock = elsewhere(fleet.clock, { monotonicMs: 12_345_678, epochMs: -5 * HOUR_MS })
    const late = new ScriptedApi(fleet.start({ clock }).provider, issued)
    await fleet.skip(FIRST_DOUBT_MS - 1)
    await late.callsBeforeRenewal(REFUSED_URL)
    expect(await late.call(REFUSED_URL)).toEqual([401, 2])
    await fleet.skip(1)
    expect(await late.call(REFUSED_URL)).toEqual([401, 2, 3])
  })

  describe('share the bucket of an API', () => {
    /** One process has spent it; another one has the token that this yielded. */
    async function spent({ leases = true } = {}) {
      const fleet = longLived({ leases })
      const [one, other] = [fleet.start(), fleet.start()]
      for (let nth = 0; nth < BUCKET; nth += 1) expect(await renewedAfterRejection(fleet, one)).toBe(true)
      await other.provider.getToken()
      return { fleet, one, other }
    }

    it.each([
      ['with leases', true],
      ['without leases', false],
    ])('in a store %s', async (_, leases) => {
      const { fleet, other } = await spent({ leases })
      expect(await renewedAfterRejection(fleet, other)).toBe(false)
      const [suppressed] = suppressedIn(other)
      expect(suppressed?.reason).toBe('limited')
      await fleet.skip(Number(suppressed?.nextRenewalMs))
      expect(await renewedAfterRejection(fleet, other)).toBe(true)
    })

    it('and wait for no lease while it is empty', async () => {
      const { fleet, other } = await spent()
      const { value } = await other.provider.getToken()
      fleet.store.hold(fleet.store.tokenKey, 5_000)
      const renewal = other.provider.renewToken(value, { url: MERCHANT_URL })
      expect(await fleet.tookMs(renewal)).toBe(0)
      expect(await renewal).toBeUndefined()
    })

    it('but not while the store fails', async () => {
      const { fleet, one, other } = await spent()
      fleet.store.faults.get = FAILURES.rejects
      expect(await renewedAfterRejection(fleet, fleet.start())).toBe(true)
      expect(await renewedAfterRejection(fleet, one)).toBe(false)
      expect(await renewedAfterRejection(fleet, other)).toBe(false)
    })

    it('but not that of another client', async () => {
      const { fleet } = await spent()
      expect(await renewedAfterRejection(fleet, fleet.start({ clientId: 'client-2' }))).toBe(true)
    })
  })
})
