/** The oracle of the soak test: which failed calls it explains, and which it does not. */
import type { Fault, SandboxRequest } from 'merchant-auth/testing'
import { describe, expect, it } from 'vitest'
import {
  type Arrival,
  breachOf,
  type EndedCall,
  explain,
  type Outcome,
  type Place,
  type Trouble,
} from '../../scripts/soak/oracle.ts'

/** A call that lasted from 10 000 to 11 000 ms. */
const ended = (outcome: Outcome, more: Partial<EndedCall> = {}): EndedCall => ({
  id: 'call-1',
  client: 'fetch',
  place: 'test',
  startedAt: 10_000,
  endedAt: 11_000,
  limitMs: 1_000,
  repeatable: true,
  outcome,
  arrivals: [],
  troubles: [],
  stalledMs: () => 0,
  ...more,
})

/** The request of that call, which arrived at 10 010 ms. */
const arrival = (more: Partial<SandboxRequest> = {}, fault?: Fault, place: Place = 'test'): Arrival => ({
  place,
  fault,
  record: {
    id: 1,
    at: 10_010,
    target: 'merchant',
    method: 'GET',
    path: '/merchant',
    headers: {},
    jti: 'a',
    ...more,
  },
})

const trouble = (kind: Trouble['kind'], from: number, to: number): Trouble => ({ kind, name: 'x', from, to })
const status = (code: number): Outcome => ({ kind: 'status', status: code })
const why = (outcome: Outcome, more: Partial<EndedCall> = {}) => explain(ended(outcome, more))

describe('the soak oracle, for a failed call,', () => {
  const reset: Fault = { kind: 'reset' }
  const hang: Fault = { kind: 'hang' }
  const unavailable: Fault = { kind: 'status', status: 503 }

  it.each<[string, Outcome, Fault | undefined, string | undefined]>([
    ['status 503, and its request met that fault', status(503), unavailable, 'API: status 503'],
    ['status 503, and its request met no fault', status(503), undefined, undefined],
    ['status 500, and its request met the fault of another status', status(500), unavailable, undefined],
    ['a broken connection, and its request met a reset', { kind: 'network' }, reset, 'API: reset'],
    ['a broken connection, and its request met a hang', { kind: 'network' }, hang, undefined],
    ['a timeout, and its request met a hang', { kind: 'limit' }, hang, 'API: hang at headers'],
    ['a timeout, and its request met a reset', { kind: 'limit' }, reset, undefined],
    [
      'a wrong body, and its request met other JSON',
      { kind: 'body' },
      { kind: 'json', body: null },
      'API: json',
    ],
    ['a wrong body, and its request met a status', { kind: 'body' }, unavailable, undefined],
    ['an unknown error', { kind: 'strange', message: 'x' }, unavailable, undefined],
    [
      'a token error, and its request met a fault of the API',
      { kind: 'token', code: 'ERR_TOKEN_STATUS' },
      unavailable,
      undefined,
    ],
  ])('explains only the outcome that its fault causes: %s', (_, outcome, fault, expected) => {
    expect(why(outcome, { arrivals: [arrival({}, fault)] })).toBe(expected)
  })

  it('explains it by the fault of its last request, not of an earlier one', () => {
    const arrivals = [arrival({}, unavailable), arrival()]
    expect(why(status(503), { arrivals })).toBeUndefined()
    expect(why(status(503), { arrivals: arrivals.reverse() })).toBe('API: status 503')
  })

  it('explains a 404 by a redirect, but not a 500', () => {
    const arrivals = [arrival({}, { kind: 'redirect', location: '/elsewhere' }), arrival({ status: 404 })]
    expect(why(status(404), { arrivals })).toBe('API: redirect')
    expect(why(status(500), { arrivals })).toBeUndefined()
  })

  it('explains a token error by trouble with the token endpoint, until the cooldown after the trouble ends', () => {
    const error: Outcome = { kind: 'token', code: 'ERR_TOKEN_STATUS' }
    const until = (to: number) => ({ troubles: [trouble('token', Math.min(to, 10_000) - 1_000, to)] })
    expect(why(error)).toBeUndefined()
    expect(why(error, until(Infinity))).toBe('token: x')
    expect(why(error, until(5_001))).toBe('token: x')
    expect(why(error, until(4_999))).toBeUndefined()
    expect(why(error, { troubles: [trouble('token', 11_001, 12_000)] })).toBeUndefined()
    expect(why(error, { troubles: [trouble('rejection', 9_000, 12_000)] })).toBeUndefined()
    expect(why(error, { ...until(4_999), stalledMs: () => 100 })).toBe('token: x')
  })

  it('explains a timeout by trouble with the token endpoint only if the call mainly waited for a token', () => {
    const troubles = [trouble('token', 9_000, 12_000)]
    expect(why({ kind: 'limit' }, { troubles })).toBe('token: x')
    expect(why({ kind: 'limit' }, { troubles, arrivals: [arrival({ status: 401 })] })).toBe('token: x')
    expect(why({ kind: 'limit' }, { troubles, arrivals: [arrival({ at: 10_900 })] })).toBe('token: x')
    expect(why({ kind: 'limit' }, { troubles, arrivals: [arrival()] })).toBeUndefined()
  })

  it('explains a timeout by slow APIs, and by a machine that stalled for more than a third of the limit', () => {
    const latency = (to: number) => ({ troubles: [trouble('latency', 9_000, to)], arrivals: [arrival()] })
    expect(why({ kind: 'limit' }, latency(10_500))).toBe('latency: x')
    expect(why({ kind: 'limit' }, latency(9_500))).toBeUndefined()
    const stood = (ms: number) => ({ stalledMs: () => ms, arrivals: [arrival()] })
    expect(why({ kind: 'limit' }, stood(400))).toBe('this machine stood still')
    expect(why({ kind: 'limit' }, stood(300))).toBeUndefined()
    for (const code of ['ERR_TOKEN_TIMEOUT', 'ERR_CLIENT_SECRET'])
      expect(why({ kind: 'token', code }, stood(400))).toBe('this machine stood still')
    expect(why({ kind: 'token', code: 'ERR_TOKEN_STATUS' }, stood(900))).toBeUndefined()
    expect(why({ kind: 'network' }, stood(900))).toBeUndefined()
  })

  it('explains an abort by its caller, and a closed provider by close()', () => {
    expect(why({ kind: 'left' }, { leftAt: 10_900 })).toBe('the caller left')
    expect(why({ kind: 'left' })).toBeUndefined()
    expect(why({ kind: 'closed' }, { closedAt: 10_900 })).toBe('provider closed')
    expect(why({ kind: 'closed' }, { closedAt: 9_000 })).toBeUndefined()
    expect(why({ kind: 'closed' })).toBeUndefined()
  })
})

