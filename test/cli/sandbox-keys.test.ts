// Keys at the terminal: what each does to the running sandbox, and that the terminal is restored at the end.
import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { call, freshToken, requestToken, turn } from '../testing/calls.ts'
import { flagsOf, sandbox as start } from './rig.ts'

/** The stdin of a terminal, which records changes of its raw mode. */
class Keys extends PassThrough {
  isTTY = true
  readonly modes: boolean[] = []

  setRawMode(isRaw: boolean): void {
    this.modes.push(isRaw)
  }
}

async function withKeys(...faults: readonly string[]) {
  const stdin = new Keys()
  return { stdin, ...(await start(flagsOf(faults), { stdin })) }
}

/** Matches the line that reports what a key did. */
const KEY_LINE = /^[a-z]: /

describe('the keys of the sandbox command', () => {
  it('revoke tokens (r), return 503 to the next token request (f), and 401 to the next API calls (u)', async () => {
    const { stdin, command, client, merchantUrl, inStoreUrl, lines } = await withKeys()
    expect(command.stderr()).toContain('r  revoke all tokens')
    const token = await freshToken(client)
    stdin.write('rfu')
    expect(await lines(3, KEY_LINE)).toEqual([
      'r: 1 token revoked',
      'f: a 503 is queued for the next token request',
      'u: a 401 is queued for the next call of each API',
    ])
    expect((await requestToken(client)).status).toBe(503)
    const next = await freshToken(client)
    for (const url of [merchantUrl, inStoreUrl]) {
      const response = await call(url, next)
      expect(response.headers.get('www-authenticate')).toBe('Bearer error="invalid_token"')
      expect((await call(url, next)).status).toBe(200)
    }
    const revoked = await call(merchantUrl, token)
    expect(revoked.headers.get('www-authenticate')).toContain('The token was revoked')
    expect((await lines(2))[1]).toMatch(/503 +\d+ ms {2}fault status=503 \(key f\)$/)
  })

  it('c: clear all faults of flags and keys, after which keys can queue new ones', async () => {
    const faults = ['token:reset', 'merchant:status=500,times=9', 'in-store:hang']
    const { stdin, ...sandbox } = await withKeys(...faults)
    stdin.write('xF\u001b[A') // other keys do nothing
    stdin.write('ucf')
    expect(await sandbox.lines(3, KEY_LINE)).toEqual([
      'u: a 401 is queued for the next call of each API',
      'c: all faults cleared',
      'f: a 503 is queued for the next token request',
    ])
    expect((await requestToken(sandbox.client)).status).toBe(503)
    const token = await freshToken(sandbox.client)
    for (const url of [sandbox.merchantUrl, sandbox.inStoreUrl])
      expect((await call(url, token)).status).toBe(200)
  })

  it.each([
    ['q', 'q'],
    ['Ctrl-C', '\u0003'],
    ['a signal', undefined],
  ])('%s: quit, and restore the terminal', async (_name, key) => {
    const { stdin, ...sandbox } = await withKeys()
    expect(stdin.modes).toEqual([true])
    if (key === undefined) sandbox.command.interrupt()
    else stdin.write(key)
    expect((await sandbox.command).code).toBe(0)
    expect(stdin.modes).toEqual([true, false])
    expect(stdin.isPaused()).toBe(true)
    await expect(fetch(sandbox.merchantUrl)).rejects.toHaveProperty('cause.code', 'ECONNREFUSED')
  })

  it.each([
    ['stdin is not a terminal', { isTTY: false, args: [] }],
    ['the log is JSON', { isTTY: true, args: ['--json'] }],
  ])('do nothing if %s', async (_where, { isTTY, args }) => {
    const stdin = Object.assign(new Keys(), { isTTY })
    const sandbox = await start(args, { stdin })
    stdin.write('q')
    await turn(5)
    expect((await requestToken(sandbox.client)).status).toBe(200)
    expect(sandbox.command.stderr()).not.toContain('Keys')
    expect(stdin.modes).toEqual([])
    expect(stdin.listenerCount('data')).toBe(0)
    expect(stdin.read()?.toString()).toBe('q')
  })
})
