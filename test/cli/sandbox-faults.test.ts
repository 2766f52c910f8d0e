// Faults by flag: each kind as a client meets it, and what is said of those that make no sense.
import { describe, expect, it } from 'vitest'
import { call, freshToken, requestToken } from '../testing/calls.ts'
import { constant, run, type Started, start } from './sandbox-rig.ts'

const withFaults = (...faults: string[]): Promise<Started> =>
  start(faults.flatMap((fault) => ['--fault', fault]))

/** What the last line says of the fault. */
const saidOf = async (sandbox: Started, count: number): Promise<string | undefined> =>
  /(?:fault .*|the client left)$/.exec((await sandbox.lines(count)).at(-1) ?? '')?.[0]

describe('a fault by flag', () => {
  it('is a status with Retry-After, for so many requests', async () => {
    const sandbox = await withFaults('token:status=503,retry-after=2,times=3')
    for (let i = 0; i < 3; i += 1) {
      const response = await requestToken(sandbox.client)
      expect([response.status, response.headers.get('retry-after')]).toEqual([503, '2'])
      expect(await response.text()).toBe('')
    }
    expect((await requestToken(sandbox.client)).status).toBe(200)
    const lines = (await sandbox.lines(4)).map((line) => constant(line).replace(/^.*? {2}N ms {3}/, ''))
    const fault = 'fault status=503,retry-after=2'
    expect(lines).toEqual([fault, fault, fault, 'token JTI issued'])
  })

  it('is a status with a JSON body', async () => {
    const sandbox = await withFaults('token:status=429,retry-after=9,json={"error":"slow_down","a":[1,2]}')
    const response = await requestToken(sandbox.client)
    expect([response.status, response.headers.get('retry-after')]).toEqual([429, '9'])
    expect(await response.json()).toEqual({ error: 'slow_down', a: [1, 2] })
  })

  it('is a hang, told when the client gives up', async () => {
    const sandbox = await withFaults('token:hang,times=1')
    const leave = new AbortController()
    const both = [1, 2].map(() => requestToken(sandbox.client, { signal: leave.signal }))
    expect((await Promise.any(both)).status).toBe(200) // so that the other is there, and hangs
    leave.abort()
    expect(await saidOf(sandbox, 2)).toBe('fault hang')
    expect((await sandbox.lines(2))[1]).toMatch(/\/oauth\/token +--- /)
  })

  it('is a hang in the middle of the body', async () => {
    const sandbox = await withFaults('token:hang,at=body')
    const leave = new AbortController()
    const response = await requestToken(sandbox.client, { signal: leave.signal })
    expect(response.status).toBe(200)
    const reader = response.body?.getReader()
    const { value } = (await reader?.read()) ?? {}
    expect(value?.length).toBe(Math.floor(Number(response.headers.get('content-length')) / 2))
    leave.abort()
    expect(await saidOf(sandbox, 1)).toBe('fault hang,at=body')
  })

  it('is a reset', async () => {
    const sandbox = await withFaults('token:reset')
    await expect(requestToken(sandbox.client)).rejects.toHaveProperty('cause.code', 'ECONNRESET')
    expect(await saidOf(sandbox, 1)).toBe('fault reset')
  })

  it.each([
    ['token:redirect=https://example.com/a?b=c:d', 307],
    ['token:redirect=https://example.com/a?b=c:d,status=302', 302],
  ])('is a redirect: %s', async (fault, status) => {
    const { client } = await withFaults(fault)
    const response = await requestToken(client)
    expect([response.status, response.headers.get('location')]).toEqual([
      status,
      'https://example.com/a?b=c:d',
    ])
  })

  it('is a text, with its commas', async () => {
    const { client } = await withFaults('token:text=<html>Not now, not here, times=2,')
    const response = await requestToken(client)
    expect([response.status, response.headers.get('content-type')]).toEqual([
      200,
      'text/plain; charset=utf-8',
    ])
    expect(await response.text()).toBe('<html>Not now, not here, times=2,')
  })

  it('is a text with a status and a type, or an empty one', async () => {
    const { merchantUrl } = await withFaults(
      'merchant:times=1,status=502,type=text/html,text=<p>',
      'merchant:text=',
    )
    const response = await call(merchantUrl, undefined)
    expect([response.status, response.headers.get('content-type')]).toEqual([502, 'text/html'])
    expect(await response.text()).toBe('<p>')
    const empty = await call(merchantUrl, undefined)
    expect([empty.status, await empty.text()]).toEqual([200, ''])
  })

  it('is JSON, with its commas', async () => {
    const { client } = await withFaults('token:json={"access_token":5,"expires_in":[1,2]}')
    const response = await requestToken(client)
    expect(response.status).toBe(200)
    expect(await response.json()).toEqual({ access_token: 5, expires_in: [1, 2] })
  })

  it('is a slow body', async () => {
    const { client, merchantUrl } = await withFaults('merchant:slow-body=300')
    const token = await freshToken(client)
    const before = performance.now()
    const response = await call(merchantUrl, token)
    expect(await response.json()).toMatchObject({ api: 'merchant' })
    expect(performance.now() - before).toBeGreaterThan(250)
  })

  it('is a truncated body', async () => {
    const sandbox = await withFaults('in-store:truncated-body')
    const response = await call(sandbox.inStoreUrl, await freshToken(sandbox.client))
    expect(response.status).toBe(200)
    await expect(response.text()).rejects.toThrow()
    expect(await saidOf(sandbox, 2)).toBe('fault truncated-body')
  })

  it.each([
    ['token:huge-body=70000', 70_000],
    ['token:huge-body', 10 * 1024 * 1024],
    ['token:gzip,huge-body=80000', 80_000],
  ])('is a huge body: %s', async (fault, bytes) => {
    const { client } = await withFaults(fault)
    const response = await requestToken(client)
    expect(response.headers.get('content-encoding')).toBe(fault.includes('gzip') ? 'gzip' : null)
    expect((await response.text()).length).toBe(bytes)
  })

  it('is there in both environments', async () => {
    const sandbox = await withFaults('merchant:status=500,times=1')
    for (const url of [sandbox.merchantUrl, sandbox.productionUrl]) {
      expect((await call(url, undefined)).status).toBe(500)
      expect((await call(url, undefined)).status).toBe(401)
    }
  })

  it('waits for its turn behind those of the flags before it', async () => {
    const sandbox = await withFaults(
      'token:status=500,times=2',
      'token:status=501,times=1',
      'token:status=502',
    )
    const statuses: number[] = []
    for (let i = 0; i < 5; i += 1) statuses.push((await requestToken(sandbox.client)).status)
    expect(statuses).toEqual([500, 500, 501, 502, 502])
  })
})