describe('the soak oracle, for a 401,', () => {
  const rejected = arrival({ status: 401, errorDescription: 'The token was revoked' })
  const arrivals = [rejected]
  const troubles = [trouble('rejection', 9_000, 12_000)]
  const suppressedAt = 10_020

  it('explains it only by a rejected token together with a reason why it was not renewed', () => {
    expect(why(status(401), { arrivals, troubles, suppressedAt })).toBe('401, renewal suppressed')
    expect(why(status(401), { arrivals, troubles })).toBeUndefined()
    expect(why(status(401), { arrivals, suppressedAt })).toBeUndefined()
    expect(why(status(401), { arrivals, troubles, suppressedAt: 9_000 })).toBeUndefined()
    expect(why(status(401), { arrivals, troubles, repeatable: false })).toBe('401, body sent once')
    expect(why(status(401), { arrivals, repeatable: false })).toBeUndefined()
    const failed = [...troubles, trouble('token', 9_000, 12_000)]
    expect(why(status(401), { arrivals, troubles: failed })).toBe('401, renewal failed')
    expect(why(status(401), { arrivals, troubles, closedAt: 10_500 })).toBe('401, renewal failed')
    expect(why(status(401), { arrivals, troubles, stalledMs: () => 300 })).toBe('401, renewal failed')
    expect(why(status(401), { arrivals, stalledMs: () => 900 })).toBeUndefined()
  })

  it('explains the 401 of a fault like that of a rejected token, and insufficient_scope without a further reason', () => {
    const fault = (error: string): Fault => ({
      kind: 'status',
      status: 401,
      headers: { 'www-authenticate': error },
    })
    const met = (error: string) => [arrival({ status: 401 }, fault(error))]
    expect(why(status(401), { arrivals: met('Bearer error="insufficient_scope"') })).toBe(
      '401, insufficient scope',
    )
    expect(why(status(401), { arrivals: met('Bearer error="invalid_token"') })).toBeUndefined()
    expect(why(status(401), { arrivals: met('Bearer error="invalid_token"'), suppressedAt })).toBeDefined()
  })

  it('explains a 401 to the repeated call only if it carried another token', () => {
    const repeat = (jti: string) => [rejected, { ...rejected, record: { ...rejected.record, jti } }]
    expect(why(status(401), { troubles, arrivals: repeat('b') })).toBe('401 to the repeat, too')
    expect(why(status(401), { troubles, arrivals: repeat('a') })).toBeUndefined()
  })

  it('never explains a 401 to a request without an issued token', () => {
    const { jti: _, ...record } = rejected.record
    expect(
      why(status(401), { troubles, suppressedAt, arrivals: [{ place: 'test', record }] }),
    ).toBeUndefined()
  })
})

describe('the soak oracle', () => {
  const ok: Outcome = { kind: 'ok' }
  const headers = { authorization: '[hidden]' }

  it.each<[string, Partial<EndedCall>, string | undefined]>([
    ['no breach for a call that was sent twice', { arrivals: [arrival(), arrival()] }, undefined],
    [
      'a breach for a call that was sent three times',
      { arrivals: [arrival(), arrival(), arrival()] },
      '3 times',
    ],
    [
      'a breach for a token in another environment',
      { arrivals: [arrival(), arrival({ headers }, undefined, 'production')] },
      'production',
    ],
    [
      'no breach for a call without a token in another environment',
      { arrivals: [arrival(), arrival({}, undefined, 'production')] },
      undefined,
    ],
    ['a breach for a call that continues after the signal of its caller', { dueAt: 9_900 }, '1100 ms after'],
    ['a breach for a call that continues after its caller aborted', { leftAt: 9_900 }, '1100 ms after'],
    ['no breach while the machine stalled', { dueAt: 9_900, stalledMs: () => 500 }, undefined],
  ])('reports %s', (_, more, breach) => {
    const found = breachOf(ended(ok, more))
    expect(found).toEqual(breach === undefined ? undefined : expect.stringContaining(breach))
  })
})
