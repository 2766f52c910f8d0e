/** Decides whether a call that failed may have failed: a fault that it met, or trouble at the time, must explain it. */
import type { Fault, SandboxRequest } from 'merchant-auth/testing'

export type Place = 'production' | 'test'

/** How a call ended, as its caller sees it. */
export type Outcome =
  /** `body`: status 200 with a body that is not this call's. `limit`: the caller's own time-out. */
  | { readonly kind: 'ok' | 'body' | 'network' | 'limit' | 'left' | 'closed' }
  | { readonly kind: 'status'; readonly status: number }
  | { readonly kind: 'token'; readonly code: string }
  /** No client should ever end a call like this. */
  | { readonly kind: 'strange'; readonly message: string }

/** A request of the call that arrived at an API, with the fault that it met there. */
export interface Arrival {
  readonly place: Place
  readonly record: SandboxRequest
  readonly fault?: Fault | undefined
}

/** What is wrong with one environment as a whole for some time. */
export interface Trouble {
  /** `token`: no token can be had. `rejection`: good tokens are rejected. `latency`: the APIs are slow. */
  readonly kind: 'token' | 'rejection' | 'latency'
  readonly name: string
  readonly from: number
  /** Infinity while it lasts. */
  to: number
}

/** A call that has ended. All instants are ms since the epoch. */
export interface EndedCall {
  readonly id: string
  readonly client: string
  readonly place: Place
  readonly startedAt: number
  readonly endedAt: number
  /** How long the caller is ready to wait. */
  readonly limitMs: number
  /** When it must have ended by its caller's signal; axios' time-out counts for each send by itself. */
  readonly dueAt?: number | undefined
  /** When its caller canceled it. */
  readonly leftAt?: number | undefined
  /** Whether its body can be sent again. */
  readonly repeatable: boolean
  /** When its provider was closed. */
  readonly closedAt?: number | undefined
  /** When its provider last said that it renews nothing for a rejected token. */
  readonly suppressedAt?: number | undefined
  readonly outcome: Outcome
  /** Oldest first. */
  readonly arrivals: readonly Arrival[]
  /** Those of the environments that it met. */
  readonly troubles: readonly Trouble[]
  /** For how long (ms) this machine stood still between two instants. */
  stalledMs(from: number, to: number): number
}

/** A token request takes up to 2 s, and a token lives for up to 3 s. */
const TAIL_MS = 4_000
/** An attempt of a token request takes no longer. */
const ATTEMPT_MS = 800
/** What it ends with where the token endpoint, or the function that yields the secret, takes too long. */
const TIME_OUTS = new Set(['ERR_TOKEN_TIMEOUT', 'ERR_CLIENT_SECRET'])
/** How late a call may end after its caller's own limit. */
const PROMPT_MS = 1_000
const SLACK_MS = 5

/**
 * When a trouble no longer explains anything. A cooldown doubles, so that the last one is as long as the failures before
 * it together, and a second.
 */
export function tailEnd({ kind, from, to }: Trouble): number {
  if (kind === 'latency') return to
  return to + TAIL_MS + (kind === 'token' ? to - from : 0)
}

/** Why this call may have failed; undefined: nothing explains it. */
export function explain(call: EndedCall): string | undefined {
  const { outcome, startedAt, endedAt, leftAt } = call
  switch (outcome.kind) {
    case 'left':
      return leftAt !== undefined && leftAt <= endedAt + SLACK_MS ? 'the caller left' : undefined
    case 'closed':
      return closedMeanwhile(call)
    case 'token':
      return (
        trouble(call, 'token') ?? (TIME_OUTS.has(outcome.code) ? standstill(call, ATTEMPT_MS) : undefined)
      )
    case 'limit':
      return (
        ownFault(call) ?? trouble(call, 'latency') ?? waitForToken(call) ?? standstill(call, call.limitMs)
      )
    case 'status':
      return outcome.status === 401 ? explain401(call) : ownFault(call)
    case 'body':
    case 'network':
      return ownFault(call)
    case 'ok':
    case 'strange':
      return undefined
  }

  function waitForToken({ arrivals, limitMs }: EndedCall): string | undefined {
    const last = arrivals.at(-1)?.record
    const waited = last === undefined || last.status === 401 || last.at - startedAt > limitMs / 2
    return waited ? trouble(call, 'token') : undefined
  }
}

