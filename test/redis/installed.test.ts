/** The one place that says to a contributor why there are no tests on a real Redis. */
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
