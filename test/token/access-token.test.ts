import assert from 'node:assert'
import { Console } from 'node:console'
import { PassThrough } from 'node:stream'
import { inspect } from 'node:util'
import { serialize } from 'node:v8'
import { createStaticTokenProvider, startSandbox } from 'merchant-auth/testing'
import { describe, expect, it } from 'vitest'
import { granted, rig, SECRET } from './harness.ts'

/** With every option of inspect that may show more. */
const MORE = [{}, { showHidden: true }, { getters: true }, { showProxy: true }, { customInspect: false }]
const ALL = { showHidden: true, getters: true, showProxy: true, customInspect: false, depth: Infinity }

function prints(value: object): string[] {
  return [...MORE, ALL].map((options) => inspect(value, { ...options, maxStringLength: null }))
}

describe('an access token', () => {
  it.each([
    ['with a scope', { scope: 'merchant in-store' }, ['tokenType', 'expiresAt', 'scope']],
    ['without one', {}, ['tokenType', 'expiresAt']],
    ['whose scope is no text', { scope: ['merchant'] }, ['tokenType', 'expiresAt']],
  ])('%s has these fields and no others, is frozen, and hides its value', async (_, fields, keys) => {
    const token = await rig([granted({ ...fields, access_token: 'a.b.c' })]).provider.getToken()
    expect(Object.keys(token)).toEqual(keys)
    expect(token).toMatchObject({ tokenType: 'Bearer', value: 'a.b.c' })
    expect(Object.isFrozen(token)).toBe(true)
    for (const print of prints(token)) expect(print).not.toContain('a.b.c')
  })

  it('hides its value from everything that copies, compares or prints it', async () => {
    const token = await rig([granted({ access_token: 'a.b.c', scope: 'merchant' })]).provider.getToken()
    const table = new PassThrough()
    new Console(table).table([token])
    const different = await rig([granted({ access_token: 'd.e.f' })]).provider.getToken()
    let diff = ''
    try {
      assert.deepStrictEqual({ token }, { token: different })
    } catch (error) {
      diff = (error as Error).message
    }
    expect(diff).toContain('scope')
    const shown = [
      JSON.stringify(token),
      JSON.stringify({ ...token }),
      JSON.stringify(Object.entries(token)),
      JSON.stringify(structuredClone(token)),
      serialize(token).toString('latin1'),
      String(table.read()),
      String(token),
      diff,
      inspect([{ token }], ALL),
      inspect(Object.getPrototypeOf(token), ALL),
    ]
    for (const text of shown) expect(text).not.toMatch(/a\.b\.c|d\.e\.f/)
    expect([token.value, token.value === 'a.b.c']).toEqual(['a.b.c', true])
  })
})

describe('no print of', () => {
  it('a provider shows the secret or the token', async () => {
    const { provider } = rig([granted({ access_token: 'a.b.c' })])
    await provider.getToken()
    const statics = createStaticTokenProvider({ value: 'a.b.c' })
    for (const print of [...prints(provider), ...prints(statics)]) {
      expect(print).not.toContain('a.b.c')
      expect(print).not.toContain(SECRET)
    }
  })

  it('a sandbox shows its client secret', async () => {
    await using sandbox = await startSandbox()
    for (const print of [...prints(sandbox), ...prints(sandbox.test)])
      expect(print).not.toContain(sandbox.test.clientSecret)
  })
})
