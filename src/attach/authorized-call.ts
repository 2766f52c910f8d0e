/** The policy that all clients share: take a token, send, judge the answer, renew, send once more. */
import type { AccessToken } from '../token/access-token.ts'
import type { AttachContext } from './context.ts'

/** The most bytes of a discarded answer that are read, so that its connection can be used again. */
export const MAX_DRAINED_BYTES: number = 64 * 1024
/** How long (ms) that may take: the next call may be waiting for the connection. */
export const MAX_DRAINING_MS = 1_000

/** One call of a client, in the client's own terms: `Answer` is what its promise resolves with. */
export interface AuthorizedCall<Answer> {
  /** The URL that is called. */
  readonly url: string
  /** Whether the same bytes can be sent a second time. */
  readonly repeatable: boolean
  /** Sends the call with the token. */
  send(token: AccessToken): Promise<Answer>
  /** Told of every answer before it is judged: what was put on for the send is taken off again. */
  answered(answer: Answer): void
  /** Told of every error in the same way. Gives the API's answer in it; undefined where there was none. */
  failed(error: unknown): Answer | undefined
  statusOf(answer: Answer): number | undefined
  /** Its WWW-Authenticate header; '' where there is none. */
  challengeOf(answer: Answer): string
  /** Whether it came from another URL than the one that was called. */
  wasRedirected(answer: Answer): boolean
  /** Frees the connection of an answer that is not handed out. */
  discard(answer: Answer): void
  /** Waits for a token within the caller's own limits; rejects as the client does when they end the wait. */
  wait<T>(start: (signal: AbortSignal | undefined) => Promise<T>): Promise<T>
  /** Whether the caller's limits have ended the call. */
  ended(): boolean
}

/** Makes a call with the token, at most twice. With a token at hand it costs one promise. */
export function authorize<Answer>(call: AuthorizedCall<Answer>, context: AttachContext): Promise<Answer> {
  const token = context.tokens.currentToken()
  if (token !== undefined) return sendOnce(call, token, context)
  return call
    .wait((signal) => context.tokens.getToken({ signal }))
    .then((fresh) => sendOnce(call, fresh, context))
}

function sendOnce<Answer>(
  call: AuthorizedCall<Answer>,
  token: AccessToken,
  context: AttachContext,
): Promise<Answer> {
  return call.send(token).then(
    (answer) => {
      call.answered(answer)
      if (!isRejection(call, answer, context)) return answer
      return sendAgain(call, token, context, { answer, handOut: () => answer })
    },
    (error: unknown) => {
      const answer = call.failed(error)
      if (answer === undefined || !isRejection(call, answer, context)) throw error
      const handOut = (): never => {
        throw error
      }
      return sendAgain(call, token, context, { answer, handOut })
    },
  )
}

/** A refusal that another token may mend: not another place's, and not a lack of scope (RFC 6750 §3.1). */
function isRejection<Answer>(call: AuthorizedCall<Answer>, answer: Answer, context: AttachContext): boolean {
  const status = call.statusOf(answer)
  return (
    status !== undefined &&
    context.renewOnStatus.includes(status) &&
    !call.wasRedirected(answer) &&
    !lacksScope(call.challengeOf(answer))
  )
}

/** A parameter of a challenge (RFC 9110 §11.2): its name, and its value in quotes or without. */
const PARAMETER = /(?<=^|[\s,;])([\w!#$%&'*+.^`|~-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))/g

/** Whether a challenge says `insufficient_scope`: as its error, and not somewhere in another parameter's text. */
export function lacksScope(challenge: string): boolean {
  for (const [, name = '', quoted, plain] of challenge.matchAll(PARAMETER)) {
    const value = quoted?.replace(/\\(.)/g, '$1') ?? plain // a quoted-pair (RFC 9110 §5.6.4)
    if (name.toLowerCase() === 'error' && value?.toLowerCase() === 'insufficient_scope') return true
  }
  return false
}

async function sendAgain<Answer>(
  call: AuthorizedCall<Answer>,
  rejected: AccessToken,
  { tokens }: AttachContext,
  { answer, handOut }: { answer: Answer; handOut: () => Answer },
): Promise<Answer> {
  let renewed: AccessToken | undefined
  try {
    renewed = await call.wait((signal) => tokens.renewToken(rejected, { signal, url: call.url }))
  } catch (error) {
    if (!call.ended()) return handOut() // without another token, the API's own answer is the best there is
    call.discard(answer)
    throw error
  }
  if (renewed === undefined || renewed.value === rejected.value || !call.repeatable) return handOut()
  call.discard(answer)
  return await sendLast(call, renewed)
}

async function sendLast<Answer>(call: AuthorizedCall<Answer>, token: AccessToken): Promise<Answer> {
  try {
    const answer = await call.send(token)
    call.answered(answer)
    return answer
  } catch (error) {
    call.failed(error)
    throw error
  }
}
