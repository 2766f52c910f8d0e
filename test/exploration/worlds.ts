/** The worlds that are explored, with the bounds of `npm test` and of `npm run test:deep`. */
import type { Answer } from '../races/endpoint.ts'
import type { Plan } from './world.ts'

const BROKEN: Answer = { kind: 'status', status: 503 }
const BROKEN_FOR_1_MIN: Answer = { kind: 'status', status: 503, retryAfter: 60 }
const DENIED: Answer = { kind: 'status', status: 400 }
const REFUSED: Answer = { kind: 'status', status: 429 }
const REFUSED_FOR_7_S: Answer = { kind: 'status', status: 429, retryAfter: 7 }
const UNREACHABLE: Answer = { kind: 'no connection' }

export const WORLDS: Readonly<Record<string, Plan>> = {
  'callers without a token, and retries': {
    start: 'no token',
    callers: [{ do: 'get a token', count: 2 }],
    answers: [BROKEN, DENIED, REFUSED_FOR_7_S],
    most: { failures: 2, aborts: 1 },
    events: { quick: 6, deep: 12 },
  },
  'callers without a token, and pauses': {
    start: 'an expired token',
    failedBefore: true,
    callers: [{ do: 'get a token', count: 3 }],
    answers: [BROKEN, DENIED, REFUSED, REFUSED_FOR_7_S],
    most: { failures: 3 },
    retries: 0,
    events: { quick: 7, deep: 12 },
  },
  'a token in its window': {
    start: 'a token in its window',
    callers: [{ do: 'get a token', count: 3 }],
    answers: [BROKEN, BROKEN_FOR_1_MIN, REFUSED],
    most: { failures: 2 },
    events: { quick: 7, deep: 12 },
  },
  'rejected calls': {
    start: 'a fresh token',
    callers: [{ do: 'call an API', count: 2 }],
    answers: [BROKEN],
    most: { failures: 2, revocations: 1 },
    events: { quick: 5, deep: 9 },
  },
  'rejected calls, and aborts': {
    start: 'a fresh token',
    callers: [{ do: 'call an API', count: 2 }],
    most: { revocations: 1, aborts: 2 },
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
    events: { quick: 5, deep: 9 },
  },
  'an API that rejects every token': {
    start: 'a fresh token',
    rejections: { count: 1, everyMs: 5_000 },
    callers: [
      { do: 'call an API', count: 2 },
      { do: 'call an API', api: 1, count: 1 },
    ],
    events: { quick: 6, deep: 8 },
  },
  // In doubt, every second call is rejected a minute after the first: it renews. 8 renewals in 31 min empty the bucket.
  'an API that has rejected 8 tokens': {
    start: 'a fresh token',
    lifetimeSeconds: 36_000,
    rejections: { count: 16, everyMs: 130_000 },
    callers: [
      { do: 'call an API', count: 2 },
      { do: 'call an API', api: 1, count: 1 },
    ],
    events: { quick: 5, deep: 7 },
  },
  'calls with a 401 of their own, and a revocation': {
    start: 'a fresh token',
    callers: [
      { do: 'call an API', isBad: true, count: 2 },
      { do: 'call an API', count: 2 },
    ],
    most: { revocations: 1 },
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
    events: { quick: 5, deep: 8 },
  },
  'a quota that is nearly spent': {
    start: 'a fresh token',
    quota: { limit: 10, remaining: 2, resetsInSeconds: 30 },
    callers: [{ do: 'call an API', count: 2 }],
    most: { revocations: 1 },
    events: { quick: 5, deep: 9 },
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
  'a lost run': {
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
    events: { quick: 7, deep: 11 },
  },
  'two processes, and a rejected token': {
    start: 'a fresh token',
    callers: [
      { do: 'call an API', count: 1 },
      { do: 'call an API', process: 1, count: 1 },
    ],
    most: { revocations: 1, outages: 1 },
    store: 'with leases',
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
