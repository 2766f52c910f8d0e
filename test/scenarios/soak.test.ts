/** The soak's matching: what explains a failed call, and above all what does not. */
import type { Fault, SandboxRequest } from 'merchant-auth/testing'
import { describe, expect, it } from 'vitest'
import type { Outcome, TokenTry } from '../../scripts/soak/evidence.ts'
import { breachOf, explain } from '../../scripts/soak/matching.ts'
import { call, evidence, failure, sent, tokenTry, trouble, why } from './soak-evidence.ts'

describe('an answer that is no good', () => {
  const faults = {
    'test/fault-1': { kind: 'status', status: 503 },
    'test/fault-2': { kind: 'reset' },
    'test/fault-3': { kind: 'hang' },
    'test/fault-4': { kind: 'json', body: null },
  } satisfies Record<string, Fault>
  const status = (code: number): Outcome => ({ kind: 'status', status: code })

  it.each<[string, Outcome, string, boolean]>([
    ['status 503 by a fault of that status', status(503), 'fault-1', true],
    ['status 500 by a fault of another status', status(500), 'fault-1', false],
    ['a broken connection by a reset', { kind: 'network' }, 'fault-2', true],
    ['a broken connection by a hang at the headers', { kind: 'network' }, 'fault-3', false],
    ['a limit by a hang', { kind: 'limit' }, 'fault-3', true],
    ['a limit by a reset', { kind: 'limit' }, 'fault-2', false],
    ['another body by other JSON', { kind: 'body' }, 'fault-4', true],
    ['another body by a status', { kind: 'body' }, 'fault-1', false],
    ['what no client gives', { kind: 'strange', told: 'x' }, 'fault-1', false],
  ])('%s', (_, outcome, fault, explained) => {
    const found = explain(call(outcome), evidence({ requests: [sent({ fault })], faults }))
    expect(found?.ids).toEqual(explained ? [`test/${fault}`] : undefined)
  })

  it('is not explained without a fault, by one of another environment, or by one of an earlier request', () => {
    expect(why(call(status(503)), { requests: [sent({})], faults })).toBeUndefined()
    expect(
      why(call(status(503)), { requests: [sent({ fault: 'fault-1' }, 'production')], faults }),
    ).toBeUndefined()
    const requests = [sent({ fault: 'fault-1' }), sent({ jti: 'two' })]
    expect(why(call(status(503)), { requests, faults })).toBeUndefined()
  })

  it('is explained by a redirect only where that leads', () => {
    const redirect = { 'test/fault-1': { kind: 'redirect', location: '/elsewhere' } } satisfies Record<
      string,
      Fault
    >
    const to = (path: string) => [sent({ fault: 'fault-1', status: 307 }), sent({ path, status: 404 })]
    expect(why(call(status(404)), { requests: to('/elsewhere'), faults: redirect })).toBe('API: redirect')
    expect(why(call(status(404)), { requests: to('/other'), faults: redirect })).toBeUndefined()
    expect(why(call(status(500)), { requests: to('/elsewhere'), faults: redirect })).toBeUndefined()
  })
})

describe('a 401', () => {
  const refused = (more: Partial<SandboxRequest> = {}) => sent({ status: 401, ...more })
  const ended = call({ kind: 'status', status: 401 })
  const suppressed = [{ at: 10_020, api: 'http://127.0.0.1:1/merchant' }]
  const troubles = [trouble('revocation', { jti: 'one' })]

  it('is explained by a revocation and a suppressed renewal of that API, together', () => {
    const requests = [refused()]
    expect(explain(ended, evidence({ requests, troubles, story: { suppressed } }))).toEqual({
      why: '401, renewal suppressed',
      ids: ['revocation-1'],
    })
    expect(why(ended, { requests, troubles })).toBeUndefined()
    expect(why(ended, { requests, story: { suppressed } })).toBeUndefined()
    const other = [{ at: 10_020, api: 'http://127.0.0.1:1/in-store' }]
    expect(why(ended, { requests, troubles, story: { suppressed: other } })).toBeUndefined()
  })

  it('is not explained by the revocation of another token, or of one issued later, or by a later one', () => {
    const story = { suppressed }
    const requests = [refused()]
    expect(why(ended, { requests, story, troubles: [trouble('revocation', { jti: 'two' })] })).toBeUndefined()
    expect(
      why(ended, { requests, story, troubles: [trouble('revocation', { from: 8_000 })] }),
    ).toBeUndefined()
    expect(
      why(ended, { requests, story, troubles: [trouble('revocation', { from: 10_500 })] }),
    ).toBeUndefined()
    expect(why(ended, { requests, story, troubles: [trouble('revocation')] })).toBe('401, renewal suppressed')
  })

  it('to a request without a token that was issued is never explained', () => {
    const { jti: _, ...record } = refused().record
    const requests = [{ place: 'test', record } as const]
    expect(why(ended, { requests, troubles: [trouble('revocation')], story: { suppressed } })).toBeUndefined()
  })

  it('to the repeat is explained where both tokens were refused, and were two', () => {
    const both = [trouble('revocation')]
    const repeat = (jti: string) => [refused(), refused({ at: 10_100, jti })]
    expect(why(ended, { requests: repeat('two'), troubles: both })).toBe('401 to the repeat, too')
    expect(why(ended, { requests: repeat('one'), troubles: both })).toBeUndefined()
    expect(why(ended, { requests: repeat('two'), troubles })).toBeUndefined()
  })

  it('is explained by a renewal that failed, unless a token came after that', () => {
    const faults = { 'test/fault-1': { kind: 'status', status: 503 } } satisfies Record<string, Fault>
    const failures = [failure(tokenTry({ fault: 'fault-1' }), { at: 9_500 })]
    const requests = [refused()]
    expect(explain(ended, evidence({ requests, troubles, faults, story: { failures } }))?.ids).toEqual([
      'revocation-1',
      'test/fault-1',
    ])
    expect(
      why(ended, { requests, troubles, faults, story: { failures, acquiredAt: [9_700] } }),
    ).toBeUndefined()
  })

  it('to a body that is sent once needs no more than the refusal', () => {
    const once = call({ kind: 'status', status: 401 }, { repeatable: false })
    expect(why(once, { requests: [refused()], troubles })).toBe('401, body sent once')
    expect(why(once, { requests: [refused()] })).toBeUndefined()
  })
})