const KINDS = 'hang, reset, slow-body, truncated-body, huge-body, text, redirect, status or json'
const KEYS =
  'status, retry-after, hang, at, reset, slow-body, truncated-body, huge-body, gzip, json, text, type, redirect, times'
const STATUS = 'status must be a status from 200 to 599'

describe('a wrong --fault', () => {
  it.each([
    ['tokens:hang', '--fault must begin with token, merchant or in-store, and a colon.'],
    ['hang', '--fault must begin with token, merchant or in-store, and a colon.'],
    ['token', `--fault token: a name is missing or wrong. Known are ${KEYS}.`],
    ['token:', `--fault token: a name is missing or wrong. Known are ${KEYS}.`],
    ['token:hang,', `--fault token: a name is missing or wrong. Known are ${KEYS}.`],
    ['token:HUNTER2', `--fault token: a name is missing or wrong. Known are ${KEYS}.`],
    ['token:slow', `--fault token: there is no slow. Known are ${KEYS}.`],
    ['token:__proto__=5', `--fault token: a name is missing or wrong. Known are ${KEYS}.`],
    ['token:times=2', `--fault token: needs a kind: ${KINDS}.`],
    ['token:status=503,status=504', '--fault token: status is there twice.'],
    ['token:hang,reset', '--fault token:hang: reset does not go with hang. hang goes with at or times.'],
    [
      'token:retry-after=2,text=a',
      '--fault token:text: retry-after does not go with text. text goes with status, type or times.',
    ],
    ['token:reset,status=500', '--fault token:reset: status does not go with reset. reset goes with times.'],
    ['token:hang=5', '--fault token:hang: hang takes no value.'],
    ['token:huge-body,gzip=5', '--fault token:huge-body: gzip takes no value.'],
    ['token:status', '--fault token:status: status needs a value, as in status=….'],
    ['token:redirect=', '--fault token:redirect: redirect needs a value, as in redirect=….'],
    ['token:slow-body', '--fault token:slow-body: slow-body needs a value, as in slow-body=….'],
    ['token:status=HUNTER2', `--fault token:status: ${STATUS}.`],
    ['token:status=600', `--fault token:status: ${STATUS}.`],
    ['token:status=199,json=5', `--fault token:status: ${STATUS}.`],
    ['token:redirect=/,status=200', '--fault token:redirect: status must be a status from 300 to 399.'],
    ['token:redirect=€', '--fault token:redirect: redirect must be the value of a header.'],
    ['token:type=€,text=a', '--fault token:text: type must be the value of a header.'],
    ['token:hang,at=HUNTER2', "--fault token:hang: at must be 'headers' or 'body'."],
    [
      'token:slow-body=2147483648',
      '--fault token:slow-body: slow-body must be a number of milliseconds from 0 to 2147483647.',
    ],
    ['token:huge-body=0', '--fault token:huge-body: huge-body must be a whole number of at least 1.'],
    [
      'token:json={"a":HUNTER2}',
      '--fault token:json: json must be JSON. It takes the rest of the flag, so it comes last.',
    ],
    ['token:hang,times=0', '--fault token:hang: times must be a whole number of at least 1.'],
    ['token:hang,times=Infinity', '--fault token:hang: times must be a whole number of at least 1.'],
    [
      'token:status=1,retry-after=soon,times=1.5',
      `--fault token:status: ${STATUS}; retry-after must be a whole number of seconds; ` +
        'times must be a whole number of at least 1.',
    ],
  ])('%s', async (fault, message) => {
    const one = run(['--fault', fault])
    await expect(one.ended).rejects.toMatchObject({ name: 'UsageError', message })
    expect(one.stdout() + one.stderr()).toBe('')
  })

  it('is one behind a fault that stands until the end', async () => {
    const one = run([
      '--fault',
      'token:hang',
      '--fault',
      'merchant:reset',
      '--fault',
      'token:status=500,times=1',
    ])
    await expect(one.ended).rejects.toMatchObject({
      name: 'UsageError',
      message:
        '--fault token: a fault comes after one that stands until the end, and would never be met. ' +
        'Give the first one times=N.',
    })
  })
})
