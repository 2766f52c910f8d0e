import { describe, expect, it } from 'vitest'
import { granted, rig } from './harness.ts'

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
    expect(JSON.stringify(token)).not.toContain('a.b.c')
  })
})
