// Faults from the flag --fault: each kind as a client sees it, and the errors for invalid ones.
import { describe, expect, it } from 'vitest'
import { call, requestToken } from '../testing/calls.ts'
import { flagsOf, type RunningSandbox, run, sandbox } from './rig.ts'

const withFaults = (...faults: string[]): Promise<RunningSandbox> => sandbox(flagsOf(faults))

/** The label of the fault on the given line of the log. */
const labelOf = async ({ lines }: RunningSandbox, line: number): Promise<string | undefined> =>
  /\bfault (.*)$/.exec((await lines(line))[line - 1] ?? '')?.[1]

describe('a fault from --fault', () => {
  const TEXT = 'text/plain; charset=utf-8'
  const JSON_TYPE = 'application/json'
  it.each<[fault: string, status: number, body: string, headers: Record<string, string>]>([
    ['status=429,retry-after=9,json={"a":[1,2]}', 429, '{"a":[1,2]}', { 'retry-after': '9' }],
    ['redirect=https://example.com/a?b=c:d', 307, '', { location: 'https://example.com/a?b=c:d' }],
    ['text=<p>Not now, not here, times=2,', 200, '<p>Not now, not here, times=2,', { 'content-type': TEXT }],
    ['status=502,type=text/html,text=<p>', 502, '<p>', { 'content-type': 'text/html' }],
    ['json={"access_token":5,"a":[1,2]}', 200, '{"access_token":5,"a":[1,2]}', { 'content-type': JSON_TYPE }],
  ])('sends a complete response: %s', async (fault, status, body, headers) => {
    const running = await withFaults(`token:${fault}`)
    const response = await requestToken(running.client)
    expect(response.status).toBe(status)
    for (const [name, value] of Object.entries(headers)) expect(response.headers.get(name)).toContain(value)
    expect(await response.text()).toBe(body)
    expect(await labelOf(running, 1)).toBe(fault)
  })

  it.each([
    ['huge-body=70000', '200'],
    ['gzip,huge-body=80000', '200'],
    ['hang,at=body', '200'],
    ['hang', '---'],
    ['reset', '---'],
    ['truncated-body', '200'],
    ['slow-body=1', '200'],
    ['hang=1', '200'],
  ])('of the kind that its flag names is logged: %s', async (fault, status) => {
    const running = await withFaults(`token:${fault}`)
    const stop = new AbortController()
    if (fault === 'hang') setTimeout(() => stop.abort(), 100)
    await requestToken(running.client, { signal: stop.signal })
      .then((response) => {
        if (fault === 'hang,at=body') stop.abort()
        return response.text()
      })
      .catch(() => {})
    expect((await running.lines(1))[0]).toMatch(new RegExp(` ${status} +\\d+ ms .*fault ${fault}$`))
  })

  it('applies to both environments', async () => {
    const running = await withFaults('merchant:status=500,times=1')
    for (const url of [running.merchantUrl, running.productionUrl]) {
      expect((await call(url, undefined)).status).toBe(500)
      expect((await call(url, undefined)).status).toBe(401)
    }
  })
})

it('a fault from --fault with a path applies to the calls of that path only', async () => {
  const running = await withFaults('merchant:status=418,path=/merchant/stores/7')
  const statusOf = async (store: number) =>
    (await call(`${running.merchantUrl}/stores/${store}`, undefined)).status
  expect([await statusOf(7), await statusOf(8), await statusOf(7)]).toEqual([418, 401, 418])
  expect(await labelOf(running, 1)).toBe('status=418,path=/merchant/stores/7')
})

describe('an invalid --fault', () => {
  it.each<[fault: string, message: string | RegExp]>([
    ['tokens:hang', '--fault must begin with token, merchant or in-store, and a colon.'],
    ['token:times=2', '--fault token needs a kind: hang, reset, '],
    ['token:hang,reset', '--fault token:hang: reset is not an option'],
    ['token:hang=2147483648', /^--fault token:hang: durationMs must be .*2147483647/],
    ['token:status=HUNTER2', /^--fault token:status: status must be /],
    ['token:json={"a":HUNTER2}', '--fault token:json: json must be valid JSON. '],
    ['token:hang,path=7', "--fault token:hang: path must be a path that begins with '/', without a query"],
    ['token:hang,times=0', '--fault token:hang: times must be a whole number of at least 1'],
  ])('is rejected: %s', async (fault, message) => {
    const { code, stdout, stderr } = await run(['sandbox', '--fault', fault])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    const errorText = stderr.replace(/^merchant-auth: /, '')
    if (typeof message === 'string') expect(errorText.slice(0, message.length)).toBe(message)
    else expect(errorText).toMatch(message)
    expect(errorText).toMatch(/^.*\.\nSee: npx merchant-auth sandbox --help\n$/)
    expect(errorText).not.toContain('HUNTER2')
  })
})
