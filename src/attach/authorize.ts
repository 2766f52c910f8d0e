/**
 * The policy that all clients share: which calls get the token; then acquire it, send, judge the response, renew, and send
 * once more. A client for another library supplies an {@link AuthorizedCall}.
 */
import { type Destinations, destinationsOf } from '../destinations.ts'
import { emitterOf, type TokenWithheldEvent } from '../events.ts'
import { type AttachOptions, type ResolvedAttach, resolveAttach } from '../options.ts'
import { shownUrl } from '../redact.ts'
import type { AccessToken } from '../token/access-token.ts'
import type { TokenProvider } from '../token/provider.ts'
import { warnWithheld } from '../warnings.ts'

/** How many bytes of a discarded response are read, at most, so that its connection can be reused. */
export const MAX_DRAINED_BYTES: number = 64 * 1024
/** How long (ms) that may take, at most: the next call may be waiting for the connection. */
export const MAX_DRAINING_MS = 1_000

/** One attachment of a provider's token to one client. */
export interface AttachContext extends ResolvedAttach {
  readonly tokens: TokenProvider
  readonly destinations: Destinations
  /** Whether the header is `Authorization`, which clients remove themselves on cross-origin redirects. */
  readonly isAuthorization: boolean
  /** The value of the header that carries this token. */
  headerValue(token: AccessToken): string
  /** Emits `token-withheld` for a call to this URL. */
  emitWithheld(reason: TokenWithheldEvent['reason'], url: string): void
}

/**
 * Checks the options of an attachment; `takes` says which further options are allowed.
 *
 * @throws {@link ConfigurationError}
 */
export function createAttachContext(
  tokens: TokenProvider,
  options: AttachOptions | undefined,
  takes?: { readonly fetch: boolean },
): AttachContext {
  const attach = resolveAttach(tokens, options, takes)
  const { emit, secrets } = emitterOf(tokens)
  const destinations = destinationsOf(tokens.environment)
  let last = { token: '', header: '' } // one string for all calls: clients check and hash each character of a new one
  return {
    ...attach,
    tokens,
    destinations,
    isAuthorization: attach.headerKey === 'authorization',
    headerValue: ({ value }) => {
      if (value !== last.token) last = { token: value, header: attach.prefix + value }
      return last.header
    },
    emitWithheld: (reason, url) => {
      if (destinations(url).isOnApiOrigin) warnWithheld(tokens, () => shownUrl(url, secrets))
      emit(() => ({ type: 'token-withheld', reason, url: shownUrl(url, secrets) }))
    },
  }
}

/** What the caller set that replaces the token. */
export interface OwnAuthorization {
  /** Whether the caller set the header. */
  readonly header?: boolean
  /** Whether the client makes an `Authorization` header of credentials that the caller gave. */
  readonly credentials?: boolean
}

/** Whether a call gets the token. Emits `token-withheld` where it does not. */
export function getsToken(context: AttachContext, url: string, own: OwnAuthorization): boolean {
  const { api, isTokenEndpoint, hasUserInfo } = context.destinations(url)
  if (isTokenEndpoint) return false // a token request would wait for itself
  const hasCredentials = context.isAuthorization && (own.credentials === true || hasUserInfo)
  if (api !== undefined && !own.header && !hasCredentials) return true
  context.emitWithheld(api === undefined ? 'destination' : own.header ? 'own-header' : 'own-credentials', url)
  return false
}

/** One call of a client, which resolves with a `Result`. */
export interface AuthorizedCall<Result> {
  readonly url: string
  /** Whether the same bytes can be sent a second time. */
  readonly repeatable: boolean
  /** Waits within the caller's limits (signal, timeout); rejects as the client does when they end the wait. */
  wait<T>(start: (signal: AbortSignal | undefined) => Promise<T>): Promise<T>
  /** Sends the call with the token. If there is no response, it rejects, or the attempt throws the error when it settles. */
  send(token: AccessToken): Promise<Attempt<Result>>
}

/** The outcome of one send of a call, not yet returned to the caller. */
export interface Attempt<Result> {
  /** Undefined if there is no response. */
  readonly status: number | undefined
  /** Its `WWW-Authenticate` header, or ''. */
  readonly challenge: string
  /** Whether it came from a URL other than the one called. */
  readonly redirected: boolean
  /** Returns the response to the caller, or throws the client's error. */
  settle(): Result
  /** Frees the connection of a response that the caller does not get. */
  discard(): void
}

/** Makes a call with the token: at most twice. */
export function authorize<Result>(call: AuthorizedCall<Result>, context: AttachContext): Promise<Result> {
  const { tokens } = context
  const token = tokens.currentToken()
  if (token !== undefined) return sendWith(token, call, context)
  return call
    .wait((signal) => tokens.getToken({ signal }))
    .then((acquired) => sendWith(acquired, call, context))
}

function sendWith<Result>(
  token: AccessToken,
  call: AuthorizedCall<Result>,
  context: AttachContext,
): Promise<Result> {
  return call
    .send(token)
    .then((attempt) =>
      isRejection(attempt, context) ? sendAgain(token, attempt, call, context) : attempt.settle(),
    )
}

/** Whether another token may help: the URL that was called answered, and not with a lack of scope (RFC 6750 §3.1). */
export function isRejection(
  attempt: Pick<Attempt<unknown>, 'status' | 'challenge' | 'redirected'>,
  { renewOnStatus }: AttachContext,
): boolean {
  const { status } = attempt
  if (status === undefined || !renewOnStatus.includes(status)) return false
  return !attempt.redirected && !lacksScope(attempt.challenge)
}

async function sendAgain<Result>(
  rejected: AccessToken,
  attempt: Attempt<Result>,
  call: AuthorizedCall<Result>,
  context: AttachContext,
): Promise<Result> {
  const renewed = await renewalFor(rejected, attempt, call, context)
  if (renewed === undefined) return attempt.settle()
  attempt.discard()
  return (await call.send(renewed)).settle()
}

/**
 * The token to send a rejected call again with; undefined where the caller gets the API's own response: there is no other
 * token, or the call cannot be repeated.
 */
export async function renewalFor<Result>(
  rejected: AccessToken,
  attempt: Pick<Attempt<Result>, 'discard'>,
  call: Pick<AuthorizedCall<Result>, 'url' | 'repeatable' | 'wait'>,
  { tokens }: AttachContext,
): Promise<AccessToken | undefined> {
  const renew = async (signal: AbortSignal | undefined): Promise<AccessToken | undefined> =>
    await tokens.renewToken(rejected, { signal, url: call.url })
  let renewed: AccessToken | undefined
  try {
    renewed = await call.wait((signal) => renew(signal).catch(() => undefined))
  } catch (reason) {
    attempt.discard()
    throw reason
  }
  return call.repeatable && renewed?.value !== rejected.value ? renewed : undefined
}

/** A parameter of a challenge (RFC 9110 §11.2): its name and its value, quoted or not. */
const PARAMETER = /(?<=^|[\s,;])([\w!#$%&'*+.^`|~-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))/g

/** Whether a challenge has the error `insufficient_scope`, rather than that text in another parameter. */
function lacksScope(challenge: string): boolean {
  for (const [, name, quoted, plain] of challenge.matchAll(PARAMETER)) {
    const value = quoted?.replace(/\\(.)/g, '$1') ?? plain // a quoted-pair (RFC 9110 §5.6.4)
    if (`${name}=${value}`.toLowerCase() === 'error=insufficient_scope') return true
  }
  return false
}
