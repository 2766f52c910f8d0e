/** Matches a failed call with the fault that explains it. What is not matched here is unexplained. */
import type { Fault } from 'merchant-auth/testing'
import type { Arrival, EndedCall, Evidence, Explanation, Outcome } from './evidence.ts'
import {
  explainTokenError,
  nameOf,
  noTokenIn,
  SLACK_MS,
  stalled,
  tokenHeldUpIn,
  troublesIn,
} from './token-trouble.ts'

/** How soon (ms) a caller that left must have got its error. */
const PROMPT_MS = 500

/** Why a call failed; undefined: nothing that was done explains it. */
export function explain(call: EndedCall, evidence: Evidence): Explanation | undefined {
  const { outcome, startedAt, endedAt } = call
  const span = [startedAt, endedAt] as const
  switch (outcome.kind) {
    case 'ok':
    case 'strange':
      return undefined
    case 'left':
      return explainLeft(call, evidence)
    case 'closed':
      return closedIn(span, evidence)
    case 'token':
      return explainTokenError(outcome, span, evidence)
    case 'limit':
      return explainLimit(call, evidence)
    case 'status':
      return outcome.status === 401 ? explain401(call, evidence) : explainByFault(call, evidence)
    case 'body':
    case 'network':
      return explainByFault(call, evidence)
  }
}

/** What the contract does not allow, however the call ended; undefined: nothing of it. */
export function breachOf(call: EndedCall, evidence: Evidence): string | undefined {
  const { id, place, client } = call
  const { requests } = evidence
  const followed = requests.filter((arrival) => redirectOf(arrival, evidence) !== undefined).length
  if (requests.length - followed > 2) return `${id} was sent ${requests.length} times (contract 5.5)`
  const stray = requests.find(
    ({ place: other, record }) =>
      (other !== place || (record.target === undefined && client.startsWith('axios http'))) &&
      (record.headers['authorization'] !== undefined || record.headers['x-api-token'] !== undefined),
  )
  if (stray !== undefined)
    return `${id} carried its token to ${stray.place} ${stray.record.path} (contract 5.4)`
  const lateMs = lateBy(call, evidence)
  return lateMs > PROMPT_MS
    ? `${id} ended ${lateMs} ms later than its caller wished (contract 3.7)`
    : undefined
}

/** How long (ms) after the caller's own end of it a call ended; 0 where this machine stood still meanwhile. */
function lateBy({ left, startedAt, endedAt, limitMs, wholeLimit }: EndedCall, evidence: Evidence): number {
  const due = left?.at ?? (wholeLimit ? startedAt + limitMs : endedAt)
  const lateMs = Math.max(0, endedAt - due)
  return stalled(evidence, evidence.story.place, [due, endedAt], lateMs) === undefined ? lateMs : 0
}

function explainLeft(call: EndedCall, evidence: Evidence): Explanation | undefined {
  const { left, endedAt } = call
  if (left === undefined || left.at > endedAt + SLACK_MS) return undefined
  return lateBy(call, evidence) <= PROMPT_MS ? { why: 'the caller left', ids: [left.id] } : undefined
}

function closedIn(span: readonly [number, number], evidence: Evidence): Explanation | undefined {
  const { id, place } = evidence.story
  const close = troublesIn(evidence, ['close'], place, span).find((one) => one.id === `close-${id}`)
  return close && { why: 'provider closed', ids: [close.id] }
}

/** A fault of the last answer, or a redirect that led elsewhere. */
function explainByFault(call: EndedCall, evidence: Evidence): Explanation | undefined {
  const last = evidence.requests.at(-1)
  if (last === undefined) return undefined
  return byFault(last, call.outcome, evidence) ?? byRedirect(call, evidence)
}

function byFault(arrival: Arrival, outcome: Outcome, evidence: Evidence): Explanation | undefined {
  const fault = faultOf(arrival, evidence)
  if (fault === undefined || !brings(fault, outcome)) return undefined
  return { why: `API: ${nameOf(fault)}`, ids: [idOf(arrival)] }
}

/** A redirect that was followed to where there is nothing, or where the token may not go; or that cannot be followed. */
function byRedirect({ outcome, repeatable }: EndedCall, evidence: Evidence): Explanation | undefined {
  const last = evidence.requests.at(-1)
  for (const arrival of evidence.requests) {
    const fault = redirectOf(arrival, evidence)
    if (fault === undefined || last === undefined) continue
    const fits =
      last === arrival
        ? outcome.kind === 'network' && !repeatable
        : fault.location.endsWith(last.record.path) && endsElsewhere(outcome)
    if (fits) return { why: 'API: redirect', ids: [idOf(arrival)] }
  }
  return undefined
}

/** Nothing is there, or no token was sent along, or the method and the body were not. */
function endsElsewhere(outcome: Outcome): boolean {
  return (
    outcome.kind === 'body' ||
    (outcome.kind === 'status' && (outcome.status === 401 || outcome.status === 404))
  )
}

