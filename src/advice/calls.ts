/** What the response of an API to a call of `check` means. */
import type { Advice } from './failure.ts'

/** What a call of `check` shows. */
interface CallOutcome extends Advice {
  /** The statuses that show it. */
  readonly statuses?: readonly number[]
}

const OF_TOKEN =
  'Check that the audience (or --token-parameter resource=…) and the API URL belong to one environment, and which header the ' +
  'service wants (--header-name, --scheme). The API may want a further key, or learn of tokens late.'
const UNKNOWN = 'This response does not show whether the API accepts the token.'

export type CallKind =
  | 'call-rejected'
  | 'call-forbidden'
  | 'too-many-calls'
  | 'headers-too-long'
  | 'api-fails'
  | 'other-status'
  | 'call-redirected'
  | 'web-page'
  | 'about-the-call'
  | 'about-the-token'
  | 'no-good-call'

export const CALLS: Readonly<Record<CallKind, CallOutcome>> = {
  'call-rejected': {
    statuses: [401],
    advice:
      'Find out whether the API rejects the token, or this call alone: --call GOOD --call BAD, with a GOOD for every account. ' +
      `If none works: ${OF_TOKEN}`,
  },
  'call-forbidden': {
    statuses: [403],
    advice:
      'Check the URL, MERCHANT_AUTH_AUDIENCE and --token-parameter scope=…, and ask the service: the client may lack a ' +
      'permission, or a store in the URL, the API may want a further key, or a firewall rejects the request. Once it is ' +
      'granted, replace the token of running processes (docs/production.md).',
  },
  'too-many-calls': { statuses: [429], advice: 'Try again later: too many calls were made.' },
  'headers-too-long': {
    statuses: [431],
    advice:
      'Ask the service for fewer permissions, or a higher limit: the token is too long for the API, or for a gateway.',
  },
  'api-fails': {
    advice: `Try again later: the API itself fails, unless its text is about the token. ${UNKNOWN}`,
  },
  'other-status': {
    advice:
      'Check the URL, and whether it supports GET; some APIs return 404 for what a client may not see. ' +
      UNKNOWN,
  },
  'call-redirected': { advice: 'Check the URL: the redirect was not followed.' },
  'web-page': {
    advice:
      'Check the URL: a web site, a login or a firewall returns this, unless the API labels its JSON so.',
  },
  'about-the-call': {
    advice:
      'Check what the rejected call names: a store, an order or a permission that the account does not have. The token is valid.',
  },
  'about-the-token': { advice: OF_TOKEN },
  'no-good-call': {
    advice:
      'Pass another GOOD call, of the same API, which requires the token and succeeds with it, or try again later.',
  },
}

/** The advice for a status from 400. */
export function callAdviceOf(status: number): string {
  const outcomes: readonly CallOutcome[] = Object.values(CALLS)
  const other = CALLS[status >= 500 ? 'api-fails' : 'other-status']
  return (outcomes.find(({ statuses }) => statuses?.includes(status)) ?? other).advice
}
