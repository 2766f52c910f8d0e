// Faults from the flag --fault: each kind as a client sees it, and the errors for invalid ones.
import { describe, expect, it } from 'vitest'
import { call, freshToken, requestToken } from '../testing/calls.ts'
import { flagsOf, type RunningSandbox, run, sandbox } from './rig.ts'

const withFaults = (...faults: string[]): Promise<RunningSandbox> => sandbox(flagsOf(faults))

/** The label of the fault on the given line of the log. */
const labelOf = async ({ lines }: RunningSandbox, line: number): Promise<string | undefined> =>
  /\bfault (.*)$/.exec((await lines(line))[line - 1] ?? '')?.[1]

describe('a fault from --fault', () => {
  const TEXT = 'text/plain; charset=utf-8'
  const JSON_TYPE = 'application/json'
  it.each<[fault: string, status: number, body: string, headers: Record<string, string>]>([
    ['status=503,retry-after=2', 503, '', { 'retry-after': '2' }],
    ['status=429,retry-after=9,json={"a":[1,2]}', 429, '{"a":[1,2]}', { 'retry-after': '9' }],
    ['redirect=https://example.com/a?b=c:d', 307, '', { location: 'https://example.com/a?b=c:d' }],
    ['redirect=https://example.com/,status=302', 302, '', { location: 'https://example.com/' }],
    ['text=<p>Not now, not here, times=2,', 200, '<p>Not now, not here, times=2,', { 'content-type': TEXT }],
    ['status=502,type=text/html,text=<p>', 502, '<p>', { 'content-type': 'text/html' }],
    ['text=', 200, '', { 'content-type': TEXT }],
    ['json={"access_token":5,"a":[1,2]}', 200, '{"access_token":5,"a":[1,2]}', { 'content-type': JSON_TYPE }],
  ])('sends a complete response: %s', async (fault, status, body, headers) => {
    const running = await withFaults(`token:${fault}`)
    const response = await requestToken(running.client)
    expect(response.status).toBe(status)
    for (const [name, value] of Object.entries(headers)) expect(response.headers.get(name)).toContain(value)
    expect(await response.text()).toBe(body)
    expect(await labelOf(running, 1)).toBe(fault)
  })

  it.each(['huge-body=70000', 'huge-body', 'gzip,huge-body=80000'])(
    'sends a huge body: %s',
    async (fault) => {
      const response = await requestToken((await withFaults(`token:${fault}`)).client)
      expect(response.headers.get('content-encoding')).toBe(fault.includes('gzip') ? 'gzip' : null)
      const bytes = Number(/\d+/.exec(fault)?.[0] ?? 10 * 1024 * 1024)
      expect((await response.text()).length).toBe(bytes)
    },
  )

  it('hangs, and is logged when the client disconnects', async () => {
    const running = await withFaults('token:hang,times=1')
    const abort = new AbortController()
    const both = [1, 2].map(() => requestToken(running.client, { signal: abort.signal }))
    expect((await Promise.any(both)).status).toBe(200) // so that the other request has arrived, and hangs
    abort.abort()
    expect(await labelOf(running, 2)).toBe('hang')
    expect((await running.lines(2))[1]).toMatch(/\/oauth\/token +--- /)
  })

  it('hangs in the middle of the body', async () => {
    const running = await withFaults('token:hang,at=body')
    const abort = new AbortController()
    const response = await requestToken(running.client, { signal: abort.signal })
    const { value } = (await response.body?.getReader().read()) ?? {}
    expect(value?.length).toBe(Math.floor(Number(response.headers.get('content-length')) / 2))
    abort.abort()
    expect(await labelOf(running, 1)).toBe('hang,at=body')
  })

  it.each([
    ['reset', '---'],
    ['truncated-body', '200'],
  ])('breaks off the response: %s', async (fault, status) => {
    const running = await withFaults(`token:${fault}`)
    await expect(requestToken(running.client).then((response) => response.text())).rejects.toThrow()
    expect((await running.lines(1))[0]).toMatch(new RegExp(` ${status} +\\d+ ms .*fault ${fault}$`))
  })

  it.each(['slow-body=300', 'hang=300'])('delays the response: %s', async (fault) => {
    const { client, lines } = await withFaults(`token:${fault}`)
    await freshToken(client)
    expect(Number(/(\d+) ms/.exec((await lines(1))[0] ?? '')?.[1])).toBeGreaterThanOrEqual(299)
  })

  it('applies to both environments', async () => {
    const running = await withFaults('merchant:status=500,times=1')
    for (const url of [running.merchantUrl, running.productionUrl]) {
      expect((await call(url, undefined)).status).toBe(500)
      expect((await call(url, undefined)).status).toBe(401)
    }
  })

  it('applies after the faults of earlier flags, to its number of requests or to all', async () => {
    const faults = ['token:status=500,times=2', 'token:status=501,times=1', 'token:status=502']
    const { client } = await withFaults(...faults)
    const statuses: number[] = []
    for (let i = 0; i < 5; i += 1) statuses.push((await requestToken(client)).status)
    expect(statuses).toEqual([500, 500, 501, 502, 502])
  })
})

