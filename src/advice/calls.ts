/** What the response of an API to a call of `check` means. */
import type { Failure } from './failure.ts'

/** What a call of `check` shows. */
interface CallOutcome extends Pick<Failure, 'kind'> {
  /** The statuses that show it. */
  readonly statuses?: readonly number[]
  readonly advice: string
}

const OF_TOKEN =
  "Check that the audience and the API URL belong to the same environment and region, and look up in the service's " +
  'documentation which header carries the token (--header-name, --scheme), and whether it wants a further key, which this ' +
  'command does not send. Some APIs know a token only seconds after it was issued; otherwise ask the service why it rejects it.'
const UNKNOWN = 'This response does not show whether the API accepts the token.'

/** What one call shows. */
export const CALLS = {
  rejected: {
    kind: 'call-rejected',
    statuses: [401],
    advice:
      'Find out whether the API rejects the token, or this call alone, such as a store, an order or a permission that the ' +
      `account does not have: --call GOOD --call BAD, with a GOOD that works for every account. If none works: ${OF_TOKEN}`,
  },
  forbidden: {
    kind: 'call-forbidden',
    statuses: [403],
    advice:
      'Check the URL, MERCHANT_AUTH_AUDIENCE and --token-parameter scope=…, and ask the service: the client may lack a permission, ' +
      'a scope or a product, the token may be for another audience or environment, the API may want a further key, which this ' +
      'command does not send, the URL may name a store of another client, or a firewall in front of the API rejects the request. ' +
      'Once the service has granted it, replace the token of running processes (docs/production.md).',
  },
  tooMany: {
    kind: 'too-many-calls',
    statuses: [429],
    advice: 'Try again later: too many calls were made.',
  },
  headersTooLong: {
    kind: 'headers-too-long',
    statuses: [431],
    advice:
      'Ask the service for fewer permissions, or for a higher limit: the headers are too long for the API, or for a gateway in ' +
      'front of it, as the token is, if it has many permissions.',
  },
  apiFails: {
    kind: 'api-fails',
    advice: `Try again later: the API itself fails, unless its text is about the token. ${UNKNOWN}`,
  },
  otherStatus: {
    kind: 'other-status',
    advice:
      'Check the URL, and whether it supports GET, unless its text is about the token; some APIs return 404 for what a client ' +
      `may not see. ${UNKNOWN}`,
  },
  redirected: { kind: 'call-redirected', advice: 'Check the URL: the redirect was not followed.' },
  webPage: {
    kind: 'web-page',
    advice:
      'Check the URL: unless the API labels its JSON so, this comes from a web site, a login or a firewall.',
  },
} as const satisfies Readonly<Record<string, CallOutcome>>

/** What two calls with one token show, of which one got a 401 at least. */
export const VERDICTS = {
  call: {
    kind: 'about-the-call',
    advice:
      'Check what the rejected call names: a store, an order or a permission that the account does not have. The token is valid.',
  },
  token: { kind: 'about-the-token', advice: OF_TOKEN },
  open: {
    kind: 'open-call',
    advice: 'Pass a GOOD call that requires the token: this one does not show whether the token is valid.',
  },
  unclear: {
    kind: 'unclear-call',
    advice:
      'Try again later, or pass another GOOD call: this one does not show whether it requires the token.',
  },
  notGood: {
    kind: 'no-good-call',
    advice: 'Pass a GOOD call that returns a status of 2xx with the token.',
  },
  otherApi: {
    kind: 'other-api',
    advice: 'Pass a GOOD call of the same API: one can reject a token that another one accepts.',
  },
} as const satisfies Readonly<Record<string, CallOutcome>>
