/**
 * The policy that all clients share: which calls get the token; then acquire it, send, decide on the response, renew, and
 * send once more. A client for another library supplies an {@link AuthorizedCall}.
 */
import { type Destinations, destinationsOf } from '../destinations.ts'
import { type AttachedProvider, attachedProviderOf } from '../events.ts'
import { type AttachOptions, type ResolvedAttach, resolveAttach } from '../options.ts'
import type { AccessToken } from '../token/access-token.ts'
import type { TokenProvider } from '../token/provider.ts'
import { watchBody } from './body.ts'
import type { Header } from './headers.ts'
import { WithheldCalls, type WithheldReason } from './withheld.ts'

/** How much of a discarded response is read, and for how long (ms), so that its connection can be reused. */
export const MAX_DRAINED_BYTES: number = 64 * 1024
export const MAX_DRAINING_MS = 1_000

/** One attachment of a provider's token to one client. */
export interface AttachContext extends ResolvedAttach {
  readonly tokens: TokenProvider
  readonly destinations: Destinations
  /** Whether the header is `Authorization`, which clients remove themselves on cross-origin redirects. */
  readonly isAuthorization: boolean
  /** The header that carries this token. */
  headerFor(token: AccessToken): Header
  /** The calls that go without the token. */
  readonly withheld: WithheldCalls
  /** Gets what the attachment reports. */
  readonly provider: AttachedProvider
}

/** Checks the options of an attachment; `takes` says which further options are allowed. */
export function createAttachContext(
  tokens: TokenProvider,
  options: AttachOptions | undefined,
  takes?: { readonly fetch: boolean },
): AttachContext {
  const attach = resolveAttach(tokens, options, takes)
  const destinations = destinationsOf(tokens.environment)
  const { header: name, headerKey: key, prefix } = attach
  // One string for all calls: clients check and hash each character of a new one.
  let last: { readonly token: string; readonly header: Header } | undefined
  return {
    ...attach,
    tokens,
    destinations,
    isAuthorization: key === 'authorization',
    withheld: new WithheldCalls(tokens, destinations, attach),
    provider: attachedProviderOf(tokens),
    headerFor: ({ value }) => {
      if (last?.token !== value) last = { token: value, header: { name, key, value: prefix + value } }
      return last.header
    },
  }
}

/**
 * Whether a call gets the token, or why not. `foreign`: it is not meant to. The provider's own token request would wait for
 * itself, and a call of another service has credentials of its own.
 */
export type Decision = 'attach' | 'foreign' | WithheldReason

/**
 * Decides on a call, by its URL and what the caller set; notes it, and emits `token-withheld` where it goes without the
 * token.
 */
export function admit(
  context: AttachContext,
  url: string,
  own: { readonly header: boolean; readonly credentials?: boolean },
): Decision {
  const { destinations, isAuthorization, withheld } = context
  const { api, isTokenEndpoint, hasUserInfo } = destinations(url)
  if (isTokenEndpoint) return 'foreign'
  const hasCredentials = isAuthorization && (own.credentials === true || hasUserInfo)
  if (api !== undefined && !own.header && !hasCredentials) {
    withheld.tokenNeeded()
    return 'attach'
  }
  if (api === undefined) {
    const isForeign = own.header || hasCredentials
    withheld.sent('destination', url, { isForeign })
    return isForeign ? 'foreign' : 'destination'
  }
  const reason = own.header ? 'own-header' : 'own-credentials'
  withheld.sent(reason, url)
  return reason
}

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
export interface Acquired {
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
  send(acquired: Acquired): Promise<Outcome>
  /** The status of the response; undefined if there is none. */
  statusOf(outcome: Outcome): number | undefined
  /** What a 401 says about the token. */
  rejectionOf(outcome: Outcome): Rejection
  /** Called with a response that waits for another token, and that nobody reads meanwhile. */
  hold?(outcome: Outcome): void
  /** Returns the response to the caller, or throws the client's error. */
  settle(outcome: Outcome): Result
  /** Frees the connection of a response that the caller does not get. */
  discard(outcome: Outcome): void
}

/** What a response says about the token. */
export interface Rejection {
  /** Its `WWW-Authenticate` header, if any, as the client has it. */
  readonly challenge: unknown
  /** Whether it came from a URL other than the one called. */
  readonly redirected: boolean
}