describe('no token', () => {
  const faults = { 'test/fault-1': { kind: 'status', status: 503 } } satisfies Record<string, Fault>
  const token = (more = {}) =>
    call({ kind: 'token', code: 'ERR_TOKEN_STATUS', status: 503, attempts: 3, ...more })

  it('is explained by a failure of the same kind that the caller waited for, and by its fault', () => {
    const failures = [failure(tokenTry({ fault: 'fault-1' }))]
    expect(explain(token(), evidence({ faults, story: { failures } }))?.ids).toEqual(['test/fault-1'])
    expect(why(token({ status: 500 }), { faults, story: { failures } })).toBeUndefined()
    expect(why(token({ attempts: 1 }), { faults, story: { failures } })).toBeUndefined()
    expect(why(token(), { faults, story: { failures: [failure(tokenTry({}))] } })).toBeUndefined()
    expect(
      why(token(), { faults: { 'test/fault-1': { kind: 'reset' } }, story: { failures } }),
    ).toBeUndefined()
  })

  it('is explained by the cooldown of an earlier failure for as long as the contract lets it last', () => {
    const failures = [failure(tokenTry({ fault: 'fault-1' }), { at: 9_900, cooldownMs: 2_000 })]
    const story = { failures }
    expect(why(token({ retryAfterMs: 900 }), { faults, story })).toBe('token: status 503')
    expect(why(token({ retryAfterMs: 1_500 }), { faults, story })).toBeUndefined()
    expect(why(token(), { faults, story })).toBeUndefined()
    expect(
      why(token({ retryAfterMs: 900 }), { faults, story: { failures, acquiredAt: [10_200] } }),
    ).toBeUndefined()
  })

  it('after a secret was replaced is explained by that, whatever else the answer met', () => {
    const slow = { 'test/fault-1': { kind: 'slow-body', durationMs: 100 } } satisfies Record<string, Fault>
    const refused = { ...failure(tokenTry({ fault: 'fault-1', status: 401 })), status: 401 }
    const story = { failures: [refused] }
    const ended = token({ status: 401 })
    expect(why(ended, { faults: slow, story, troubles: [trouble('rotation', { to: 10_150 })] })).toBe(
      'token: rotated secret',
    )
    expect(why(ended, { faults: slow, story, troubles: [trouble('rotation')] })).toBeUndefined()
  })

  it('in the time that was left is explained by what the attempts of the same token request met before', () => {
    const hang = { 'test/fault-1': { kind: 'hang' } } satisfies Record<string, Fault>
    const first = tokenTry({ fault: 'fault-1' }, { startedAt: 9_900 })
    const last = tokenTry({}, { startedAt: 10_700 })
    const failed = (attempts: number) => ({
      ...failure(last, { attempts }),
      code: 'ERR_TOKEN_TIMEOUT',
      status: undefined,
    })
    const ended = (attempts: number) => call({ kind: 'token', code: 'ERR_TOKEN_TIMEOUT', attempts })
    const story = (attempts: number) => ({ tries: [first, last], failures: [failed(attempts)] })
    expect(why(ended(2), { faults: hang, story: story(2) })).toBe('token: hang at headers')
    expect(why(ended(1), { faults: hang, story: story(1) })).toBeUndefined()
    expect(why(ended(2), { story: story(2) })).toBeUndefined()
  })

  it('for want of a client secret is explained by the vault, at that moment', () => {
    const failed = {
      ...failure(tokenTry({})),
      code: 'ERR_CLIENT_SECRET',
      status: undefined,
      tried: undefined,
    }
    const ended = call({ kind: 'token', code: 'ERR_CLIENT_SECRET', attempts: 3 })
    const vault = (to: number) => [trouble('vault', { to })]
    expect(why(ended, { story: { failures: [failed] }, troubles: vault(10_900) })).toBe(
      'token: client secret',
    )
    expect(why(ended, { story: { failures: [failed] }, troubles: vault(10_500) })).toBeUndefined()
  })

  it('in time is explained by a token request that was still held up, and by no earlier one', () => {
    const ended = call({ kind: 'limit' })
    const tries = [tokenTry({ fault: 'fault-1' }, { endedAt: Number.POSITIVE_INFINITY })]
    expect(why(ended, { faults, story: { tries } })).toBe('token: status 503')
    expect(why(ended, { faults, story: { tries, acquiredAt: [10_300] } })).toBeUndefined()
    expect(why(ended, { faults, story: { tries: [tokenTry({})] } })).toBeUndefined()
    // Where its request came in good time, it waited for no token; where it came late, it did.
    const requests = (at: number) => [sent({ status: 200, at })]
    expect(why(ended, { faults, story: { tries }, requests: requests(10_010) })).toBeUndefined()
    const story = { tries, acquiredAt: [10_890] }
    expect(why(ended, { faults, story, requests: requests(10_900) })).toBe('token: status 503')
  })

  it('in time is explained by the pause after an attempt that failed before the call, and by a slow API', () => {
    const ended = call({ kind: 'limit' })
    const earlier = tokenTry({ fault: 'fault-1' }, { startedAt: 9_800, endedAt: 9_900 })
    expect(why(ended, { faults, story: { tries: [earlier] } })).toBe('token: status 503')
    expect(why(ended, { faults, story: { tries: [earlier], acquiredAt: [9_950] } })).toBeUndefined()
    const requests = [sent({ status: 401 })]
    const slow = (apiLatencyMs: number) => [trouble('latency', { to: 10_500, apiLatencyMs })]
    expect(why(ended, { requests, troubles: slow(1_000) })).toBe('API: latency')
    expect(why(ended, { requests, troubles: slow(100) })).toBeUndefined()
  })

  it('in time is explained by a machine that stood still for a third of it', () => {
    const stall = (ms: number) => [trouble('stall', { ms })]
    expect(why(call({ kind: 'limit' }), { troubles: stall(400) })).toBe('this machine stood still')
    expect(why(call({ kind: 'limit' }), { troubles: stall(200) })).toBeUndefined()
    expect(why(call({ kind: 'network' }), { troubles: stall(900) })).toBeUndefined()
  })
})

