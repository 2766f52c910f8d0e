/** The worlds that are explored, with the bounds of `npm test` and of `npm run test:deep`. */
import { FIRST_COOLDOWN_429_MS } from '../../src/token/limits/cooldown.ts'
import { BACKGROUND_PAUSE_SPREAD, MIN_BACKGROUND_PAUSE_MS } from '../../src/token/limits/request-limits.ts'
import type { TokenAnswer } from '../races/endpoint.ts'
import type { Plan } from './world.ts'

const BROKEN: TokenAnswer = { kind: 'status', status: 503 }
const BROKEN_FOR_1_MIN: TokenAnswer = { kind: 'status', status: 503, retryAfter: 60 }
const DENIED: TokenAnswer = { kind: 'status', status: 400 }
const REFUSED: TokenAnswer = { kind: 'status', status: 429 }
const REFUSED_FOR_7_S: TokenAnswer = { kind: 'status', status: 429, retryAfter: 7 }
const UNREACHABLE: TokenAnswer = { kind: 'no connection' }

/** After a background renewal that failed when the refresh window had just opened. */
export const PAUSE_MS: number = MIN_BACKGROUND_PAUSE_MS * (1 - BACKGROUND_PAUSE_SPREAD)

export const WORLDS: Readonly<Record<string, Plan>> = {
  'callers without a token, and retries': {
    start: 'no token',
    callers: [{ do: 'get a token', count: 2 }],
    answers: [BROKEN, DENIED, REFUSED_FOR_7_S],
    most: { failures: 2, aborts: 1 },
    passMs: 7_000,
    events: { quick: 5, deep: 10 },
  },
  'callers without a token, and pauses': {
    start: 'an expired token',
    failedBefore: true,
    callers: [{ do: 'get a token', count: 3 }],
    answers: [BROKEN, DENIED, REFUSED, REFUSED_FOR_7_S],
    most: { failures: 3 },
    retries: 0,
    passMs: 7_000,
    events: { quick: 6, deep: 10 },
  },
  'a token in its window': {
    start: 'a token in its window',
    callers: [{ do: 'get a token', count: 3 }],
    answers: [BROKEN, BROKEN_FOR_1_MIN, REFUSED],
    most: { failures: 2 },
    passMs: FIRST_COOLDOWN_429_MS,
    events: { quick: 6, deep: 11 },
  },
  'rejected calls': {
    start: 'a fresh token',
    callers: [{ do: 'call an API', count: 2 }],
    answers: [BROKEN],
    most: { failures: 2, revocations: 1 },
    passMs: 1_000,
    events: { quick: 4, deep: 8 },
  },
  'rejected calls, and aborts': {
    start: 'a fresh token',
    callers: [{ do: 'call an API', count: 2 }],
    most: { revocations: 1, aborts: 2 },
    staysFresh: true,
    allSucceed: true,
    events: { quick: 5, deep: 8 },
  },
  'a call rejected in the window': {
    start: 'a token in its window',
    callers: [
      { do: 'call an API', count: 1 },
      { do: 'get a token', count: 1 },
    ],
    answers: [UNREACHABLE, REFUSED],
    most: { failures: 2, revocations: 1 },
    passMs: 10_000,
    events: { quick: 4, deep: 8 },
  },
  'an API that rejects every token': {
    start: 'a fresh token',
    rejections: { count: 1, everyMs: 5_000 },
    callers: [
      { do: 'call an API', count: 2 },
      { do: 'call an API', api: 1, count: 1 },
    ],
    passMs: 60_000,
    events: { quick: 5, deep: 8 },
  },
  // In doubt, at a call a minute every third one renews: 8 renewals in 21 min empty the bucket.
  'an API that has rejected 8 tokens': {
    start: 'a fresh token',
    lifetimeSeconds: 36_000,
    rejections: { count: 22, everyMs: 60_000 },
    callers: [
      { do: 'call an API', count: 2 },
      { do: 'call an API', api: 1, count: 1 },
    ],
    passMs: 2_400_000,
    events: { quick: 4, deep: 7 },
  },
  'a revocation after a scheduled renewal': {
    start: 'a token in its window',
    callers: [
      { do: 'call an API', count: 2 },
      { do: 'call an API', api: 1, count: 1 },
    ],
    most: { revocations: 1 },
    staysFresh: true,
    allSucceed: true,
    events: { quick: 5, deep: 8 },
  },
  'calls that cannot be repeated': {
    start: 'a token in its window',
    callers: [
      { do: 'call an API', isStream: true, count: 2 },
      { do: 'call an API', count: 1 },
    ],
    answers: [BROKEN],
    most: { failures: 1, revocations: 1 },
    passMs: 1_000,
    events: { quick: 4, deep: 6 },
  },
  'forced calls': {
    start: 'a token in its window',
    callers: [
      { do: 'force a token', count: 2 },
      { do: 'get a token', count: 1 },
      { do: 'call an API', count: 2 },
    ],
    answers: [BROKEN],
    most: { failures: 2, revocations: 1 },
    retries: 0,
    events: { quick: 4, deep: 6 },
  },
  'calls with a 401 of their own, and a revocation': {
    start: 'a fresh token',
    callers: [
      { do: 'call an API', isBad: true, count: 2 },
      { do: 'call an API', count: 2 },
    ],
    most: { revocations: 1 },
    passMs: 60_000,
    events: { quick: 4, deep: 7 },
  },
  'APIs that learn late of a new token': {
    start: 'a token in its window',
    isLagging: true,
    callers: [
      { do: 'call an API', count: 2 },
      { do: 'call an API', isBad: true, count: 1 },
    ],
    most: { learnings: 1 },
    passMs: PAUSE_MS,
    allSucceed: true,
    events: { quick: 4, deep: 7 },
  },
  'a provider that is closed': {
    start: 'a token in its window',
    callers: [
      { do: 'call an API', count: 1 },
      { do: 'get a token', count: 1 },
    ],
    answers: [BROKEN],
    most: { closes: 1, failures: 1 },
    isDeaf: true,
    events: { quick: 5, deep: 9 },
  },
  'a lost acquisition': {
    start: 'no token',
    callers: [{ do: 'get a token', count: 3 }],
    answers: [BROKEN],
    most: { drops: 1, failures: 1 },
    events: { quick: 7, deep: 12 },
  },
  'a lost renewal': {
    start: 'a token in its window',
    callers: [
      { do: 'call an API', count: 1 },
      { do: 'get a token', count: 2 },
    ],
    most: { drops: 2, revocations: 1 },
    events: { quick: 4, deep: 8 },
  },
  'two processes without a token': {
    start: 'no token',
    callers: [
      { do: 'get a token', count: 1 },
      { do: 'get a token', process: 1, count: 1 },
    ],
    answers: [BROKEN, REFUSED],
    most: { failures: 2 },
    store: 'with leases',
    passMs: 1_000,
    events: { quick: 6, deep: 10 },
  },
  'two processes, and a rejected token': {
    start: 'a fresh token',
    callers: [
      { do: 'call an API', count: 1 },
      { do: 'call an API', process: 1, count: 1 },
    ],
    most: { revocations: 1, outages: 1 },
    store: 'with leases',
    staysFresh: true,
    allSucceed: true,
    events: { quick: 4, deep: 7 },
  },
  'two processes, and a revocation after scheduled renewals': {
    start: 'a token in its window',
    callers: [
      { do: 'call an API', count: 2 },
      { do: 'call an API', process: 1, count: 2 },
    ],
    most: { revocations: 1 },
    store: 'with leases',
    allSucceed: true,
    events: { quick: 4, deep: 7 },
  },
  'two processes, and a token in its window': {
    start: 'a token in its window',
    callers: [
      { do: 'get a token', count: 1 },
      { do: 'get a token', process: 1, count: 1 },
    ],
    answers: [REFUSED],
    most: { failures: 1, outages: 1 },
    store: 'with leases',
    events: { quick: 5, deep: 8 },
  },
}