/** Makes a call with the token: at most twice. */
export function authorize<Outcome, Result>(
  call: AuthorizedCall<Outcome, Result>,
  context: AttachContext,
): Promise<Result> {
  const token = context.tokens.currentToken()
  if (token !== undefined) return sendWith({ token, body: call.body }, call, context)
  return acquire(call, context.tokens).then((acquired) => sendWith(acquired, call, context))
}

function sendWith<Outcome, Result>(
  acquired: Acquired,
  call: AuthorizedCall<Outcome, Result>,
  context: AttachContext,
): Promise<Result> {
  return call.send(acquired).then((outcome) => {
    const status = call.statusOf(outcome)
    reportAnswer(context, call, { token: acquired.token, status, isRepeated: false })
    return isRejection(context, status, () => call.rejectionOf(outcome))
      ? sendAgain(acquired, outcome, call, context)
      : call.settle(outcome)
  })
}

/** Tells the provider how an API answered: what it accepts decides what a 401 means. */
export function reportAnswer(
  { provider, renewOnStatus }: AttachContext,
  { url, method }: CallTarget,
  answer: { readonly token: AccessToken; readonly status: number | undefined; readonly isRepeated: boolean },
): void {
  const { token, status, isRepeated } = answer
  if (status !== undefined)
    provider.answered({ url, method, token, status, isRepeated, isRejection: renewOnStatus.includes(status) })
}

async function sendAgain<Outcome, Result>(
  { token: rejected, body }: Acquired,
  outcome: Outcome,
  call: AuthorizedCall<Outcome, Result>,
  context: AttachContext,
): Promise<Result> {
  call.hold?.(outcome)
  const token = await renew(rejected, call, context).catch((reason: unknown) => {
    call.discard(outcome)
    throw reason
  })
  if (token === undefined) return call.settle(outcome)
  call.discard(outcome)
  const repeated = await call.send({ token, body })
  reportAnswer(context, call, { token, status: call.statusOf(repeated), isRepeated: true })
  return call.settle(repeated)
}

/** Waits for a token. */
export async function acquire(call: WaitingCall, tokens: TokenProvider): Promise<Acquired> {
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
 * Whether another token may help: the response is that of the URL called, and does not report a lack of scope (RFC 6750
 * §3.1).
 */
export function isRejection(
  { renewOnStatus }: AttachContext,
  status: number | undefined,
  rejectionOf: () => Rejection,
): boolean {
  if (!(renewOnStatus as readonly unknown[]).includes(status)) return false
  const { redirected, challenge } = rejectionOf()
  return !redirected && !LACKS_SCOPE.test(String(challenge).replace(/\\([^"\\])/g, '$1'))
}

/**
 * The token to send a rejected call again with; undefined where the caller gets the API's own response: there is no other
 * token, or the call cannot be repeated. Then the renewal runs for the next call. Rejects only when the call's signal ends
 * the wait.
 */
export async function renew(
  rejected: AccessToken,
  call: Pick<AuthorizedCall<unknown, unknown>, 'url' | 'method' | 'repeatable' | 'startWait'>,
  { tokens, provider }: AttachContext,
): Promise<AccessToken | undefined> {
  const { url, method, repeatable } = call
  const attachment = provider.isReportedTo ? { canRepeat: repeatable } : undefined
  const options = { url, method, ...(attachment && { attachment }) }
  if (!repeatable) {
    tokens.renewToken(rejected, options).catch(() => {}) // its failure is an event
    return undefined
  }
  const { signal, end } = call.startWait()
  try {
    const renewed = await tokens.renewToken(rejected, { ...options, signal })
    return renewed?.value === rejected.value ? undefined : renewed // as a provider of the caller may return it
  } catch {
    signal?.throwIfAborted()
    return undefined
  } finally {
    end()
  }
}

/** A challenge whose `error` is `insufficient_scope`, rather than that text in a quoted value of another parameter. */
const LACKS_SCOPE =
  /^(?:[^"]|"(?:[^"\\]|\\.)*")*?(?<![\w.-])error\s*=\s*(?:"insufficient_scope"|insufficient_scope(?![^\s,]))/i
