// `check --call GOOD --call BAD`: with one token, whether a 401 is about the call or about the token.
import type { Fault } from 'merchant-auth/testing'
import { describe, expect, it, vi } from 'vitest'
import { kindsIn } from '../support/failures.ts'
import { check, eachWithSandbox, issue, run } from './rig.ts'

const at = eachWithSandbox()

const goodUrl = () => `${at.test.merchantUrl}/orders?card=of-nobody`
const badUrl = () => `${at.test.merchantUrl}/stores/7`
const failAt = (url: string, fault: Fault) =>
  at.test.fail('merchant', fault, { path: new URL(url).pathname, times: 2 })
const REJECTED: Fault = { kind: 'status', status: 401 }

/** Runs `check` with two calls. */
async function checked(good = goodUrl(), bad = badUrl()) {
  const { code, steps } = await check(at, ['--call', good, '--call', bad])
  const calls = steps.filter(({ step }) => step === 'call')
  expect(JSON.stringify(calls)).not.toContain('of-nobody')
  const verdict = calls.find(({ data }) => data?.['verdict'] !== undefined)
  return { code, calls, verdict, kinds: kindsIn(verdict?.advice ?? '') }
}

describe('check with two calls', () => {
  it('says that a 401 is about the call, with one token and a third request without it', async () => {
    failAt(badUrl(), REJECTED)
    const { code, calls, verdict, kinds } = await checked()
    expect(code).toBe(7)
    expect(calls.map(({ result }) => result)).toEqual(['ok', 'failed', 'info'])
    expect(calls[1]).toMatchObject({ status: 401 })
    expect(calls[1]).not.toHaveProperty('advice')
    expect(verdict).toMatchObject({ data: { verdict: 'call' } })
    expect(verdict?.text).toMatch(
      /^the 401 is about the call: GET \S+\/orders returned 200 with the token, and 401 without it$/,
    )
    expect(kinds).toEqual(['about-the-call'])
    expect(at.test.counts.token).toBe(1)
    const sent = at.test.requests('merchant').map(({ headers }) => headers['authorization'])
    expect(sent).toEqual([expect.stringMatching(/^Bearer /), sent[0], undefined])
  })

  it('says so for any order of the calls', async () => {
    failAt(badUrl(), REJECTED)
    expect((await checked(badUrl(), goodUrl())).kinds).toEqual(['about-the-call'])
  })

  it('says that a 401 is about the token where both calls get one', async () => {
    at.test.configure({ rejectAllTokens: true })
    const { code, verdict, kinds } = await checked()
    expect(code).toBe(7)
    expect(verdict).toMatchObject({ data: { verdict: 'token' } })
    expect(verdict?.text).toBe('the 401 is about the token: both calls are rejected')
    expect(kinds).toEqual(['about-the-token'])
    expect(at.test.requests('merchant')).toHaveLength(2)
  })

  it.each<[what: string, kind: string, good: Fault]>([
    ['works without the token, too', 'no-good-call', { kind: 'json', body: {} }],
    ['fails for another reason', 'no-good-call', { kind: 'status', status: 404 }],
    ['gets no response', 'no-good-call', { kind: 'reset' }],
  ])('cannot tell where the good call %s', async (_, kind, good) => {
    failAt(goodUrl(), good)
    failAt(badUrl(), REJECTED)
    const { code, verdict, kinds } = await checked()
    expect(code).toBe(7)
    expect(verdict).toMatchObject({ data: { verdict: 'unknown' } })
    expect(verdict?.text).toMatch(/^it cannot be told whether the 401 is about the call or about the token: /)
    expect(kinds).toEqual([kind])
  })

  it.each<[what: string, without: () => Promise<Response>]>([
    ['is limited', async () => new Response(null, { status: 429 })],
    ['fails', async () => new Response(null, { status: 502 })],
    ['gets no response', () => Promise.reject(new TypeError('fetch failed'))],
  ])('cannot tell where the good call without the token %s', async (_, without) => {
    failAt(badUrl(), REJECTED)
    const { fetch } = globalThis
    using _spy = vi.spyOn(globalThis, 'fetch').mockImplementation((input, init) => {
      const isBare = String(input) === goodUrl() && !new Headers(init?.headers).has('authorization')
      return isBare ? without() : fetch(input, init)
    })
    expect((await checked()).kinds).toEqual(['no-good-call'])
  })

  it('cannot tell where the good call is one of another API', async () => {
    failAt(badUrl(), REJECTED)
    const { verdict, kinds } = await checked(`${at.test.inStoreUrl}/orders`)
    expect(verdict).toMatchObject({ data: { verdict: 'unknown' } })
    expect(kinds).toEqual(['no-good-call'])
    expect(at.test.requests('in-store')).toHaveLength(1)
  })

  it('has no verdict where no call gets a 401', async () => {
    const both = await checked()
    expect(both.code).toBe(0)
    expect(both.calls.map(({ result }) => result)).toEqual(['ok', 'ok'])
    failAt(badUrl(), { kind: 'status', status: 403 })
    const forbidden = await checked()
    expect(forbidden).toMatchObject({ code: 7, verdict: undefined })
    expect(kindsIn(forbidden.calls[1]?.advice ?? '')).toEqual(['call-forbidden'])
  })

  it('shows neither token, in the text and in JSON', async () => {
    issue(at, 'the-token-of-this-test')
    const { stdout } = await run(['check', '--call', goodUrl(), '--call', badUrl()], at.variables)
    expect(stdout).not.toContain('the-token-of-this-test')
    expect(stdout).toContain('✗ Call ')
  })

  it('calls neither, and requests no token, where one is below no API URL', async () => {
    const { code, calls } = await checked(goodUrl(), 'https://other.example/x')
    expect(code).toBe(7)
    expect(calls).toMatchObject([
      { result: 'failed', text: expect.stringMatching(/^https:\/\/other\.example\/x does/) },
    ])
    expect(at.test.counts).toMatchObject({ token: 0, merchant: 0 })
  })

  it('takes no third one', async () => {
    const args = ['check', '--call', goodUrl(), '--call', badUrl(), '--call', goodUrl()]
    const { code, stderr } = await run(args, at.variables)
    expect(code).toBe(2)
    expect(stderr).toContain('--call can be given twice')
  })
})
