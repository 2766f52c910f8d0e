/**
 * The policy that all clients share for a call that gets the token: acquire it, send, decide on the response, renew, and send
 * once more. A client for another library supplies an {@link AuthorizedCall}.
 */
import { mayKeepToken } from '../environment/destinations.ts'
import type { RenewOptions, TokenProvider } from '../token/provider.ts'
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

/** What a call sends: a token, and its body. */
export interface Attempt {
  readonly token: AccessToken
  /** The body of the call; in place of a stream that failed while the call waited, one that fails in the same way. */
  readonly body: unknown
}

/** What reports and events say of a call. */
export interface CallTarget {
  readonly url: string
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

/** Makes a call with the token: at most twice. */
export function authorize<Outcome, Result>(
  call: AuthorizedCall<Outcome, Result>,
  context: AttachContext,
): Promise<Result> {
  const token = context.tokens.currentToken()
  if (token !== undefined) return sendWith({ token, body: call.body }, call, context)
  return waitForToken(call, context.tokens).then((attempt) => sendWith(attempt, call, context))
}

function sendWith<Outcome, Result>(
  attempt: Attempt,
  call: AuthorizedCall<Outcome, Result>,
  context: AttachContext,
): Promise<Result> {
  const { sender } = context
  const onOutcome = (outcome: Outcome): Result | Promise<Result> => {
    sender.end()
    const status = call.statusOf(outcome)
    const isRejection = reportAnswer(context, call, { token: attempt.token, status })
    return isRejection && mayRenew(call, call.rejectionOf(outcome), context)
      ? sendAgain(attempt, outcome, call, context)
      : call.settle(outcome)
  }
  const onError = (error: unknown): never => {
    sender.end()
    throw error
  }
  sender.start()
  try {
    return call.send(attempt).then(onOutcome, onError)
  } catch (error) {
    return onError(error)
  }
}

/** How an API answered. */
interface Answer {
  readonly token: AccessToken
  readonly status: number | undefined
  /** The token with which the call was sent before. */
  readonly rejected?: AccessToken | undefined
}

/**
 * Reports to the provider how an API answered: what it accepts decides what a 401 means. Returns whether the status is one
 * that rejects a token.
 */
export function reportAnswer(
  { provider, renewOnStatus }: AttachContext,
  { url, method }: CallTarget,
  { token, status, rejected }: Answer,
): boolean {
  if (status === undefined) return false
  const isRejection = renewOnStatus.includes(status)
  provider.answered({ url, method, token, status, rejected, isRejection })
  return isRejection
}

async function sendAgain<Outcome, Result>(
  { token: rejected, body }: Attempt,
  outcome: Outcome,
  call: AuthorizedCall<Outcome, Result>,
  context: AttachContext,
): Promise<Result> {
  const held = call.repeatable ? call.hold(outcome) : undefined
  if (held === undefined) {
    renewForNextCall(rejected, call, context)
    return call.settle(outcome)
  }
  const token = await renew(rejected, call, { context, held }).catch((reason: unknown) => {
    held.discard()
    throw reason
  })
  if (token === undefined) return call.settle(outcome)
  held.discard()
  context.sender.start()
  let repeated: Outcome
  try {
    repeated = await call.send({ token, body })
  } finally {
    context.sender.end()
  }
  reportAnswer(context, call, { token, status: call.statusOf(repeated), rejected })
  return call.settle(repeated)
}

/** Waits for a token. */
export async function waitForToken(call: WaitingCall, tokens: TokenProvider): Promise<Attempt> {
  const bodyToSend = watchBody(call.body)
  const { signal, end } = call.startWait()
  try {
    const token = await tokens.getToken({ signal })
    return { token, body: bodyToSend() }
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
  { url }: Pick<CallTarget, 'url'>,
  { redirectedTo, challenge }: Rejection,
  { destinations }: Pick<AttachContext, 'destinations'>,
): boolean {
  if (redirectedTo !== undefined && !mayKeepToken(url, redirectedTo, destinations)) return false
  return !LACKS_SCOPE.test(String(challenge).replace(/\\([^"\\])/g, '$1'))
}

/** Renews the token of a call that is not repeated. */
export function renewForNextCall(rejected: AccessToken, call: CallTarget, context: AttachContext): void {
  const options = renewalOptions(call, context, { canRepeat: false })
  context.tokens.renewToken(rejected, options).catch(() => {}) // its failure is an event
}

function renewalOptions(
  { url, method }: CallTarget,
  { provider }: AttachContext,
  attachment: { readonly canRepeat: boolean },
): RenewOptions {
  return { url, method, ...(provider.isReportedTo && { attachment }) }
}

/** What renews the token, and the response that waits meanwhile. */
interface Renewal {
  readonly context: AttachContext
  readonly held: Pick<HeldBody, 'overflow'>
}

/**
 * The token to send a rejected call again with; undefined where the caller gets the API's own response: there is no other
 * token, or the response is too large to be held. Then the renewal runs for the next call. Rejects only when the call's
 * signal ends the wait.
 */
export async function renew(
  rejected: AccessToken,
  call: Pick<AuthorizedCall<unknown, unknown>, 'url' | 'method' | 'startWait'>,
  { context, held }: Renewal,
): Promise<AccessToken | undefined> {
  const options = renewalOptions(call, context, { canRepeat: true })
  const { signal, end } = call.startWait()
  try {
    const renewing = context.tokens.renewToken(rejected, { ...options, signal })
    const renewed = await Promise.race([renewing, held.overflow])
    return renewed?.value === rejected.value ? undefined : renewed // as a provider of the caller may return it
  } catch (error) {
    if (signal?.aborted) throw signal.reason ?? error // signals of other packages may have no reason
    return undefined
  } finally {
    end()
  }
}

/** A challenge whose `error` is `insufficient_scope`, rather than that text in a quoted value of another parameter. */
const LACKS_SCOPE =
  /^(?:[^"]|"(?:[^"\\]|\\.)*")*?(?<![\w.-])error\s*=\s*(?:"insufficient_scope"|insufficient_scope(?![^\s,]))/i
