/** Tells a contributor why the tests on a real Redis are skipped. */
import { expect, it } from 'vitest'
import { redisMissing } from '../support/redis-server.ts'
import { SKIPPED } from './rig.ts'

it('redis-server is installed', ({ skip }) => {
  const missing = redisMissing()
  if (SKIPPED) {
    console.warn(missing)
    skip(missing)
  }
  expect(missing).toBeUndefined()
})
