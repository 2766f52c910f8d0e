/** Checks after every test that no error, response, event or provider of the test contains one of its secrets. */
import { afterEach, beforeEach, expect } from 'vitest'
import { findLeaks } from './leaks.ts'
import { forget, outcomes, secrets } from './recorded.ts'

beforeEach(forget)

afterEach(() => {
  const leaks = outcomes.flatMap((outcome) => findLeaks(outcome, secrets))
  expect(leaks, 'secrets in what could be logged').toEqual([])
})
