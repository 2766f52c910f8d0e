/** What fails, and what to do about it: the shape of a row, and how its text is put in the words of its reader. */

import { inManual } from '../base/manual-link.ts'

/** Where a token request fails: in the program that sends it, on the way, or at its response. */
export type FailedStep = 'program' | 'name' | 'connection' | 'tls' | 'response'

/** One kind of failure. A word in braces is what the reader can change: see {@link Words}. */
export interface Failure {
  /** Names it, for tests and for the manual. */
  readonly kind: string
  readonly step: FailedStep
  /** What to do: at most two sentences, the action first. Where it is absent, that of the step says enough. */
  readonly advice?: string
  /** What `check` says in its place: more than fits a line of a log. */
  readonly inCheck?: string
  /** Whether every request fails in this way, until something is changed. */
  readonly isLasting?: true
}

/** What to do where a failure has no words of its own. */
const BY_STEP: Readonly<Record<FailedStep, string>> = {
  program: 'Correct what the reason names, in this program or its environment.',
  name: 'Check the host name in {authUrl}, and the DNS settings of this machine or container.{check}',
  connection: 'Check {authUrl}, the network, firewalls and proxies, and try again.{check}',
  tls: "Check the certificate, its authority and this machine's clock.{check}",
  response:
    'Check the scheme and the port of {authUrl}, or ask the operator of the server, or of a proxy in front of it.{check}',
}

/** What a server may want besides: only said where the body is not a form already. */
const FORM = ', or a form instead of JSON{form}'

/** What a reader can change, by the name of the option: in an error the option itself, in `check` its variable or flag. */
export type Words = Readonly<Record<string, string>>

/** The words of an error. */
export const OPTIONS: Words = {
  check: ' npx merchant-auth check says more.',
  form: '',
  circle: '',
  later: '',
  credential: 'clientSecret',
  clientRefused: inManual('the-token-endpoint-rejects-the-client'),
  tooMany: inManual('429-from-the-token-endpoint'),
  unusable: inManual('an-unusable-token-response'),
  endpoints: 'merchant-auth/docs/another-token-endpoint.md',
}

/** What to do about a failure, in the words of an error. */
export function adviceOf({ advice, step }: Pick<Failure, 'advice' | 'step'>, words: Words = OPTIONS): string {
  return inWordsOf(words, advice ?? BY_STEP[step])
}

/** What to do about a failure, in the words of `check`. */
export function checkAdviceOf({ inCheck, ...failure }: Failure, words: Words): string {
  return inCheck === undefined ? adviceOf(failure, words) : inWordsOf(words, inCheck)
}

function inWordsOf(words: Words, text: string): string {
  return text
    .replace('{form}', words['form'] ? FORM : '')
    .replace(/\{(\w+)\}/g, (_, name: string) => words[name] ?? name)
}
