/** Error statuses of the token endpoint, without Retry-After and with one that is within or beyond timeoutMs. */
import { describe } from 'vitest'
import type { ManualClock } from '../support/clock.ts'
import { tryFaults } from './token-rig.ts'

const seconds = (given: number) => (): string => String(given)
const date =
  (given: number) =>
  (clock: ManualClock): string =>
    new Date(clock.epochMs() + given * 1_000).toUTCString()

/**
 * 408, 429 and 5xx are retried twice, after 200 and 400 ms or after Retry-After. The cooldown after the failure is 1 s,
 * or a longer Retry-After: up to 60 s, and up to 5 min after a 429.
 */
const PAUSES = [
  { name: '', retried: { requests: 3, ms: 600 }, firstSuccessMs: 1_000 },
  {
    name: ', Retry-After 2 s',
    retryAfter: seconds(2),
    retryAfterMs: 2_000,
    retried: { requests: 3, ms: 4_000 },
    firstSuccessMs: 2_000,
  },
  {
    name: ', Retry-After a date in 2 s',
    retryAfter: date(2),
    retryAfterMs: 2_000,
    retried: { requests: 3, ms: 4_000 },
    firstSuccessMs: 2_000,
  },
  { name: ', Retry-After 45 s', retryAfter: seconds(45), retryAfterMs: 45_000, firstSuccessMs: 45_000 },
  {
    name: ', Retry-After a date in 45 s',
    retryAfter: date(45),
    retryAfterMs: 45_000,
    firstSuccessMs: 45_000,
  },
  {
    name: ', Retry-After an hour',
    retryAfter: seconds(3_600),
    retryAfterMs: 3_600_000,
    firstSuccessMs: 60_000,
  },
]

const STATUSES = [
  { kind: 'final', codes: [400, 401, 403, 404], group: 'statuses that are not retried' },
  { kind: 'retried', codes: [408, 429, 500, 502, 503, 504], group: 'statuses that are retried' },
] as const

describe('an error status of the token endpoint', () => {
  for (const { kind, codes, group } of STATUSES) {
    for (const code of codes) {
      for (const { name, retryAfter, retryAfterMs, retried, firstSuccessMs } of PAUSES) {
        const attempts = (kind === 'retried' && retried) || { requests: 1, ms: 0 }
        const expected = {
          outcome: `TokenRequestError, ${code}`,
          ...attempts,
          background: { requests: 1, ms: 0 },
          firstSuccessMs: code === 429 && retryAfterMs === 3_600_000 ? 300_000 : firstSuccessMs,
          retryAfterMs,
        }
        tryFaults(group, expected, [
          [
            `${code}${name}`,
            {
              answer: (_, clock) =>
                new Response('', {
                  status: code,
                  headers: retryAfter === undefined ? {} : { 'retry-after': retryAfter(clock) },
                }),
            },
          ],
        ])
      }
    }
  }
})
