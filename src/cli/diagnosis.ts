/** What a failed request means: the step at which it failed, why, and what to do, from the error's own codes. */
import {
  ConfigurationError,
  isMerchantAuthError,
  TokenRequestError,
  TokenResponseError,
} from '../base/errors.ts'
import { spentForMs } from '../base/quota.ts'
import { printable } from '../base/redact.ts'
import type { TokenProviderOptions } from '../options/options.ts'
import { BROKEN_OFF, NO_DNS, networkFailureOf } from '../token/request/network-failure.ts'
import { type RefusalReason, refusalOf } from '../token/request/refusal.ts'
import { TOO_SHORT } from '../token/request/token-errors.ts'
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
    const fields = error.issues.map(({ field }) => field)
    let advice = fields.includes('body') ? NOT_AN_ENDPOINT : NOT_STANDARD
    if (fields.every((field) => field === 'expires_in' || field === 'token_type')) advice = INCOMPLETE
    if (error.issues.every(({ reason }) => reason === TOO_SHORT)) advice = EXPIRED
    return failed(EXIT.unusable, { step: 'token', text, advice })
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
    return failed(EXIT.rejected, { step: 'response', text, advice: REDIRECT, status })
  }
  if (code === 'ERR_TOKEN_TIMEOUT') return failed(EXIT.unreachable, diagnoseTimeout(connection))
  if (error.cause === undefined) return failed(EXIT.unreachable, { step: 'response', text: error.message })
  return failed(EXIT.unreachable, diagnoseNetwork(error.cause as Error, connection))
}

const NOT_AN_ENDPOINT =
  'Something other than a token endpoint responds at this URL, such as a web page, a login, a proxy or a firewall, or its ' +
  'response is not JSON. Check MERCHANT_AUTH_URL; /oauth/token is appended to it where it is missing.'
const NOT_STANDARD =
  'The response does not conform to RFC 6749 §5.1, or reports an error, such as a wrong secret, in fields of its own. ' +
  'Check MERCHANT_AUTH_URL. If it is correct, contact the service. The command cannot use the option fetch of a program, ' +
  'which may translate the response.'
const INCOMPLETE =
  'The response has an access token, but does not say how long it lives (expires_in), or that it is a bearer token ' +
  '(token_type). If the service means it so, a program adds that in its option fetch (docs/another-token-endpoint.md).'
const EXPIRED =
  'The token endpoint returned a token at the end of its life. Try again in a second. If expires_in is always 0, a ' +
  'program says in its option fetch how long the token lives (docs/another-token-endpoint.md).'
const WRONG_CLIENT_TOO = 'Some return this for a wrong client ID or secret, too.'
const REDIRECT =
  'Correct MERCHANT_AUTH_URL. Typical causes are http instead of https, another host name, a login page in front of the ' +
  'endpoint, and a path that ends with a slash, which a program calls in its option fetch ' +
  '(docs/another-token-endpoint.md).'

/** `MERCHANT_AUTH_URL (--auth-url)`, with a word before the flag. */
function named(option: string, word = ''): string {
  const flag = flagInsteadOf(option)
  return flag === undefined ? option : `${option} (${word}${flag})`
}