function explain401(call: EndedCall, evidence: Evidence): Explanation | undefined {
  const last = evidence.requests.at(-1)
  if (last === undefined) return undefined
  // A 401 after a redirect renews nothing (contract 5.4).
  const redirected = byRedirect(call, evidence)
  if (redirected !== undefined || last.place !== call.place) return redirected
  const refused = whyRefused(last, evidence)
  if (refused === undefined) return undefined
  const fault = faultOf(last, evidence)
  if (fault !== undefined && saysInsufficientScope(fault))
    return { why: '401, insufficient scope', ids: refused }
  if (!call.repeatable) return { why: '401, body sent once', ids: refused }
  const before = evidence.requests.at(-2)
  if (before !== undefined) {
    const first = whyRefused(before, evidence)
    // A repeat carries another token than the one that was refused.
    if (first === undefined || before.record.jti === last.record.jti) return undefined
    return { why: '401 to the repeat, too', ids: [...first, ...refused] }
  }
  const span = [last.record.at, call.endedAt] as const
  const suppressed = evidence.story.suppressed.some(
    ({ at, api }) => api === call.apiUrl && at >= call.startedAt - SLACK_MS && at <= call.endedAt + SLACK_MS,
  )
  if (suppressed) return { why: '401, renewal suppressed', ids: refused }
  const noToken = noTokenIn(span, evidence)
  if (noToken !== undefined) return { why: '401, renewal failed', ids: [...refused, ...noToken.ids] }
  const closed = closedIn([call.startedAt, call.endedAt], evidence)
  return closed && { why: '401, provider closed', ids: [...refused, ...closed.ids] }
}

/** What made an API refuse the token of one request. */
function whyRefused(arrival: Arrival, evidence: Evidence): string[] | undefined {
  const { place, record } = arrival
  if (record.status !== 401) return undefined
  const fault = faultOf(arrival, evidence)
  if (fault !== undefined && brings(fault, { kind: 'status', status: 401 })) return [idOf(arrival)]
  if (record.jti === undefined) return undefined // no token, or one that the service never issued
  const token = evidence.story.tokens.get(record.jti)
  const revocation = evidence.troubles.find(
    ({ kind, place: where, from, jti }) =>
      kind === 'revocation' &&
      where === place &&
      from <= record.at + SLACK_MS &&
      (jti === undefined ? token !== undefined && token.issuedAt <= from + SLACK_MS : jti === record.jti),
  )
  if (revocation !== undefined) return [revocation.id]
  const refusal = troublesIn(evidence, ['refusal'], place, [record.at, record.at]).find(({ apis = [] }) =>
    apis.some((api) => api === record.target),
  )
  if (refusal !== undefined) return [refusal.id]
  return token !== undefined && token.expiresAt <= record.at + SLACK_MS ? ['expiry'] : undefined
}

/** What used up the caller's patience: its requests' faults or latency, or the token that it waited for. */
function explainLimit(call: EndedCall, evidence: Evidence): Explanation | undefined {
  const { startedAt, endedAt, limitMs } = call
  for (const arrival of evidence.requests) {
    const held = heldUpAtApi(arrival, call, evidence)
    if (held !== undefined) return held
  }
  const last = evidence.requests.at(-1)
  // Who has no answer to read yet, or a 401 in hand, waits for a token; or it came when hardly any time was left.
  const waits = last === undefined || last.record.status === 401
  if (waits || endedAt - last.record.at <= limitMs / 4) {
    const token = tokenHeldUpIn(waits ? endedAt : last.record.at, evidence)
    if (token !== undefined) return token
  }
  const stall = stalled(evidence, evidence.story.place, [startedAt, endedAt], limitMs)
  return stall === undefined ? undefined : { why: 'this machine stood still', ids: [stall] }
}

function heldUpAtApi(
  arrival: Arrival,
  { outcome, limitMs }: EndedCall,
  evidence: Evidence,
): Explanation | undefined {
  const { place, record } = arrival
  const fault = byFault(arrival, outcome, evidence)
  if (fault !== undefined) return fault
  const latency = troublesIn(evidence, ['latency'], place, [record.at, record.at]).find(
    ({ apiLatencyMs = 0 }) => apiLatencyMs >= limitMs / 4,
  )
  return latency && { why: 'API: latency', ids: [latency.id] }
}

/** Whether a call that meets this fault may end like this. */
function brings(fault: Fault, outcome: Outcome): boolean {
  switch (fault.kind) {
    case 'status':
      return outcome.kind === 'status' && outcome.status === fault.status
    case 'json':
    case 'text': {
      const { status = 200 } = fault
      return status === 200 ? outcome.kind === 'body' : outcome.kind === 'status' && outcome.status === status
    }
    case 'redirect':
      return outcome.kind === 'status' && outcome.status === (fault.status ?? 307)
    case 'reset':
    case 'truncated-body':
      return outcome.kind === 'network'
    case 'hang':
      // axios' http adapter resets the connection of a body that stands still.
      return outcome.kind === 'limit' || (fault.at === 'body' && outcome.kind === 'network')
    case 'slow-body':
      return outcome.kind === 'limit'
    case 'huge-body':
      // Too long for the caller, or filled up where the usual answer was none.
      return outcome.kind === 'network' || outcome.kind === 'body' || outcome.kind === 'limit'
  }
}

function faultOf(
  { place, record }: Arrival,
  { faultOf: look }: Pick<Evidence, 'faultOf'>,
): Fault | undefined {
  return record.fault === undefined ? undefined : look(place, record.fault)
}

function redirectOf(
  arrival: Arrival,
  evidence: Pick<Evidence, 'faultOf'>,
): Extract<Fault, { kind: 'redirect' }> | undefined {
  const fault = faultOf(arrival, evidence)
  return fault?.kind === 'redirect' ? fault : undefined
}

function idOf({ place, record }: Arrival): string {
  return `${place}/${record.fault}`
}

function saysInsufficientScope(fault: Fault): boolean {
  return fault.kind === 'status' && /insufficient_scope/.test(fault.headers?.['www-authenticate'] ?? '')
}
