/** All clients under test, in the order of the tables. */
import { isAgainst } from '../part.ts'
import * as baselines from './baselines.ts'
import type { Contender } from './contender.ts'
import { ours, oursBefore } from './ours.ts'
import * as peers from './peers.ts'

const CLIENTS: readonly Contender['client'][] = ['axios', 'fetch', 'undici', 'other']
const KINDS: readonly Contender['kind'][] = ['baseline', 'ours', 'before', 'handwritten', 'peer']

export const contenders: readonly Contender[] = [
  ...Object.values(baselines),
  ...ours,
  ...(isAgainst ? oursBefore : []),
  ...Object.values(peers),
].sort(
  (a, b) =>
    CLIENTS.indexOf(a.client) - CLIENTS.indexOf(b.client) || KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind),
)