/** What to do about a rejection, in terms of variables and flags. */
function adviceForRejection(
  { status = 0, error, errorDescription, answer }: TokenRequestError,
  options: Partial<TokenProviderOptions> = {},
): string {
  const { reason, isExplained } = refusalOf(status, { error, errorDescription, detail: answer?.detail })
  const form = options.bodyFormat === 'form' ? '' : FORM
  const fields = options.tokenParameters === undefined ? '' : FIELDS
  const advice: Readonly<Record<RefusalReason, string>> = {
    client: options.clientAssertion === undefined ? CLIENT : ASSERTION + form,
    audience: AUDIENCE,
    grant: GRANT,
    'grant-type': GRANT_TYPE + form,
    scope: SCOPE,
    format: FORMAT + form + fields,
    'no-endpoint': NO_ENDPOINT,
    'too-many': `Too many tokens were requested. Try again ${laterIn(answer)}.`,
    server:
      `The token endpoint, or what is in front of it, is in trouble. Try again ` +
      `${laterIn(answer)}.${status === 500 ? ` ${WRONG_CLIENT_TOO}${form}` : ''}`,
    other:
      'Unless the response says why, check MERCHANT_AUTH_URL, the client ID and its secret or assertion, and ' +
      'MERCHANT_AUTH_AUDIENCE, and that they belong to one environment.',
  }
  const mayBeAnotherServer = !isExplained && (reason === 'client' || reason === 'audience')
  const hint = reason === 'audience' ? `${NO_OAUTH_ERROR} ${WRONG_CLIENT_TOO}` : NO_OAUTH_ERROR
  return advice[reason] + (mayBeAnotherServer ? hint : '')
}

/** When the response asks for the next request: this package may obey it in part. */
function laterIn(answer: TokenRequestError['answer']): string {
  const ms = Math.max(answer?.retryAfterMs ?? 0, spentForMs(answer?.quotas))
  if (ms === 0) return 'later'
  return ms > ONE_DAY_MS ? 'in more than a day' : `in ${Math.ceil(ms / 1000)} s`
}

const ONE_DAY_MS = 86_400_000

const CLIENT =
  'The token endpoint rejects the client ID or the client secret. Check that both belong to this environment (production ' +
  'and test have their own), that the secret is the latest one, has not expired, and has no stray quote or space, and that ' +
  'the client is enabled and approved. If they are correct, it may expect them as a form (--body-format form), or by HTTP ' +
  'Basic (docs/another-token-endpoint.md).'
const ASSERTION =
  'The token endpoint rejects the client ID or the assertion. Check that the service knows its public key, that iss, sub ' +
  'and aud are what is registered there (iss and sub are the client ID, unless a platform writes the assertion), and that ' +
  'it has not expired or been used before. ' +
  "Also compare this machine's clock: an iat in the future is rejected, so set it some seconds back (docs/assertions.md)."
const AUDIENCE =
  'Unless its text says something else, this client may not request a token for this audience, or the token endpoint takes ' +
  'none (docs/another-token-endpoint.md). Check ' +
  'MERCHANT_AUTH_AUDIENCE character by character, including a slash at the end, and check that it belongs to the same ' +
  'environment as MERCHANT_AUTH_URL.'
const GRANT =
  'The client may not use the client credentials grant, or is unknown or disabled here. Check MERCHANT_AUTH_URL and ' +
  'MERCHANT_AUTH_CLIENT_ID, then ask the service to allow the grant.'
const GRANT_TYPE =
  'This token endpoint does not support the client credentials grant, does not find it in the body, or wants a ' +
  'grant_type of its own (docs/another-token-endpoint.md). Check MERCHANT_AUTH_URL. If it is correct, contact the ' +
  'service.'
const NO_OAUTH_ERROR =
  ' The response contains no usual OAuth error, so it may come from an API, from a server whose token endpoint has another ' +
  'path or a slash at its end (check MERCHANT_AUTH_URL, and docs/another-token-endpoint.md), or from something in between, ' +
  'such as a firewall, an IP allowlist or a gateway.'
const NO_ENDPOINT =
  'There is no token endpoint at this URL, or it wants another method. Check MERCHANT_AUTH_URL; /oauth/token is appended ' +
  'to it where it is missing. A program calls another path in its option fetch, which the command cannot use ' +
  '(docs/another-token-endpoint.md).'
const SCOPE =
  'The token endpoint wants a scope, or another one: set it with --token-parameter, or in MERCHANT_AUTH_TOKEN_PARAMETERS ' +
  '(scope=…).'
const FORMAT =
  'The token endpoint does not accept the request: its form, a field that it requires (--token-parameter NAME=VALUE), or the ' +
  'client ID and its secret or assertion. Check these, and ' +
  'MERCHANT_AUTH_URL.'
