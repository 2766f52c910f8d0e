/**
 * The policy that all clients share for a call that gets the token: acquire it, send, decide on the response, renew, and send
 * again. A client for another library supplies an {@link AuthorizedCall}.
 */
import { mayKeepToken } from '../environment/destinations.ts'
import type { Api } from '../environment/environment.ts'
import type { TokenProvider } from '../token/provider.ts'
import type { AccessToken } from '../token/request/access-token.ts'
import { watchBody } from './body.ts'
import type { AttachContext } from './context.ts'
import type { HeldBody } from './held-body.ts'

/** A wait for a token. */
export interface Wait {
  /** Ends the wait; its reason is what the call rejects with. */
  readonly signal: AbortSignal | undefined
  /** Releases what the signal needs. */
  end(): void
}

/** The parts of a call that waits for a token. */
export interface WaitingCall {
  /** The body of the call. */
  readonly body: unknown
  /** Called before each wait. */
  startWait(): Wait
  /** Called if no token can be acquired: adds what the client's callers expect of its errors. */
  onError?(error: unknown): void
}

/** One send of a call. */
export interface Attempt {
  readonly token: AccessToken
  /** The body of the call; in place of a stream that failed while the call waited, one that fails in the same way. */
  readonly body: unknown
  /** The tokens that the call was rejected with before, the last one last. */
  readonly rejected: readonly AccessToken[]
  /** Whether a rejection is final: no token follows that was requested for this call, or was the last one. */
  readonly isLast: boolean
}

const NONE: readonly AccessToken[] = []

/** The first send of a call. */
export function firstAttempt(token: AccessToken, body: unknown): Attempt {
  return { token, body, rejected: NONE, isLast: false }
}

/** With a token, with another one that cost nothing, and with one that was requested. */
const MAX_SENDS = 3

/** What reports and events say of a call. */
export interface CallTarget {
  readonly url: string
  /** The one that the URL is below. */
  readonly api: Api | undefined
  readonly method: string | undefined
}

/** One call of a client. Each send has an `Outcome`; the call resolves with a `Result`. */
export interface AuthorizedCall<Outcome, Result> extends WaitingCall, CallTarget {
  /** Whether the same bytes can be sent a second time. Otherwise the caller gets a 401 at once. */
  readonly repeatable: boolean
  /** Sends the call with the token. */
  send(attempt: Attempt): Promise<Outcome>
  /** The status of the response; undefined if there is none. */
  statusOf(outcome: Outcome): number | undefined
  /** What a 401 says about the token. */
  rejectionOf(outcome: Outcome): Rejection
  /**
   * Called with the response of a call that waits for another token. Undefined if its body is too large to be read meanwhile:
   * the caller gets the response at once.
   */
  hold(outcome: Outcome): HeldBody | undefined
  /** Returns the response to the caller, or throws the client's error. */
  settle(outcome: Outcome): Result
}

/** What a response says about the token. */
export interface Rejection {
  /** Its `WWW-Authenticate` header, if any, as the client has it. */
  readonly challenge: unknown
  /** Where the call was redirected to; empty if the token was not sent there; undefined if it was not redirected. */
  readonly redirectedTo: string | undefined
}

/** Makes a call with the token, in at most {@link MAX_SENDS} sends. */
export function authorize<Outcome, Result>(
  call: AuthorizedCall<Outcome, Result>,
  context: AttachContext,
): Promise<Result> {
  const token = context.tokens.currentToken()
  if (token !== undefined) return sendWith(firstAttempt(token, call.body), call, context)
  return waitForToken(call, context.tokens).then((attempt) => sendWith(attempt, call, context))
}

function sendWith<Outcome, Result>(
  attempt: Attempt,
  call: AuthorizedCall<Outcome, Result>,
  context: AttachContext,
): Promise<Result> {
  return call.send(attempt).then((outcome) => {
    const isRejection = report(attempt, call, { status: call.statusOf(outcome), context })
    return isRejection && mayRenew(attempt, call, { rejection: call.rejectionOf(outcome), context })
      ? sendAgain(attempt, outcome, call, context)
      : call.settle(outcome)
  })
}

