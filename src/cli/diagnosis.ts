/** What an error means: how far the token request came, told by the error's own codes, and what to do about it. */
import { ConfigurationError, isMerchantAuthError, TokenRequestError, TokenResponseError } from '../errors.ts'
import { adviceForAnswer, adviceForStatus } from './advice.ts'
import { type AdviceContext, adviceForNetwork, adviceForTimeout } from './advice-network.ts'
import { EXIT, printable } from './terminal.ts'

/** The steps of a token request, in their order. */
export const STEPS = ['options', 'name', 'connection', 'tls', 'answer', 'token'] as const
export type Step = (typeof STEPS)[number]

/** Where a token request ended, why, and what to do. */
export interface Diagnosis {
  readonly step: Step
  /** What went wrong, in a sentence. */
  readonly text: string
  /** What to do, in a sentence or two. */
  readonly advice: string
  readonly exitCode: number
  /** The error's code, and the one of what lies below it, for programs. */
  readonly code: string
  readonly cause?: string | undefined
  readonly status?: number | undefined
  readonly error?: string | undefined
}

/** Diagnoses the error of a token request. `undefined` for one that is not of this package. */
export function diagnose(error: unknown, context: AdviceContext): Diagnosis | undefined {
  if (error instanceof ConfigurationError) {
    const text = error.problems.map(({ option, reason }) => `${option}: ${reason}`).join('\n')
    const advice = "The command's --help names the variables and flags."
    return { step: 'options', text, advice, exitCode: EXIT.configuration, code: error.code }
  }
  if (error instanceof TokenResponseError) {
    const text = `an answer that is no token response: ${issuesOf(error)}`
    return {
      step: 'token',
      text,
      advice: adviceForAnswer(error),
      exitCode: EXIT.unusable,
      code: error.code,
    }
  }
  if (error instanceof TokenRequestError) return requestDiagnosis(error, context)
  if (!isMerchantAuthError(error)) return undefined
  return { step: 'options', text: error.message, advice: '', exitCode: EXIT.unexpected, code: error.code }
}

function issuesOf(error: TokenResponseError): string {
  return error.issues.map(({ field, reason }) => `${field} ${reason}`).join('; ')
}

function requestDiagnosis(error: TokenRequestError, context: AdviceContext): Diagnosis {
  const { code, status, error: oauth } = error
  const known = {
    code,
    ...(status === undefined ? {} : { status }),
    ...(oauth === undefined ? {} : { error: oauth }),
  }
  switch (code) {
    case 'ERR_TOKEN_STATUS': {
      const said = [oauth, error.errorDescription].filter((part) => part !== undefined).join(': ')
      const text = `${status}${said && `, ${printable(said)}`}`
      const advice = adviceForStatus(error)
      return { ...known, step: 'answer', text, advice, exitCode: EXIT.refused }
    }
    case 'ERR_TOKEN_REDIRECT': {
      const to = error.answer?.location ? ` to ${error.answer.location}` : ''
      const text = `${status ?? 'a status'}, a redirect${to}, which is never followed: the secret would go along`
      const advice =
        'Correct MERCHANT_AUTH_URL: http instead of https, another host name, or a login page in front of it.'
      return { ...known, step: 'answer', text, advice, exitCode: EXIT.refused }
    }
    case 'ERR_CLIENT_SECRET': {
      const { code: cause, shown } = causeOf(error)
      const text = `the client secret could not be read${shown === undefined ? '' : ` (${shown})`}`
      const advice = 'Check that the file exists, holds the secret, and may be read by this user.'
      return { ...known, cause, step: 'options', text, advice, exitCode: EXIT.configuration }
    }
    case 'ERR_TOKEN_TIMEOUT':
      return { ...known, ...adviceForTimeout(context), exitCode: EXIT.unreachable }
    default: {
      const cause = causeOf(error)
      return { ...known, cause: cause.code, ...adviceForNetwork(cause, context), exitCode: EXIT.unreachable }
    }
  }
}

/** Codes behind which another error says more: what a proxy answered, for example. */
const SAYS_LITTLE = new Set(['UND_ERR_ABORTED', 'UND_ERR_SOCKET'])

/** Why there was no answer: a code for programs, and the same with words where it says little. */
export interface Cause {
  readonly code: string | undefined
  readonly shown: string | undefined
}

/** The first code in the chain of causes, such as ECONNREFUSED, and the words of the last one. */
export function causeOf(error: Error): Cause {
  let code: string | undefined
  let words: string | undefined
  for (let cause = error.cause; cause instanceof Error; cause = cause.cause) {
    words = printable(cause.message, 120)
    if ('code' in cause) code ??= printable(String(cause.code), 60)
  }
  if (code === undefined) return { code, shown: words === '' ? undefined : words }
  return { code, shown: SAYS_LITTLE.has(code) ? `${code}: ${words}` : code }
}
