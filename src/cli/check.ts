/** `merchant-auth check`: the configuration, a token request, and an API call, step by step. */
import { isIP } from 'node:net'
import { createAuthFetch } from '../attach/fetch.ts'
import { isReserved, leftInText, type Quota } from '../base/quota.ts'
import { redactedCause, shownUrl } from '../base/redact.ts'
import { parseUrl } from '../base/urls.ts'
import { destinationsOf } from '../environment/destinations.ts'
import { apisOf, tokenEndpoint } from '../environment/environment.ts'
import type { TokenAcquiredEvent } from '../events/events.ts'
import { explanationOf } from '../events/warnings.ts'
import type { TokenProviderOptions } from '../options/options.ts'
import { createTokenProvider } from '../token/client-credentials-provider.ts'
import type { TokenProvider } from '../token/provider.ts'
import type { AccessToken } from '../token/request/access-token.ts'
import { type OAuthError, readOAuthError } from '../token/request/token-response.ts'
import { jwtFindings } from './check-jwt.ts'
import { inspectStore, storeFinding } from './check-store.ts'
import { type Command, type CommandContext, EXIT, parseFlags, UsageError } from './command.ts'
import { type Connection, watchConnection } from './connection.ts'
import { diagnose, diagnoseNetwork, diagnoseTimeout } from './diagnosis.ts'
import { dotenvWarnings } from './dotenv.ts'
import { optionRemarks } from './option-remarks.ts'
import { type Finding, jsonReport, type Report, type Step, textReport } from './report.ts'
import {
  HEADER_FLAGS,
  type Header,
  optionsFrom,
  readHeader,
  readSources,
  SETTINGS_FLAGS,
  SETTINGS_HELP,
  type Sources,
  unreadDotenv,
} from './settings.ts'
import { instantText, Redactor } from './terminal.ts'

/** A year. A date, and most lives in milliseconds, look longer. */
const LONG_LIFE_MS = 365 * 86_400_000
const LONG_LIFE =
  'That is more than a year. If expires_in is a date, or in milliseconds, tokens are used long after their end: a program ' +
  'corrects that in its option fetch (docs/another-token-endpoint.md).'

const FLAGS = {
  call: { type: 'string' },
  ...HEADER_FLAGS,
  json: { type: 'boolean' },
} as const

export const checkCommand: Command = {
  help: `Usage: npx merchant-auth check [--call URL] [--store DIRECTORY] [--json] [flags]

Makes one token request, and reports what fails, why, and what to do. It prints
neither the secret nor the token. It cannot use the option fetch of a program.

  --call URL           send a GET request with the token to a URL of an API
  --header-name NAME   header that carries the token; default: Authorization
  --scheme SCHEME      scheme before the token; default: Bearer; --scheme= for none
  --store DIRECTORY    check the store, too: a directory, or redis://…; whether
                       it can be written, and what it holds for this client
  --json               print JSON: { ok, exitCode, warnings, steps }

${SETTINGS_HELP}

Exit codes: 0 passed, 2 command line, 3 options, 4 no response from the token
endpoint, 5 an error status, 6 no usable token, 7 the API call (docs/command.md)

Example:
  npx merchant-auth check --dotenv .env --call https://api.example.com/orders
`,

  async run(args, context) {
    const flags = parseFlags(args, { ...SETTINGS_FLAGS, ...FLAGS })
    const { call, json } = flags
    if (call !== undefined && !isPlainUrl(call))
      throw new UsageError('--call must be an absolute URL (https://…) without a user name and a password.')
    const header = readHeader(flags)
    const report = (json ? jsonReport : textReport)(context.stdout)
    try {
      const sources = await readSources(flags, { ...context, locate: inspectStore })
      const exitCode = await new Check(sources, report, context).run(call, header)
      context.signal.throwIfAborted()
      return report.end(exitCode)
    } catch (error) {
      if (context.signal.aborted) return EXIT.unexpected
      const diagnosis = diagnose(error, { unread: unreadDotenv('check', flags) })
      if (diagnosis?.exitCode !== EXIT.configuration) throw error
      report.add(diagnosis.finding)
      return report.end(diagnosis.exitCode)
    }
  },
}

/** The steps of one check. Those that the signal ends reject. */
class Check {
  readonly #sources: Sources
  readonly #report: Report
  readonly #context: CommandContext
  readonly #redactor = new Redactor()
  #acquired: TokenAcquiredEvent | undefined
  #quotas: readonly Quota[] = []

