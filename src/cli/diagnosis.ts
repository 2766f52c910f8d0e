/** What a failed request means: the step at which it failed, why, and what to do, from the error's own codes. */
import { type Advice, checkAdviceOf, otherWays, type Words } from '../advice/failure.ts'
import { BROKEN_OFF, NO_DNS, networkFailureOf } from '../advice/network.ts'
import { REFUSAL_KINDS, type RefusalKind } from '../advice/refusals.ts'
import { RESPONSES, unusableKindOf } from '../advice/responses.ts'
import {
  ConfigurationError,
  isMerchantAuthError,
  TokenRequestError,
  TokenResponseError,
} from '../base/errors.ts'
import { spentForMs } from '../base/quota.ts'
import { printable } from '../base/redact.ts'
import type { TokenProviderOptions } from '../options/options.ts'
import { EXIT, oneOf } from './command.ts'
import type { Connection } from './connection.ts'
import type { Finding } from './report.ts'
import { flagInsteadOf } from './settings.ts'

export interface Diagnosis {
  readonly exitCode: number
  readonly finding: Finding
}

/** What is known about a token request besides its error. */
export interface Circumstances {
  readonly connection?: Connection | undefined
  /** Advice where variables are missing: a file that was not read may set them. */
  readonly unread?: string | undefined
  readonly options?: TokenProviderOptions | undefined
}

/** Diagnoses the error of a token request; undefined where it is not one. */
export function diagnose(
  error: unknown,
  { connection = { host: '', isLoopback: false }, unread, options }: Circumstances,
): Diagnosis | undefined {
  if (!isMerchantAuthError(error)) return undefined
  const failed = (exitCode: number, finding: Omit<Finding, 'result' | 'code'>): Diagnosis => ({
    exitCode,
    finding: { ...finding, result: 'failed', code: error.code },
  })
  if (error instanceof ConfigurationError) {
    const { problems } = error
    const text = problems.map(({ option, reason }) => `${named(option)}: ${reason}`).join('\n')
    const missing = problems.filter(({ kind }) => kind === 'missing')
    const names = missing.map(({ option }) => named(option, 'or '))
    const advice = missing.length === 0 ? undefined : (unread ?? `Set ${oneOf(names, 'and')}.`)
    return failed(EXIT.configuration, { step: 'options', text, advice })
  }
  if (error instanceof TokenResponseError) {
    const issues = error.issues.map(({ field, reason }) => `${field} ${reason}`).join('; ')
    const text = `the response contains no usable token: ${issues}`
    return failed(EXIT.unusable, {
      step: 'token',
      text,
      advice: told(RESPONSES[unusableKindOf(error.issues)]),
    })
  }
  if (!(error instanceof TokenRequestError)) return undefined
  const { code, status, error: oauth, errorDescription, answer } = error
  if (code === 'ERR_TOKEN_STATUS') {
    const said = [oauth, errorDescription, answer?.detail].filter((part) => part !== undefined).join(': ')
    const text = `the token endpoint returned ${status}${said && `, ${printable(said)}`}`
    const advice = adviceForRejection(error, options)
    return failed(EXIT.rejected, { step: 'response', text, advice, status, error: oauth })
  }
  if (code === 'ERR_TOKEN_REDIRECT') {
    const to = answer?.location ? ` to ${answer.location}` : ''
    const text = `the token endpoint returned ${status}, a redirect${to}; following it would expose the credentials`
    return failed(EXIT.rejected, { step: 'response', text, advice: told(RESPONSES['redirect-here']), status })
  }
  if (code === 'ERR_TOKEN_TIMEOUT') return failed(EXIT.unreachable, diagnoseTimeout(connection))
  if (error.cause === undefined) return failed(EXIT.unreachable, { step: 'response', text: error.message })
  return failed(EXIT.unreachable, diagnoseNetwork(error.cause as Error, connection))
}

/** `MERCHANT_AUTH_URL (--auth-url)`, with a word before the flag. */
function named(option: string, word = ''): string {
  const flag = flagInsteadOf(option)
  return flag === undefined ? option : `${option} (${word}${flag})`
}

/** The words of a command: variables and flags. */
const VARIABLES: Words = {
  authUrl: 'MERCHANT_AUTH_URL',
  clientId: 'MERCHANT_AUTH_CLIENT_ID',
  credential: 'the client secret',
  audience: 'MERCHANT_AUTH_AUDIENCE',
  tokenParameters: '--token-parameter NAME=VALUE',
  timeoutMs: '--timeout-ms',
  tokenPath: 'MERCHANT_AUTH_TOKEN_PATH',
  lifetimeIfMissingMs: 'MERCHANT_AUTH_LIFETIME_IF_MISSING_SECONDS',
  check: '',
  circle: '',
  later: '',
  clientRefused: 'docs/troubleshooting.md#the-token-endpoint-rejects-the-client',
  tooMany: 'docs/troubleshooting.md#429-from-the-token-endpoint',
  unusable: 'docs/troubleshooting.md#an-unusable-token-response; the command cannot use it',
  endpoints: 'docs/token-endpoint.md',
}

