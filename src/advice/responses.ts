/** What it means that the token endpoint sent no response in time, or one that contains no usable token. */
import type { ResponseIssue } from '../base/errors.ts'
import type { Failure } from './failure.ts'

/** What is wrong with the `expires_in` of a token that has no life left. */
export const TOO_SHORT = 'is shorter than the request took'

const step = 'response'
const OTHER_PATH = 'If its path is another one, or ends with a slash: {endpoints}.'

export const RESPONSES = {
  'stood-still': {
    kind: 'stood-still',
    step: 'program',
    advice: 'Try again: the process stood still, and {timeoutMs} had passed.',
  },
  'slow-body': {
    kind: 'slow-body',
    step,
    advice:
      'Ask the operator, or raise {timeoutMs}: the Content-Length may be larger than the body, or a proxy holds the rest back.',
  },
  'no-response': {
    kind: 'no-response',
    step,
    advice:
      'Try again later, or raise {timeoutMs}: the token endpoint, the network or the DNS server hangs or is slow.{circle}{check}',
    inCheck:
      'Try again later, or allow more time with {timeoutMs}: it accepts connections, but does not respond, or is slow. If curl ' +
      'gets a response at once, a firewall may not like the User-Agent "node" ({endpoints}).',
  },
  'no-response-object': {
    kind: 'no-response-object',
    step: 'program',
    advice:
      'Return what fetch returns, or create a Response each time: Response.json(…). It needs headers.get and a body that was not read.',
  },
  'not-a-token-endpoint': {
    kind: 'not-a-token-endpoint',
    step,
    advice:
      'Check {authUrl}: a login page, a proxy, a firewall or an API may respond in place of the token endpoint ({clientRefused}).',
  },
  'no-token': {
    kind: 'no-token',
    step,
    advice:
      'Check {authUrl}, and what the response says in fields of its own: it does not conform to RFC 6749 §5.1 ({clientRefused}).',
  },
  'incomplete-token': {
    kind: 'incomplete-token',
    step,
    advice:
      'Check {authUrl}. If the service means its response so, the option fetch adds what is missing ({unusable}).',
  },
  'expired-token': {
    kind: 'expired-token',
    step,
    advice:
      'Try again in a second. If expires_in is always 0, the option fetch says how long a token lives ({unusable}).',
  },
  redirect: {
    kind: 'redirect',
    step,
    advice: 'Correct {authUrl}: typical causes are http instead of https, and another host name.',
  },
  'redirect-here': {
    kind: 'redirect-here',
    step,
    advice: `Correct {authUrl}. ${OTHER_PATH}`,
    inCheck:
      'Correct {authUrl}: it may begin with http instead of https, or have another host name or a login page in front of it. ' +
      OTHER_PATH,
  },
} as const satisfies Readonly<Record<string, Failure>>

/** The kind of a response of which these fields are wrong. */
export function unusableKindOf(issues: readonly ResponseIssue[]): keyof typeof RESPONSES {
  if (issues.every(({ reason }) => reason === TOO_SHORT)) return 'expired-token'
  if (issues.every(({ field }) => field === 'expires_in' || field === 'token_type')) return 'incomplete-token'
  return issues.some(({ field }) => field === 'body') ? 'not-a-token-endpoint' : 'no-token'
}