  constructor(sources: Sources, report: Report, context: CommandContext) {
    this.#sources = sources
    this.#report = report
    this.#context = context
    this.#redactor.secrets.add(sources.secret) // before any output: the secret may be in the wrong variable
  }

  /**
   * Resolves with the exit code.
   *
   * @throws ConfigurationError
   */
  async run(call: string | undefined, header: Header): Promise<number> {
    this.#reportDotenv()
    const options = optionsFrom(this.#sources)
    const shownCall = call === undefined ? '' : this.#redactor.show(shownUrl(call))
    this.#reportOptions(options)
    if (call !== undefined && destinationsOf(options.environment)(call).api === undefined) {
      const baseUrls = apisOf(options.environment).map((api) => this.#redactor.show(api.url))
      const withheld = { reason: 'destination', url: shownCall, header: header.header, baseUrls } as const
      const { because, change } = explanationOf(withheld)
      const text = `${shownCall} does not get the token: ${because}`
      this.#report.add({ step: 'call', result: 'failed', text, advice: change })
      return EXIT.call
    }
    await this.#reportStore(options)
    const tokens = createTokenProvider({
      ...options,
      retries: 0, // the check reports the first failure
      onEvent: (event) => {
        if (event.type === 'token-acquired') this.#acquired = event
        if ('quota' in event) this.#quotas = event.quota ?? []
      },
    })
    try {
      const exitCode = await this.#requestToken(tokens, options)
      if (exitCode !== EXIT.ok) return exitCode
      if (call === undefined) {
        this.#report.add(NOT_CALLED)
        return exitCode
      }
      const authFetch = createAuthFetch(tokens, { ...header, renewOnStatus: [] })
      const finding = await this.#callApi(call, { authFetch, timeoutMs: options.timeoutMs })
      this.#report.add({ ...finding, text: `GET ${shownCall} ${finding.text}` })
      return finding.result !== 'failed' ? EXIT.ok : EXIT.call
    } finally {
      await tokens.close()
    }
  }

  /** What the file of `--dotenv` may be the reason for, also if the options are invalid. */
  #reportDotenv(): void {
    const { dotenv, variables } = this.#sources
    if (dotenv === undefined) return
    const context = { env: this.#context.env, used: variables, show: this.#redactor.show }
    for (const warning of dotenvWarnings(dotenv, context))
      this.#report.add({ step: 'options', result: 'warning', ...warning })
  }

  #reportOptions(options: TokenProviderOptions): void {
    const { show } = this.#redactor
    const { secretFile } = this.#sources
    const { environment, clientId, tokenParameters = {} } = options
    const shown = (values: Readonly<Record<string, string>> | readonly string[]): [string, string][] =>
      Object.entries(values).map(([key, value]) => [show(key), show(value)])
    const areNamed = !Array.isArray(environment.apiUrls)
    const apis = shown(environment.apiUrls)
    const fields = shown(tokenParameters)
    const data = {
      tokenEndpoint: show(tokenEndpoint(environment)),
      audience: show(environment.audience),
      apiUrls: areNamed ? Object.fromEntries(apis) : apis.map(([, url]) => url),
      ...(fields.length > 0 && { tokenParameters: Object.fromEntries(fields) }),
      clientId: show(clientId),
      secretSource: secretFile === undefined ? 'MERCHANT_AUTH_CLIENT_SECRET' : `the file ${show(secretFile)}`,
    }
    const text = [
      `token endpoint\t${data.tokenEndpoint}`,
      `audience\t${data.audience}`,
      `API URLs\t${apis.map(([key, url]) => (areNamed ? `${url} (${key})` : url)).join('\n\t')}`,
      ...fields.map(([key, value]) => `parameter\t${key}=${value}`),
      `client ID\t${data.clientId}`,
      `${options.clientAssertion ? 'assertion' : 'client secret'}\tfrom ${data.secretSource}`,
    ].join('\n')
    this.#report.add({ step: 'options', result: 'ok', text, data })
    for (const remark of optionRemarks(options, this.#sources, show))
      this.#report.add({ step: 'options', ...remark })
  }

  /** The token of this check is not written to the store. */
  async #reportStore(options: TokenProviderOptions): Promise<void> {
    const { location, secret } = this.#sources
    if (location?.kind === undefined) return
    const { signal } = this.#context
    this.#report.add(await storeFinding(location, options, { secret, signal, show: this.#redactor.show }))
  }

  /** Requests a token, and reports every step up to it. Resolves with the exit code. */
  async #requestToken(tokens: TokenProvider, options: TokenProviderOptions): Promise<number> {
    const { env, signal } = this.#context
    const { environment } = tokens
    const { show, secrets } = this.#redactor
    const { connection, stop } = watchConnection(tokenEndpoint(environment), env, show)
    try {
      const token = await tokens.getToken({ signal })
      secrets.add(token.value)
      this.#reportSteps('token', environment.authUrl, connection)
      this.#reportToken(token, environment.audience)
      return EXIT.ok
    } catch (error) {
      const diagnosis = signal.aborted ? undefined : diagnose(error, { connection, options })
      if (diagnosis === undefined) throw error
      this.#reportSteps(diagnosis.finding.step, environment.authUrl, connection)
      this.#report.add(diagnosis.finding)
      this.#reportQuotas(diagnosis.finding.step)
      return diagnosis.exitCode
    } finally {
      stop()
    }
  }

  /** Reports the steps before the one that ended the token request, which all succeeded. */
  #reportSteps(end: Step, authUrl: string, { host, resolvedTo, socket, proxy }: Connection): void {
    const { protocol, hostname } = new URL(authUrl)
    const duration = this.#acquired ? ` in ${Math.round(this.#acquired.durationMs)} ms` : ''
    // A proxy resolves the name by itself.
    const hasName = isIP(hostname.replace(/^\[|\]$/g, '')) === 0 && proxy === undefined
    // Where TLS failed, nothing was sent: the name may lead to another host.
    const unsentTo = hasName && resolvedTo !== undefined ? `${host} (${resolvedTo})` : host
    const steps: [Step, string | undefined][] = [
      ['name', hasName ? this.#redactor.show(hostname) : undefined],
      ['connection', (socket?.address ?? unsentTo) + (socket && proxy ? ', a proxy' : '')],
      ['tls', protocol === 'https:' ? (socket?.tls ?? 'connected') : undefined],
      ['response', `success${duration}`],
      ['token', undefined],
    ]
    for (const [step, text] of steps) {
      if (step === end) return
      if (text !== undefined) this.#report.add({ step, result: 'ok', text })
    }
  }

  #reportToken(token: AccessToken, audience: string): void {
    const { show } = this.#redactor
    const { expiresAt } = token
    const lifetimeMs = this.#acquired?.lifetimeMs ?? expiresAt - Date.now()
    const scope = token.scope === undefined ? undefined : show(token.scope)
    const validity = `valid for ${Math.round(lifetimeMs / 1000)} s, until ${instantText(expiresAt / 1000)}`
    const text = `${validity}; ${scope === undefined ? 'no scope in the response' : `scope ${scope}`}`
    const data = { lifetimeMs, expiresAt, scope }
    if (lifetimeMs <= LONG_LIFE_MS) this.#report.add({ step: 'token', result: 'ok', text, data })
    else this.#report.add({ step: 'token', result: 'warning', text, advice: LONG_LIFE, data })
    this.#reportQuotas('token')
    for (const finding of jwtFindings(token, { audience, lifetimeMs, show })) this.#report.add(finding)
  }

