/** What explains that no token could be had: the fault behind a failed token request, and the cooldown after it. */
import type { Fault } from 'merchant-auth/testing'
import type { Evidence, Explanation, Outcome, Place, TokenFailure, TokenTry, Trouble } from './evidence.ts'

/** Instants of whole ms, and clocks read one after the other. */
export const SLACK_MS = 5
/** Between an error that was made and a caller that sees it there may lie this much of other work. */
const LATE_MS = 500

/** No token request takes longer: the providers' timeoutMs, and as much again for who waited for another's. */
const MOST_REQUEST_MS = 4_000

const MAX_RETRY_AFTER_MS = 60_000

type TokenOutcome = Extract<Outcome, { readonly kind: 'token' }>

/** The troubles of some kinds that went on at one place between two instants. */
export function troublesIn(
  { troubles }: Evidence,
  kinds: readonly Trouble['kind'][],
  place: Place,
  [from, to]: readonly [number, number],
): Trouble[] {
  return troubles.filter(
    (trouble) =>
      kinds.includes(trouble.kind) &&
      (trouble.place === undefined || trouble.place === place) &&
      trouble.from <= to + SLACK_MS &&
      trouble.to >= from - SLACK_MS,
  )
}

/** Standing still that took a third of a limit or more; explains time-outs, and nothing else. */
export function stalled(
  evidence: Evidence,
  place: Place,
  span: readonly [number, number],
  limitMs: number,
): string | undefined {
  const stalls = troublesIn(evidence, ['stall'], place, span)
  const lostMs = stalls.reduce((sum, { ms = 0 }) => sum + ms, 0)
  return lostMs >= limitMs / 3 ? stalls.at(-1)?.id : undefined
}

/** Why a token request failed; undefined where nothing was done that would make it fail in this way. */
function causeOf(failure: TokenFailure, evidence: Evidence): Explanation | undefined {
  const { at, code, status, tried } = failure
  const { place } = evidence.story
  if (code === 'ERR_CLIENT_SECRET') {
    const vault = troublesIn(evidence, ['vault'], place, [at, at])[0]
    return vault && { why: 'token: client secret', ids: [vault.id] }
  }
  if (tried === undefined) return undefined
  const { record } = tried
  const span = [tried.startedAt, at] as const
  if (record?.fault !== undefined) {
    const fault = evidence.faultOf(place, record.fault)
    if (fault !== undefined && endsIn(fault, code, status)) {
      return { why: `token: ${nameOf(fault)}`, ids: [`${place}/${record.fault}`] }
    }
  }
  // What the service itself said of a secret that was replaced, even where a fault then held up the rest of it.
  if (code === 'ERR_TOKEN_STATUS' && status === 401 && record?.status === 401) {
    const rotation = troublesIn(evidence, ['rotation'], place, span)[0]
    if (rotation !== undefined) return { why: 'token: rotated secret', ids: [rotation.id] }
  }
  if (code !== 'ERR_TOKEN_TIMEOUT') return undefined
  const latency = record && latencyAt(record.at, place, evidence)
  if (latency !== undefined) return { why: 'token: latency', ids: [latency.id] }
  // It had only the time that the attempts before it had left.
  const before = attemptsBefore(tried, failure, evidence)
  const met = before.map((one) => holdUp(one, place, evidence)).find((cause) => cause !== undefined)
  if (met !== undefined) return met
  const { startedAt } = before[0] ?? tried
  const stall = stalled(evidence, place, [startedAt, at], at - startedAt)
  return stall === undefined ? undefined : { why: 'this machine stood still', ids: [stall] }
}

/** The attempts before it, of the same token request. */
function attemptsBefore(tried: TokenTry, { attempts }: TokenFailure, { story }: Evidence): TokenTry[] {
  const earlier = story.tries.filter(({ startedAt }) => startedAt < tried.startedAt)
  return attempts > 1 ? earlier.slice(1 - attempts) : []
}

/** The latency that a token request met when it arrived. */
function latencyAt(at: number, place: Place, evidence: Evidence): Trouble | undefined {
  return troublesIn(evidence, ['latency'], place, [at, at]).find(
    ({ tokenLatencyMs }) => tokenLatencyMs !== undefined,
  )
}

/** Whether a token request that meets this fault may end with this code and status. */
function endsIn(fault: Fault, code: string, status: number | undefined): boolean {
  switch (fault.kind) {
    case 'status':
      return code === 'ERR_TOKEN_STATUS' && status === fault.status
    case 'json':
    case 'text':
      return (fault.status ?? 200) < 300
        ? code === 'ERR_TOKEN_RESPONSE'
        : code === 'ERR_TOKEN_STATUS' && status === fault.status
    case 'redirect':
      return code === 'ERR_TOKEN_REDIRECT'
    case 'reset':
    case 'truncated-body':
      return code === 'ERR_TOKEN_NETWORK'
    case 'hang':
    case 'slow-body':
      return code === 'ERR_TOKEN_TIMEOUT'
    case 'huge-body': // takes long where the machine is slow
      return code === 'ERR_TOKEN_RESPONSE' || code === 'ERR_TOKEN_TIMEOUT'
  }
}