async function sendAgain<Outcome, Result>(
  attempt: Attempt,
  outcome: Outcome,
  call: AuthorizedCall<Outcome, Result>,
  context: AttachContext,
): Promise<Result> {
  const held = call.repeatable ? call.hold(outcome) : undefined
  const next = await nextAttempt(attempt, call, { held, context })
  return next === undefined ? call.settle(outcome) : sendWith(next, call, context)
}

/**
 * Reports to the provider how an API answered: what it accepts decides what a 401 means. Returns whether the status is one
 * that rejects a token.
 */
export function report(
  { token, rejected }: Attempt,
  { api }: Pick<CallTarget, 'api'>,
  {
    status,
    context: { provider, renewOnStatus },
  }: { readonly status: number | undefined; readonly context: AttachContext },
): boolean {
  if (status === undefined) return false
  const isRejection = renewOnStatus.includes(status)
  provider.answered({ api, token, status, isRejection, rejected: rejected.at(-1) })
  return isRejection
}

/** Waits for a token. */
export async function waitForToken(call: WaitingCall, tokens: TokenProvider): Promise<Attempt> {
  const bodyToSend = watchBody(call.body)
  const { signal, end } = call.startWait()
  try {
    const token = await tokens.getToken({ signal })
    return firstAttempt(token, bodyToSend())
  } catch (error) {
    call.onError?.(error)
    throw error
  } finally {
    end()
  }
}

/**
 * Whether another token may help: the response is that of an API that got the token, after a redirect, too, and does not
 * report a lack of scope (RFC 6750 §3.1).
 */
export function mayRenew(
  { isLast }: Attempt,
  { url }: Pick<CallTarget, 'url'>,
  { rejection, context }: { readonly rejection: Rejection; readonly context: AttachContext },
): boolean {
  const { challenge, redirectedTo } = rejection
  if (isLast || (redirectedTo !== undefined && !mayKeepToken(url, redirectedTo, context.destinations)))
    return false
  return !LACKS_SCOPE.test(String(challenge).replace(/\\([^"\\])/g, '$1'))
}

/** The response that waits for the next send, and what sends it. */
interface Repetition {
  /** Undefined if the call cannot be repeated, or its response cannot wait. */
  readonly held: HeldBody | undefined
  readonly context: AttachContext
}

/**
 * The next send of a rejected call; undefined where the caller gets the API's own response: there is no other token, or the
 * call cannot be repeated, or its response is too large to be held. Then the renewal runs for the next call. Rejects only
 * when the call's signal ends the wait.
 */
export async function nextAttempt(
  attempt: Attempt,
  call: Pick<AuthorizedCall<unknown, unknown>, 'url' | 'method' | 'startWait'>,
  { held, context: { provider } }: Repetition,
): Promise<Attempt | undefined> {
  const { url, method } = call
  const rejected = [...attempt.rejected, attempt.token]
  const rejection = { rejected, url, method, canRepeat: held !== undefined }
  if (held === undefined) {
    provider.replacementFor(rejection).catch(() => {}) // its failure is an event
    return undefined
  }
  const { signal, end } = call.startWait()
  try {
    const next = await Promise.race([provider.replacementFor({ ...rejection, signal }), held.overflow])
    // As a provider of the caller may return it.
    if (next === undefined || next.token.value === attempt.token.value) return undefined
    held.discard()
    const isLast = !next.isFree || rejected.length + 1 === MAX_SENDS
    return { token: next.token, body: attempt.body, rejected, isLast }
  } catch (error) {
    if (!signal?.aborted) return undefined
    held.discard()
    throw signal.reason ?? error // signals of other packages may have no reason
  } finally {
    end()
  }
}

/** A challenge whose `error` is `insufficient_scope`, rather than that text in a quoted value of another parameter. */
const LACKS_SCOPE =
  /^(?:[^"]|"(?:[^"\\]|\\.)*")*?(?<![\w.-])error\s*=\s*(?:"insufficient_scope"|insufficient_scope(?![^\s,]))/i
