import { describe, expect, it } from 'vitest'
import { rejection, rig, status } from './harness.ts'

describe('an error description that is longer than is searched', () => {
  it('shows nothing where a secret stands in it: half of another may stand at its end', async () => {
    const clientSecret = Array.from({ length: 1_000 }, (_, n) => String(n).padStart(5, 's')).join('')
    const error_description = `x${clientSecret}${clientSecret}`
    const { provider } = rig([status(400, { error: 'x', error_description })], { clientSecret })
    expect(await rejection(provider.getToken())).toMatchObject({ errorDescription: '[hidden]' })
  })

  it('shows its beginning where none does', async () => {
    const { provider } = rig([status(400, { error: 'x', error_description: 'too long, '.repeat(2_000) })])
    const { errorDescription } = await rejection<Error & { errorDescription: string }>(provider.getToken())
    expect(errorDescription).toBe('too long, '.repeat(30))
  })
})
