/** The policy that all clients share: take a token, send, judge the answer, renew, send once more. */
import type { AccessToken } from '../token/access-token.ts'
import type { AttachContext } from './context.ts'

/** One call of a client, in the client's own terms. An outcome is what its promise resolves or rejects with. */
export interface AuthorizedCall<Result> {
  /** The URL that is called. */
  readonly url: string
  /** Whether the same bytes can be sent a second time. */
  readonly repeatable: boolean
  /** Sends the call with the token. */
  send(token: AccessToken): Promise<Result>
  /** The status of the API's answer in an outcome; undefined where there was no answer. */
  statusOf(outcome: unknown): number | undefined
  /** Its WWW-Authenticate header; '' where there is none. */
  challengeOf(outcome: unknown): string
  /** Whether it came from another URL than the one that was called. */
  wasRedirected(outcome: unknown): boolean
  /** Frees the connection of an answer that is not handed out. */
  discard(outcome: unknown): void
  /** Waits for a token within the caller's own limits; rejects as the client does when they end the wait. */
  wait<T>(start: (signal: AbortSignal | undefined) => Promise<T>): Promise<T>
  /** Whether the caller's limits have ended the call. */
  ended(): boolean
}

/** Makes a call with the token, at most twice. */
export function authorize<Result>(call: AuthorizedCall<Result>, context: AttachContext): Promise<Result> {
  const token = context.tokens.currentToken()
  if (token !== undefined) return sendOnce(call, token, context)
  return call
    .wait((signal) => context.tokens.getToken({ signal }))
    .then((fresh) => sendOnce(call, fresh, context))
}

function sendOnce<Result>(
  call: AuthorizedCall<Result>,
  token: AccessToken,
  context: AttachContext,
): Promise<Result> {
  return call.send(token).then(
    (result) => {
      if (!isRejection(call, result, context)) return result
      return sendAgain(call, token, context, { outcome: result, handOut: () => result })
    },
    (error: unknown) => {
      if (!isRejection(call, error, context)) throw error
      const handOut = (): never => {
        throw error
      }
      return sendAgain(call, token, context, { outcome: error, handOut })
    },
  )
}

/** A refusal that another token may mend: not another place's, and not a lack of scope (RFC 6750 §3.1). */
function isRejection<Result>(
  call: AuthorizedCall<Result>,
  outcome: unknown,
  context: AttachContext,
): boolean {
  const status = call.statusOf(outcome)
  return (
    status !== undefined &&
    context.renewOnStatus.includes(status) &&
    !call.wasRedirected(outcome) &&
    !/\berror\s*=\s*"?insufficient_scope\b/i.test(call.challengeOf(outcome))
  )
}

async function sendAgain<Result>(
  call: AuthorizedCall<Result>,
  rejected: AccessToken,
  { tokens }: AttachContext,
  { outcome, handOut }: { outcome: unknown; handOut: () => Result },
): Promise<Result> {
  let renewed: AccessToken | undefined
  try {
    renewed = await call.wait((signal) => tokens.renewToken(rejected, { signal, url: call.url }))
  } catch (error) {
    if (!call.ended()) return handOut() // without another token, the API's own answer is the best there is
    call.discard(outcome)
    throw error
  }
  if (renewed === undefined || renewed.value === rejected.value || !call.repeatable) return handOut()
  call.discard(outcome)
  return await call.send(renewed)
}
