/** The quota header parser is loaded on first use: by then its file may be missing or from another version. */
import { expect, it, vi } from 'vitest'
import { granted, rig } from './harness.ts'

vi.mock('../../src/token/quota-headers.ts', () => ({}))

it('a token is acquired even if the quota header parser cannot be loaded', async () => {
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
