/** Forged evidence for the tests of the soak's matching: calls, requests, troubles and token requests. */
import type { Fault, SandboxRequest } from 'merchant-auth/testing'
import type {
  Arrival,
  EndedCall,
  Evidence,
  Outcome,
  Story,
  TokenTry,
  Trouble,
} from '../../scripts/soak/evidence.ts'
import { explain } from '../../scripts/soak/matching.ts'

/** The call lasted from 10 000 to 11 000. */
export const call = (outcome: Outcome, more: Partial<EndedCall> = {}): EndedCall => ({
  id: 'call-1',
  client: 'fetch',
  api: 'merchant',
  place: 'test',
  apiUrl: 'http://127.0.0.1:1/merchant',
  startedAt: 10_000,
  endedAt: 11_000,
  repeatable: true,
  limitMs: 1_000,
  wholeLimit: true,
  outcome,
  ...more,
})

export const sent = (record: Partial<SandboxRequest>, place: 'test' | 'production' = 'test'): Arrival => ({
  place,
  record: {
    id: 1,
    at: 10_010,
    target: 'merchant',
    method: 'GET',
    path: '/merchant/calls/call-1',
    headers: {},
    jti: 'one',
    ...record,
  },
})

interface Forged {
  readonly requests?: readonly Arrival[]
  readonly story?: Partial<Story>
  readonly troubles?: readonly Trouble[]
  /** By id. */
  readonly faults?: Readonly<Record<string, Fault>>
}

const tokens = new Map(['one', 'two'].map((jti) => [jti, { issuedAt: 9_000, expiresAt: 12_000 }]))

export const evidence = ({ requests = [], story = {}, troubles = [], faults = {} }: Forged): Evidence => ({
  requests,
  troubles,
  story: {
    id: 'test-1.1',
    place: 'test',
    tries: [],
    failures: [],
    acquiredAt: [9_000],
    suppressed: [],
    tokens,
    ...story,
  },
  faultOf: (place, id) => faults[`${place}/${id}`],
})

export const why = (ended: EndedCall, forged: Forged): string | undefined =>
  explain(ended, evidence(forged))?.why

export const trouble = (kind: Trouble['kind'], more: Partial<Trouble> = {}): Trouble => ({
  id: `${kind}-1`,
  kind,
  place: 'test',
  from: 10_005,
  to: 10_005,
  ...more,
})

export const tokenTry = (record: Partial<SandboxRequest>, more: Partial<TokenTry> = {}): TokenTry => ({
  id: 'test-1.1-1',
  startedAt: 10_100,
  endedAt: 10_200,
  record: sent({ target: 'token', at: 10_110, ...record }).record,
  ...more,
})

export const failure = (tried: TokenTry, more: Partial<Story['failures'][number]> = {}) => ({
  at: 10_900,
  code: 'ERR_TOKEN_STATUS',
  status: 503,
  attempts: 3,
  tried,
  cooldownMs: 1_000,
  ...more,
})
