/** The parser of the quota headers is a file of its own, which may be another one, or gone, when it is needed. */
import { expect, it, vi } from 'vitest'
import { granted, rig } from './harness.ts'

vi.mock('../../src/token/quota-headers.ts', () => ({}))

it('a token is acquired although the parser cannot be loaded', async () => {
  const { provider, events } = rig([
    async (init) => {
      const response = await granted()(init)
      response.headers.set('RateLimit', '"default";r=7')
      return response
    },
  ])
  expect(await provider.getToken()).toBeDefined()
  expect(events.at(-1)).not.toHaveProperty('quota')
})