const TARGET = '--fault must begin with token, merchant or in-store, and a colon.'
const INVALID = '--fault token: a key is missing or invalid. The keys are status, '

describe('an invalid --fault', () => {
  it.each<[fault: string, message: string | RegExp]>([
    ['tokens:hang', TARGET],
    ['hang', TARGET],
    ['token:', INVALID],
    ['token:HUNTER2', INVALID],
    ['token:__proto__=5', INVALID],
    ['token:slow', '--fault token: slow is neither a kind nor a key. The keys are status, '],
    [
      'token:statsu=503',
      '--fault token: statsu is neither a kind nor a key. Did you mean status? The keys are status, ',
    ],
    ['token:HANG', '--fault token: a key is missing or invalid. Did you mean hang? The keys are status, '],
    ['token:times=2', '--fault token needs a kind: hang, reset, '],
    ['token:status=503,status=504', '--fault token: status is given twice.'],
    ['token:hang,reset', '--fault token:hang: reset is not an option'],
    ['token:retry-after=2,text=a', '--fault token:text: retry-after is not an option'],
    ['token:reset=5', '--fault token:reset: reset takes no value.'],
    ['token:hang=2147483648', /^--fault token:hang: hang must be .*2147483647/],
    ['token:status', '--fault token:status: status needs a value, as in status=….'],
    ['token:redirect=', '--fault token:redirect: redirect needs a value, as in redirect=….'],
    ['token:status=HUNTER2', '--fault token:status: status must be a whole number'],
    ['token:status=600', /^--fault token:status: status must be .*200 to 599/],
    ['token:redirect=/,status=200', /^--fault token:redirect: status must be .*300 to 399/],
    ['token:redirect=€', '--fault token:redirect: redirect must be '],
    ['token:type=€,text=a', '--fault token:text: type must be '],
    ['token:hang,at=HUNTER2', "--fault token:hang: at must be 'headers' or 'body'"],
    ['token:huge-body=0', '--fault token:huge-body: huge-body must be a whole number of at least 1'],
    ['token:json={"a":HUNTER2}', '--fault token:json: json must be valid JSON. '],
    ['token:hang,times=0', '--fault token:hang: times must be a whole number of at least 1.'],
    ['token:status=1,retry-after=2,type=a', /^--fault token:status: (?=.*status must be )(?=.*type is not)/],
  ])('is rejected: %s', async (fault, message) => {
    const { code, stdout, stderr } = await run(['sandbox', '--fault', fault])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    const errorText = stderr.replace(/^merchant-auth: /, '')
    if (typeof message === 'string') expect(errorText.slice(0, message.length)).toBe(message)
    else expect(errorText).toMatch(message)
    expect(errorText).toMatch(/^.*\.\nSee: npx merchant-auth sandbox --help\n$/)
    expect(errorText).not.toContain('HUNTER2')
  })

  it('is rejected if it follows a fault that applies to all requests', async () => {
    const faults = ['token:hang', 'merchant:reset', 'token:status=500,times=1']
    const { code, stderr } = await run(['sandbox', ...flagsOf(faults)])
    expect(code).toBe(2)
    expect(stderr).toMatch(/^merchant-auth: --fault token:status never applies: .* Add times=N to it\.\n/)
  })
})
