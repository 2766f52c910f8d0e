/** What it means that the token endpoint sent no response in time, or one that contains no usable token. */
import type { ResponseIssue } from '../base/errors.ts'
import type { Advice } from './failure.ts'

/** What is wrong with the `expires_in` of a token that has no life left. */
export const TOO_SHORT = 'is shorter than the request took'

/** What is wrong with an `expires_in` that is not there. */
export const NO_LIFETIME = 'is missing'

const OTHER_PATH = 'If its path is another one, or ends with a slash, set {tokenPath}.'

export type ResponseKind =
  | 'stood-still'
  | 'slow-body'
  | 'no-response'
  | 'no-response-object'
  | 'not-a-token-endpoint'
  | 'no-token'
  | 'incomplete-token'
  | 'expired-token'
  | 'no-lifetime'
  | 'redirect'
  | 'redirect-here'
  | 'no-connection-in-time'
  | 'no-proxy'
  | 'proxy-fails'

export const RESPONSES: Readonly<Record<ResponseKind, Advice>> = {
  'stood-still': {
    advice: 'Try again: the process stood still, and {timeoutMs} had passed.',
  },
  'slow-body': {
    advice:
      'Ask the operator, or raise {timeoutMs}: the Content-Length may be larger than the body, or a proxy holds the rest back.',
  },
  'no-response': {
    advice:
      'Try again later, or raise {timeoutMs}: the token endpoint, the network or the DNS server hangs or is slow.{circle}{check}',
    inCheck:
      'Try again later, or allow more time with {timeoutMs}: it accepts connections, but does not respond, or not to the end, or is slow. If curl ' +
      'gets a response at once, a firewall may not like the User-Agent "node" ({endpoints}).',
  },
  'no-response-object': {
    advice:
      'Return what fetch returns, or a new Response each time: Response.json(…). It needs headers.get and an unread body.',
  },
  'not-a-token-endpoint': {
    advice:
      'Check {authUrl}: a login page, a proxy, a firewall or an API may respond in its place ({clientRefused}).',
  },
  'no-token': {
    advice:
      'Check {authUrl}, and what the response says in fields of its own. If the token has another name there, the option fetch ' +
      'translates it ({unusable}).',
  },
  'incomplete-token': {
    advice:
      'Check {authUrl}. If the service means its response so, the option fetch adds what is missing ({unusable}).',
  },
  'expired-token': {
    advice:
      'Try again in a second. If expires_in is always 0, the option fetch says how long a token lives ({unusable}).',
  },
  'no-lifetime': {
    advice: 'Set {lifetimeIfMissingMs} to the time for which the service says that its tokens live.',
  },
  redirect: {
    advice: 'Correct {authUrl}: typical causes are http instead of https, and another host name.',
  },
  'redirect-here': {
    advice: `Correct {authUrl}. ${OTHER_PATH}`,
    inCheck:
      'Correct {authUrl}: it may begin with http instead of https, or have another host name or a login page in front of it. ' +
      OTHER_PATH,
  },
  // Of check, which sees the connection:
  'no-connection-in-time': {
    advice:
      'Check the host and the port in the URL, firewalls, which may drop packets, and whether the server speaks TLS.',
  },
  'no-proxy': {
    advice:
      'Check HTTPS_PROXY (HTTP_PROXY for http: URLs), and whether the proxy is running, or put the host into NO_PROXY.',
  },
  'proxy-fails': {
    advice:
      'Check whether the proxy allows and reaches this host, and the user name and the password (407) in HTTPS_PROXY (HTTP_PROXY for http: ' +
      'URLs). Or put the host into NO_PROXY (names and addresses, no ranges).',
  },
}

/** The kind of a response of which these fields are wrong. */
export function unusableKindOf(issues: readonly ResponseIssue[]): ResponseKind {
  if (issues.every(({ reason }) => reason === TOO_SHORT)) return 'expired-token'
  if (issues.every(({ reason }) => reason === NO_LIFETIME)) return 'no-lifetime'
  if (issues.every(({ field }) => field === 'expires_in' || field === 'token_type')) return 'incomplete-token'
  return issues.some(({ field }) => field === 'body') ? 'not-a-token-endpoint' : 'no-token'
}