it('a token request that ran out of time is explained by a machine that stood still in any attempt of it', () => {
  const timeout = { code: 'ERR_TOKEN_TIMEOUT', attempts: 2 }
  const tries = [8_000, 10_800].map((startedAt) => {
    const { record: _, ...tried } = tokenTry({}, { startedAt })
    return tried
  })
  const last = failure(tries[1] as TokenTry, { ...timeout, status: undefined })
  const stood = (from: number) => ({
    story: { tries, failures: [last] },
    troubles: [trouble('stall', { from, to: from + 1_000, ms: 1_000 })],
  })
  const ended = call({ kind: 'token', ...timeout })
  expect(why(ended, stood(8_500))).toBe('this machine stood still')
  expect(why(ended, stood(6_500))).toBeUndefined()
})

it('a closed provider explains its own callers, and a caller that leaves explains itself', () => {
  const close = (id: string) => [trouble('close', { id, to: 10_010 })]
  expect(why(call({ kind: 'closed' }), { troubles: close('close-test-1.1') })).toBe('provider closed')
  expect(why(call({ kind: 'closed' }), { troubles: close('close-test-2.1') })).toBeUndefined()
  const left = (at: number) => call({ kind: 'left' }, { left: { id: 'leave-1', at } })
  expect(why(left(10_900), {})).toBe('the caller left')
  expect(why(left(10_100), {})).toBeUndefined()
  expect(why(call({ kind: 'left' }), {})).toBeUndefined()
})

it('a call that was sent three times, or a token at the wrong place, breaks the contract', () => {
  const ok = call({ kind: 'ok' })
  expect(breachOf(ok, evidence({ requests: [sent({}), sent({})] }))).toBeUndefined()
  expect(breachOf(ok, evidence({ requests: [sent({}), sent({}), sent({})] }))).toContain('3 times')
  const stray = sent({ headers: { authorization: '[hidden]' } }, 'production')
  expect(breachOf(ok, evidence({ requests: [sent({}), stray] }))).toContain('production')
  expect(breachOf(ok, evidence({ requests: [sent({}), sent({}, 'production')] }))).toBeUndefined()
})

it('a call that outlives its caller breaks the contract, unless this machine stood still', () => {
  const late = call({ kind: 'ok' }, { endedAt: 12_000 })
  expect(breachOf(late, evidence({}))).toContain('1000 ms later')
  expect(breachOf({ ...late, wholeLimit: false }, evidence({}))).toBeUndefined()
  const stall = trouble('stall', { from: 11_000, to: 11_900, ms: 900 })
  expect(breachOf(late, evidence({ troubles: [stall] }))).toBeUndefined()
  const left = call({ kind: 'ok' }, { left: { id: 'leave-1', at: 10_100 } })
  expect(breachOf(left, evidence({}))).toContain('900 ms later')
})