/** What must not happen, however the call ended. */
export function breachOf(call: EndedCall): string | undefined {
  const { id, arrivals, place, client, endedAt } = call
  const redirects = arrivals.filter(({ fault }) => fault?.kind === 'redirect').length
  if (arrivals.length - redirects > 2) return `${id} was sent ${arrivals.length} times`
  const stray = arrivals.find(
    ({ place: other, record: { target, headers } }) =>
      (other !== place || (target === undefined && client === 'axios http')) &&
      (headers['authorization'] ?? headers['x-api-token']) !== undefined,
  )
  if (stray !== undefined) return `${id} carried its token to ${stray.place} ${stray.record.path}`
  const dueAt = call.leftAt ?? call.dueAt ?? endedAt
  const lateMs = endedAt - dueAt - call.stalledMs(dueAt, endedAt)
  return lateMs > PROMPT_MS ? `${id} ended ${lateMs} ms after its caller's limit` : undefined
}

/** The fault that the call's last request met, or a redirect on the way. */
function ownFault({ arrivals, outcome }: EndedCall): string | undefined {
  const last = arrivals.at(-1)?.fault
  const redirected = arrivals.some(({ fault }) => fault?.kind === 'redirect' && brings(fault, outcome))
  if (redirected) return 'API: redirect'
  return last !== undefined && brings(last, outcome) ? `API: ${nameOf(last)}` : undefined
}

function explain401(call: EndedCall): string | undefined {
  const [first, last] = [call.arrivals.at(0), call.arrivals.at(-1)]
  const fault = last?.fault
  if (fault?.kind === 'redirect' || last?.place !== call.place) return ownFault(call)
  const { errorDescription = '', jti } = last.record
  const rejected =
    ownFault(call) ??
    (/expired$/.test(errorDescription) ? 'expired' : undefined) ??
    (jti === undefined ? undefined : trouble(call, 'rejection'))
  if (rejected === undefined || /redirect/.test(rejected)) return rejected
  // A rejected token is renewed, and the call repeated: something has to prevent that, too.
  if (fault?.kind === 'status' && /scope/.test(fault.headers?.['www-authenticate'] ?? ''))
    return '401, insufficient scope'
  if (!call.repeatable) return '401, body sent once'
  if (first !== last && first?.record.jti !== jti) return '401 to the repeat, too'
  if ((call.suppressedAt ?? 0) >= call.startedAt) return '401, renewal suppressed'
  const failed = trouble(call, 'token') ?? closedMeanwhile(call) ?? standstill(call, ATTEMPT_MS)
  return failed && '401, renewal failed'
}

function closedMeanwhile({ closedAt = Number.NaN, startedAt, endedAt }: EndedCall): string | undefined {
  return closedAt >= startedAt - SLACK_MS && closedAt <= endedAt + SLACK_MS ? 'provider closed' : undefined
}

function trouble(call: EndedCall, kind: Trouble['kind']): string | undefined {
  const { troubles, startedAt, endedAt } = call
  const found = troubles.findLast((one) => {
    const over = tailEnd(one)
    return one.kind === kind && one.from <= endedAt && startedAt - call.stalledMs(one.to, startedAt) <= over
  })
  return found && `${kind}: ${found.name}`
}

/** A machine that stood still for a third of a limit explains that the limit was exceeded, and nothing else. */
function standstill({ startedAt, endedAt, stalledMs }: EndedCall, limitMs: number): string | undefined {
  return stalledMs(startedAt - TAIL_MS, endedAt) >= limitMs / 3 ? 'this machine stood still' : undefined
}

/** Whether a call that meets this fault may end like this. */
function brings(fault: Fault, { kind, ...outcome }: Outcome): boolean {
  const status = 'status' in outcome ? outcome.status : undefined
  switch (fault.kind) {
    case 'status':
      return status === fault.status
    case 'json':
    case 'text':
      return (fault.status ?? 200) === 200 ? kind === 'body' : status === fault.status
    case 'redirect': // to where nothing is, where the token may not go, or without the method and the body
      return kind === 'network' || kind === 'body' || [fault.status ?? 307, 401, 404].includes(status ?? 0)
    case 'reset':
    case 'truncated-body':
      return kind === 'network'
    case 'hang': // axios' http adapter resets the connection of a body that stands still
      return kind === 'limit' || (fault.at === 'body' && kind === 'network')
    case 'slow-body':
      return kind === 'limit'
    case 'huge-body': // too long for the caller, or filled up where the usual answer was none
      return kind === 'network' || kind === 'body' || kind === 'limit'
  }
}

/** A fault in a few words. */
export function nameOf(fault: Fault): string {
  if (fault.kind === 'status') return `status ${fault.status}`
  if (fault.kind === 'hang') return `hang at ${fault.at ?? 'headers'}`
  return fault.kind.replace('-', ' ')
}