const FORM =
  " A server that expects a form instead of JSON needs the option bodyFormat: 'form' (here --body-format form)."
const FIELDS = ' It may not accept the further fields either: check MERCHANT_AUTH_TOKEN_PARAMETERS.'

type NetworkFinding = Pick<Finding, 'step' | 'text' | 'advice' | 'cause'>

/** Why a request got no response. Its error must be free of secrets. */
export function diagnoseNetwork(error: Error | undefined, connection: Connection): NetworkFinding {
  const { host, socket, proxy, proxyHint } = connection
  const { step, code: cause, reason: words, advice } = networkFailureOf(error, connection)
  const reason = words === '' ? '' : ` (${words})`
  const hint = proxyHint === undefined ? '' : ` ${proxyHint}`
  const isBeforeProxy = socket === undefined && proxy?.connected === false
  if (step === 'tls' && isBeforeProxy) return { ...diagnoseProxy(connection, reason), advice, cause }
  if (step === 'tls')
    return { step, text: `no TLS connection to ${host}${reason}`, advice: advice + hint, cause }
  if (step === 'response')
    return { step, text: `${host} returned a response that cannot be read${reason}`, advice, cause }
  if (step === 'program')
    return { step: 'connection', text: `the request to ${host} was not sent${reason}`, advice, cause }
  if (socket === undefined && proxy !== undefined) return { ...diagnoseProxy(connection, reason), cause }
  if (step === 'name') return { step, text: `cannot resolve ${host}${reason}`, advice: advice + hint, cause }
  if (socket !== undefined) {
    const text = `${host} returned no complete response${reason}`
    return { step: 'response', text, advice: /^ERR_HTTP2_/.test(cause ?? '') ? advice : BROKEN_OFF, cause }
  }
  return { step, text: `cannot connect to ${host}${reason}`, advice: advice + hint, cause }
}

/** A request that got no response in time. */
export function diagnoseTimeout(connection: Connection): NetworkFinding {
  const { host, socket, proxy, proxyHint, resolvedTo } = connection
  if (socket !== undefined) {
    const advice =
      `${host} accepts connections, but does not respond, does not complete its response, or is slow. Try again later, ` +
      'or allow more time with --timeout-ms. If curl gets a response at once, a firewall may not like the User-Agent ' +
      '"node" (docs/another-token-endpoint.md#further-headers).'
    return { step: 'response', text: 'no response in time', advice }
  }
  if (proxy !== undefined) return diagnoseProxy(connection, ' in time')
  if (resolvedTo === undefined) {
    const advice = `${NO_DNS}${proxyHint === undefined ? '' : ` ${proxyHint}`}`
    return { step: 'name', text: `cannot resolve ${host} in time`, advice }
  }
  const proxies = proxyHint ?? 'If this network requires a proxy, set HTTPS_PROXY and NODE_USE_ENV_PROXY=1.'
  const hint = connection.isLoopback ? '' : ` ${proxies}`
  const advice =
    'A firewall may drop the packets, the host or the port in the URL may be wrong, or the server may not speak TLS.' +
    hint
  return { step: 'connection', text: `no connection to ${host} in time`, advice }
}

function diagnoseProxy({ host, proxy }: Connection, reason: string): NetworkFinding {
  const step = 'connection'
  if (proxy?.connected !== true) {
    const advice =
      'Check HTTPS_PROXY (HTTP_PROXY for http: URLs), and whether the proxy is running. Hosts in NO_PROXY are called ' +
      'without it.'
    return { step, text: `cannot connect to the proxy ${proxy?.host}${reason}`, advice }
  }
  const advice =
    'Check whether the proxy allows this host, and can reach it. If it asks for a password (407), check the user name ' +
    'and the password in HTTPS_PROXY (HTTP_PROXY for http: URLs). Hosts in NO_PROXY (names and addresses, no ranges) are ' +
    'called without it.'
  return { step, text: `the proxy ${proxy.host} did not connect to ${host}${reason}`, advice }
}
