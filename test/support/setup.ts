/** Checks after every test that no error, response, event or provider of the test contains one of its secrets. */
import { subscribe } from 'node:diagnostics_channel'
import { afterEach, beforeEach, expect } from 'vitest'
import { findLeaks } from './leaks.ts'
import { forget, outcomes, secrets } from './recorded.ts'

subscribe('merchant-auth', (event) => outcomes.push(event))

beforeEach(forget)

afterEach(() => {
  const leaks = outcomes.flatMap((outcome) => findLeaks(outcome, secrets))
  expect(leaks, 'secrets in what could be logged').toEqual([])
})