/** The variables for how a token request is sent. */
const WAYS = {
  bodyFormat: 'MERCHANT_AUTH_BODY_FORMAT',
  tokenEndpointAuthMethod: 'MERCHANT_AUTH_TOKEN_ENDPOINT_AUTH_METHOD',
} as const

/** What to do about a rejection; about a 429 that another process got, which has no answer here. */
function adviceForRejection(
  { answer }: TokenRequestError,
  options: Partial<TokenProviderOptions> = {},
): string {
  return checkAdviceOf(REFUSAL_KINDS[answer?.kind as RefusalKind] ?? REFUSAL_KINDS['too-many'], {
    ...VARIABLES,
    ...otherWays(
      options,
      options.clientAssertion ? 'clientAssertion' : 'clientSecret',
      (option, value) => `${WAYS[option]}=${value}`,
    ),
    ...(options.clientAssertion && { credential: 'the assertion' }),
    ...(options.tokenParameters && { tokenParameters: 'MERCHANT_AUTH_TOKEN_PARAMETERS' }),
    later: laterIn(answer),
  })
}

/** When the response asks for the next request: this package may obey it in part. */
function laterIn(answer: TokenRequestError['answer']): string {
  const ms = Math.max(answer?.retryAfterMs ?? 0, spentForMs(answer?.quotas))
  if (ms === 0) return ''
  return ms > ONE_DAY_MS ? ', in more than a day' : `, in ${Math.ceil(ms / 1000)} s`
}

const ONE_DAY_MS = 86_400_000

/** What to do about a failure, in the words of a command. */
export function told(failure: Advice): string {
  return checkAdviceOf(failure, VARIABLES)
}

type NetworkFinding = Pick<Finding, 'step' | 'text' | 'advice' | 'cause'>

/** Why a request got no response. Its error must be free of secrets. */
export function diagnoseNetwork(error: Error | undefined, connection: Connection): NetworkFinding {
  const { host, socket, proxy, proxyHint = '' } = connection
  const { failure, code: cause, reason: words } = networkFailureOf(error, connection)
  const { step, kind } = failure
  const advice = told(failure)
  const reason = ` (${words})`
  if (step === 'program')
    return { step: 'connection', text: `the request to ${host} was not sent${reason}`, advice, cause }
  if (step === 'response')
    return { step, text: `${host} returned a response that cannot be read${reason}`, advice, cause }
  if (socket === undefined && proxy !== undefined && (step !== 'tls' || !proxy.connected))
    return { ...diagnoseProxy(connection, reason), ...(step === 'tls' && { advice }), cause }
  if (socket !== undefined && step === 'connection') {
    const text = `${host} returned no complete response${reason}`
    return { step: 'response', text, advice: told(kind === 'http2' ? failure : BROKEN_OFF), cause }
  }
  const what = { tls: 'no TLS connection to', name: 'cannot resolve', connection: 'cannot connect to' }[step]
  return { step, text: `${what} ${host}${reason}`, advice: `${advice} ${proxyHint}`.trim(), cause }
}

/** A request that got no response in time. */
export function diagnoseTimeout(connection: Connection): NetworkFinding {
  const { host, isLoopback, socket, proxy, proxyHint, resolvedTo } = connection
  if (socket !== undefined)
    return { step: 'response', text: 'no response in time', advice: told(RESPONSES['no-response']) }
  if (proxy !== undefined) return diagnoseProxy(connection, ' in time')
  const [step, what, advice] =
    resolvedTo === undefined
      ? (['name', 'cannot resolve', told(NO_DNS)] as const)
      : (['connection', 'no connection to', told(RESPONSES['no-connection-in-time'])] as const)
  const usual = step === 'connection' && !isLoopback ? PROXY_NEEDED : ''
  return { step, text: `${what} ${host} in time`, advice: `${advice} ${proxyHint ?? usual}`.trim() }
}

const PROXY_NEEDED = 'If this network requires a proxy, set HTTPS_PROXY and NODE_USE_ENV_PROXY=1.'

function diagnoseProxy({ host, proxy }: Connection, reason: string): NetworkFinding {
  const [what, kind] = proxy?.connected
    ? ([`the proxy ${proxy.host} did not connect to ${host}`, 'proxy-fails'] as const)
    : ([`cannot connect to the proxy ${proxy?.host}`, 'no-proxy'] as const)
  return { step: 'connection', text: what + reason, advice: told(RESPONSES[kind]) }
}