/** A fault in a few words, for the table. */
export function nameOf(fault: Fault): string {
  switch (fault.kind) {
    case 'status':
      return `status ${fault.status}`
    case 'hang':
      return `hang at ${fault.at ?? 'headers'}`
    case 'huge-body':
      return fault.gzip ? 'huge body, gzip' : 'huge body'
    case 'json':
    case 'text':
      return `other ${fault.kind}`
    default:
      return fault.kind.replace('-', ' ')
  }
}

/** Why a caller got this error for want of a token: a failure that it waited for, or the cooldown after one. */
export function explainTokenError(
  outcome: TokenOutcome,
  [startedAt, endedAt]: readonly [number, number],
  evidence: Evidence,
): Explanation | undefined {
  const alike = evidence.story.failures.filter(
    (failure) =>
      failure.at <= endedAt + SLACK_MS &&
      failure.code === outcome.code &&
      failure.status === outcome.status &&
      (outcome.attempts === undefined || outcome.attempts === failure.attempts),
  )
  for (const failure of alike.reverse()) {
    const waited = failure.at >= startedAt - SLACK_MS
    if (!waited && !isCooldownOf(failure, outcome, endedAt, evidence)) continue
    return causeOf(failure, evidence)
  }
  return undefined
}

/** Contract 3.6: the error says what remains, and that ends when the cooldown of the failure does. A success resets it. */
function isCooldownOf(
  failure: TokenFailure,
  { retryAfterMs }: TokenOutcome,
  endedAt: number,
  evidence: Evidence,
): boolean {
  if (retryAfterMs === undefined) return false
  if (evidence.story.acquiredAt.some((at) => at > failure.at && at < endedAt - LATE_MS)) return false
  return endedAt + retryAfterMs <= cooldownEnd(failure, evidence) + LATE_MS
}

/** When the cooldown after a failure ends at the latest. */
function cooldownEnd({ at, cooldownMs, tried }: TokenFailure, evidence: Evidence): number {
  const { place } = evidence.story
  const fault = tried?.record?.fault && evidence.faultOf(place, tried.record.fault)
  const seconds = fault && fault.kind === 'status' ? Number(fault.retryAfter ?? 0) : 0
  return at + Math.max(cooldownMs, Math.min(seconds * 1000, MAX_RETRY_AFTER_MS))
}

/** The failed token request, explained, because of which there was no other token between two instants. */
export function noTokenIn(span: readonly [number, number], evidence: Evidence): Explanation | undefined {
  const [from, to] = span
  const { acquiredAt, failures } = evidence.story
  for (const failure of [...failures].reverse()) {
    if (failure.at > to + SLACK_MS || cooldownEnd(failure, evidence) < from - SLACK_MS) continue
    if (acquiredAt.some((at) => at > failure.at && at < from - SLACK_MS)) continue // that was mended
    const cause = causeOf(failure, evidence)
    if (cause !== undefined) return cause
  }
  return undefined
}

/**
 * What held up a caller that had waited for a token until `to`: something that went on since the last token request
 * had come to its end, well or badly. Whoever waits on after such an end waits for nothing that is known here.
 */
export function tokenHeldUpIn(to: number, evidence: Evidence): Explanation | undefined {
  const { place, tries, acquiredAt, failures } = evidence.story
  const ends = [...acquiredAt, ...failures.map(({ at }) => at)].filter((at) => at < to - LATE_MS)
  const since = Math.max(to - MOST_REQUEST_MS, ...ends)
  for (const tried of tries) {
    // The attempts of one token request, and the pauses between them, follow upon each other.
    if (tried.startedAt > to + SLACK_MS || tried.startedAt < since - SLACK_MS) continue
    const cause = holdUp(tried, place, evidence)
    if (cause !== undefined) return cause
  }
  const vault = troublesIn(evidence, ['vault'], place, [since, to])[0]
  return vault && { why: 'token: client secret', ids: [vault.id] }
}

/** The fault that an attempt met, whether it failed by now or not; or the latency. */
function holdUp({ record }: TokenTry, place: Place, evidence: Evidence): Explanation | undefined {
  if (record === undefined) return undefined
  const fault = record.fault === undefined ? undefined : evidence.faultOf(place, record.fault)
  if (fault !== undefined) return { why: `token: ${nameOf(fault)}`, ids: [`${place}/${record.fault}`] }
  const latency = latencyAt(record.at, place, evidence)
  return latency && { why: 'token: latency', ids: [latency.id] }
}