  #reportQuotas(step: Step): void {
    for (const quota of this.#quotas) this.#report.add({ step, ...quotaFinding(quota) })
  }

  /** Calls the API once: a new token would be rejected for the same reason. */
  async #callApi(
    url: string,
    {
      authFetch,
      timeoutMs = 10_000,
    }: { readonly authFetch: typeof fetch; readonly timeoutMs?: number | undefined },
  ): Promise<Finding> {
    const { env, signal } = this.#context
    const { show, secrets } = this.#redactor
    const { connection, stop } = watchConnection(url, env, show)
    const timeout = AbortSignal.timeout(timeoutMs)
    const either = AbortSignal.any([signal, timeout])
    const startedAt = performance.now()
    try {
      const response = await authFetch(url, { redirect: 'manual', signal: either })
      const ms = Math.round(performance.now() - startedAt)
      const said = response.status < 400 ? {} : await readOAuthError(response, secrets).catch(() => ({}))
      if (!response.bodyUsed) await response.body?.cancel()
      return explainResponse(response, ms, { said, show })
    } catch (error) {
      if (signal.aborted) throw error
      const failure = redactedCause(error, secrets) ?? new Error('unknown')
      const finding = timeout.aborted ? diagnoseTimeout(connection) : diagnoseNetwork(failure, connection)
      return { ...finding, text: `failed: ${finding.text}`, step: 'call', result: 'failed' }
    } finally {
      stop()
    }
  }
}

