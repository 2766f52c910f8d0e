// Keys at the terminal: what each does to the running sandbox, and the terminal as it was before at the end.
import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { call, freshToken, requestToken, turn } from '../testing/calls.ts'
import { start } from './sandbox-rig.ts'

/** A terminal's stdin that notes how it is set. */
class Keys extends PassThrough {
  isTTY = true
  readonly modes: boolean[] = []

  setRawMode(isRaw: boolean): void {
    this.modes.push(isRaw)
  }
}

/** What is said of keys. */
const SAID = /^[a-z]: /

describe('the keys', () => {
  it('are told where they work', async () => {
    const { stderr, stop, ended } = await start([], { stdin: new Keys() })
    expect(stderr()).toContain(`
Keys
  r  revoke all tokens
  f  one token request gets a 503
  u  one call of each API gets a 401
  c  clear all faults
  q  quit, as Ctrl-C does
`)
    stop.abort()
    await ended
  })

  it('r: revoke all tokens', async () => {
    const stdin = new Keys()
    const sandbox = await start([], { stdin })
    const token = await freshToken(sandbox.client)
    stdin.write('r')
    expect(await sandbox.lines(1, SAID)).toEqual(['r: 1 token revoked'])
    const response = await call(sandbox.merchantUrl, token)
    expect(response.headers.get('www-authenticate')).toContain('The token was revoked')
    stdin.write('r')
    expect(await sandbox.lines(2, SAID)).toEqual(['r: 1 token revoked', 'r: 0 tokens revoked'])
  })

  it('f: one token request gets a 503', async () => {
    const stdin = new Keys()
    const sandbox = await start([], { stdin })
    stdin.write('f')
    expect(await sandbox.lines(1, SAID)).toEqual(['f: one token request gets a 503'])
    expect((await requestToken(sandbox.client)).status).toBe(503)
    expect((await requestToken(sandbox.client)).status).toBe(200)
    expect((await sandbox.lines(2))[0]).toMatch(/503 +\d+ ms {3}fault status=503 \(key f\)$/)
  })

  it('u: one call of each API gets a 401', async () => {
    const stdin = new Keys()
    const sandbox = await start([], { stdin })
    const token = await freshToken(sandbox.client)
    stdin.write('u')
    expect(await sandbox.lines(1, SAID)).toEqual(['u: one call of each API gets a 401'])
    for (const url of [sandbox.merchantUrl, sandbox.inStoreUrl]) {
      const response = await call(url, token)
      expect(response.status).toBe(401)
      expect(response.headers.get('www-authenticate')).toBe('Bearer error="invalid_token"')
      expect((await call(url, token)).status).toBe(200)
    }
    expect((await sandbox.lines(2))[1]).toMatch(
      /401 +\d+ ms {3}token [0-9a-f]{8}, fault status=401 \(key u\)$/,
    )
  })

  it('c: clear all faults, those of flags and keys, after which keys order new ones', async () => {
    const stdin = new Keys()
    const faults = ['token:reset', 'merchant:status=500,times=9', 'in-store:hang']
    const sandbox = await start(
      faults.flatMap((fault) => ['--fault', fault]),
      { stdin },
    )
    stdin.write('ucf')
    expect(await sandbox.lines(3, SAID)).toEqual([
      'u: one call of the merchant API gets a 401',
      'c: all faults cleared',
      'f: one token request gets a 503',
    ])
    expect((await requestToken(sandbox.client)).status).toBe(503)
    const token = await freshToken(sandbox.client)
    for (const url of [sandbox.merchantUrl, sandbox.inStoreUrl])
      expect((await call(url, token)).status).toBe(200)
  })

  it('order nothing that would never be met', async () => {
    const stdin = new Keys()
    const faults = ['token:status=500', 'merchant:status=500', 'in-store:status=500']
    const sandbox = await start(
      faults.flatMap((fault) => ['--fault', fault]),
      { stdin },
    )
    stdin.write('fu')
    expect(await sandbox.lines(2, SAID)).toEqual([
      'f: every token request has a fault (c clears it)',
      'u: every API call has a fault (c clears it)',
    ])
    stdin.write('c')
    await sandbox.lines(3, SAID)
    expect((await requestToken(sandbox.client)).status).toBe(200)
  })

  it('are others without an effect: letters, arrows, Ctrl-R', async () => {
    const stdin = new Keys()
    const sandbox = await start([], { stdin })
    const token = await freshToken(sandbox.client)
    stdin.write('xyz 1\r\u001b[A\u0012F')
    expect(await sandbox.lines(1, SAID)).toEqual(['f: one token request gets a 503'])
    expect((await call(sandbox.merchantUrl, token)).status).toBe(200)
  })

  it.each([
    ['q', 'q'],
    ['Ctrl-C', '\u0003'],
  ])('%s: quit, with the terminal as it was', async (_name, key) => {
    const stdin = new Keys()
    const sandbox = await start([], { stdin })
    expect(stdin.modes).toEqual([true])
    stdin.write(key)
    expect(await sandbox.ended).toBe(0)
    expectReleased(stdin)
    await expect(fetch(sandbox.merchantUrl)).rejects.toHaveProperty('cause.code', 'ECONNREFUSED')
  })

  it('are let go of where a signal ends the sandbox', async () => {
    const stdin = new Keys()
    const sandbox = await start([], { stdin })
    sandbox.stop.abort('SIGTERM')
    expect(await sandbox.ended).toBe(0)
    expectReleased(stdin)
  })

  it.each([
    ['stdin is no terminal', { isTTY: false, isInForeground: true, args: [] }],
    ['the process is in the background', { isTTY: true, isInForeground: false, args: [] }],
    ['lines are JSON', { isTTY: true, isInForeground: true, args: ['--json'] }],
  ])('are none where %s', async (_where, { isTTY, isInForeground, args }) => {
    const stdin = Object.assign(new Keys(), { isTTY })
    const sandbox = await start(args, { stdin, isInForeground })
    stdin.write('q')
    for (let i = 0; i < 5; i += 1) await turn()
    expect((await requestToken(sandbox.client)).status).toBe(200)
    expect(sandbox.stderr()).not.toContain('Keys')
    expect(stdin.modes).toEqual([])
    expect(stdin.listenerCount('data')).toBe(0)
    expect(stdin.read()?.toString()).toBe('q')
  })

  it('are none, and stdin is not even asked for, where stderr is no terminal', async () => {
    const sandbox = await start()
    expect(sandbox.stderr()).not.toContain('Keys')
  })
})

function expectReleased(stdin: Keys): void {
  expect(stdin.modes).toEqual([true, false])
  expect(stdin.isPaused()).toBe(true)
  expect(stdin.eventNames().filter((name) => ['data', 'keypress'].includes(String(name)))).toEqual([])
}