/** What the response of an API means. */
function explainResponse(
  { status, ok, headers, url }: Response,
  ms: number,
  { said, show }: { readonly said: OAuthError } & Pick<Redactor, 'show'>,
): Finding {
  const words = [said.error, said.errorDescription, said.detail].filter((part) => part !== undefined)
  const text = [`returned ${status} in ${ms} ms`, ...words].join(': ')
  if (ok && /^text\/html\b/i.test(headers.get('content-type') ?? ''))
    return { step: 'call', result: 'warning', text: `${text}, as text/html`, advice: WEB_PAGE, status }
  if (ok) return { step: 'call', result: 'ok', text, status }
  const failed = { step: 'call', result: 'failed', status } as const
  if (status < 400) {
    const location = headers.get('location') ?? ''
    const target = parseUrl(location, url)
    const to = target === undefined ? '' : ` to ${show(target.origin)}`
    return { ...failed, text: `${text}, a redirect${to}`, advice: 'It was not followed. Check the URL.' }
  }
  const challenge = headers.get('www-authenticate')
  const retryAfter = headers.get('retry-after')
  let detail = retryAfter === null ? '' : `, Retry-After: ${show(retryAfter)}`
  if (challenge !== null) detail += `\n${show(challenge)}`
  const advice = CALL_ADVICE[status] ?? (status >= 500 ? API_FAILS : CHECK_URL)
  return { ...failed, text: text + detail, advice }
}

const NOT_CALLED: Finding = {
  step: 'call',
  result: 'info',
  text: 'no API was called: --call URL tests whether one accepts the token',
}

const UNKNOWN = 'This response does not show whether the API accepts the token.'
const WEB_PAGE =
  'Unless the API labels its JSON so, it comes from a web site, a login or a firewall: check the URL.'
const API_FAILS = `The API itself fails, unless its text is about the token. ${UNKNOWN} Try again later.`
const CHECK_URL =
  'Unless its text is about the token: check the URL, and whether it supports GET. Some APIs return 404 for what a client ' +
  `may not see. ${UNKNOWN}`
const CALL_ADVICE: Readonly<Record<number, string>> = {
  401:
    'The API rejects the token, or this call alone: a store, an order or a permission that the account does not have. ' +
    'Try a URL that works for every account. If that is rejected, too, check that the audience and the API URL belong ' +
    "to the same environment and region, and look up in the service's documentation which header carries the token " +
    '(--header-name, --scheme), and whether it wants a further key, which this command does not send. Some APIs know a ' +
    'token only seconds after it was issued. Otherwise ask the service why it rejects the token.',
  403:
    'The API, or a firewall in front of it, does not allow this request. Check the URL. The client may lack a permission, a ' +
    'scope or a product, the API may want a further key, which this command does not send, the token is for another ' +
    'audience or environment, or the URL names a store of another client: check MERCHANT_AUTH_AUDIENCE and ' +
    '--token-parameter scope=…, and ask the service. Once it has granted it, replace the token of running processes ' +
    '(docs/production.md).',
  429: 'Too many calls were made. Try again later.',
  431:
    'The headers are too long for the API, or for a gateway in front of it: the token is, if it has many permissions. Ask the ' +
    'service for fewer, or for a higher limit.',
}

function isPlainUrl(text: string): boolean {
  const url = parseUrl(text)
  return url !== undefined && url.username === '' && url.password === ''
}

/** What is left of a quota for token requests. */
function quotaFinding(quota: Quota): Omit<Finding, 'step'> {
  const { scope, name, limit, remaining, resetsInMs } = quota
  const isLow = isReserved(quota)
  const whose = scope === 'organization' ? ' for the organization' : ''
  return {
    result: isLow ? 'warning' : 'ok',
    text: `${leftInText(quota)}${whose} (${name})`,
    ...(isLow && {
      advice: 'Each check is a token request, too. Share one token between processes (docs/stores.md).',
    }),
    data: { scope, name, limit, remaining, resetsInMs },
  }
}
