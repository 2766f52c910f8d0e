/** `merchant-auth check`: the configuration, a token request, and an API call, step by step. */
import { createHash } from 'node:crypto'
import { isIP } from 'node:net'
import { FINDINGS } from '../advice/findings.ts'
import { createAuthFetch } from '../attach/fetch.ts'
import { isReserved, leftInText, type Quota } from '../base/quota.ts'
import { shownUrl } from '../base/redact.ts'
import { parseUrl } from '../base/urls.ts'
import { destinationsOf } from '../environment/destinations.ts'
import { apisOf, tokenEndpoint } from '../environment/environment.ts'
import type { TokenAcquiredEvent } from '../events/events.ts'
import { explanationOf } from '../events/warnings.ts'
import type { TokenProviderOptions } from '../options/options.ts'
import { createTokenProvider } from '../token/client-credentials-provider.ts'
import type { TokenProvider } from '../token/provider.ts'
import type { AccessToken } from '../token/request/access-token.ts'
import { checkCalls } from './check-call.ts'
import { jwtFindings } from './check-jwt.ts'
import { inspectStore, storeFinding } from './check-store.ts'
import { type Command, type CommandContext, EXIT, parseFlags, UsageError } from './command.ts'
import { type Connection, watchConnection } from './connection.ts'
import { diagnose, told } from './diagnosis.ts'
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
  unresolvedReferences,
} from './settings.ts'
import { instantText, Redactor } from './terminal.ts'

/** Of a shorter secret, a part of its hash in a pasted report would let anybody test guesses. */
const LEAST_HASHED = 20

/** What two machines are compared by: whether both have the same secret. */
function fingerprintOf(secret: string): { readonly secretLength: number; readonly secretSha256?: string } {
  if (secret.length < LEAST_HASHED) return { secretLength: secret.length }
  const secretSha256 = createHash('sha256').update(secret).digest('hex').slice(0, 8)
  return { secretLength: secret.length, secretSha256 }
}

/** A year. A date, and most lives in milliseconds, look longer. */
const LONG_LIFE_MS = 365 * 86_400_000

const FLAGS = {
  ...SETTINGS_FLAGS,
  call: { type: 'string', multiple: true },
  ...HEADER_FLAGS,
  json: { type: 'boolean' },
} as const

export const checkCommand: Command = {
  flags: FLAGS,
  help: `Usage: npx merchant-auth check [--call URL] [--store DIRECTORY] [--json] [flags]

Makes one token request, and reports what fails, why, and what to do. It prints
neither the secret nor the token. It cannot use the option fetch of a program.

  --call URL           GET a URL of an API with the token; --call GOOD --call
                       BAD: is the 401 of BAD about the call or the token?
  --header-name NAME   header that carries the token; default: Authorization
  --scheme SCHEME      scheme before the token; default: Bearer; none: --scheme=
  --store DIRECTORY    check the store, too: a directory, or redis://…
  --json               print JSON: { ok, exitCode, warnings, steps }

${SETTINGS_HELP}

Exit codes:
  0  passed, perhaps with warnings
  1  unexpected failure
  2  invalid command line
  3  missing or invalid options, or a secret that cannot be read
  4  no response from the token endpoint: name, connection, TLS, timeout
  5  an error status or a redirect from the token endpoint
  6  no usable token in its response
  7  the API call failed, or its URL is not below an API URL
  8  token --refresh: the store still has the old token
  129, 130, 143  ended by SIGHUP, Ctrl-C or SIGTERM
  141  the reader of the output ended

Example:
  npx merchant-auth check --dotenv .env --call https://api.example.com/orders
`,

  async run(args, context) {
    const flags = parseFlags(args, FLAGS)
    const { call: calls = [], json } = flags
    if (calls.length > 2) throw new UsageError('--call can be given twice: --call GOOD --call BAD')
    if (!calls.every(isPlainUrl))
      throw new UsageError('--call must be an absolute URL (https://…) without a user name and a password.')
    const header = readHeader(flags)
    const report = (json ? jsonReport : textReport)(context.stdout)
    try {
      const sources = await readSources(flags, { ...context, locate: inspectStore })
      const exitCode = await new Check(sources, report, context).run(calls, header)
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
  async run(calls: readonly string[], header: Header): Promise<number> {
    this.#reportDotenv()
    this.#reportReferences()
    const options = optionsFrom(this.#sources)
    this.#reportOptions(options)
    const destinations = destinationsOf(options.environment)
    const outside = calls.find((url) => destinations(url).api === undefined)
    if (outside !== undefined) {
      const shownCall = this.#redactor.show(shownUrl(outside))
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
      if (calls.length === 0) {
        this.#report.add(NOT_CALLED)
        return exitCode
      }
      const authFetch = createAuthFetch(tokens, { ...header, renewOnStatus: [] })
      const { timeoutMs } = options
      const [report, redactor] = [this.#report, this.#redactor]
      const context = { ...this.#context, authFetch, timeoutMs, destinations, redactor, report }
      return (await checkCalls(calls, context)) ? EXIT.ok : EXIT.call
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

  /** Also if the options are invalid, as such a reference is where a URL must be. */
  #reportReferences(): void {
    const { advice } = FINDINGS['unresolved-reference']
    for (const [source, reference] of unresolvedReferences(this.#sources)) {
      const text = `${this.#redactor.show(source)} is a reference to a vault (${reference}) that nobody resolved`
      this.#report.add({ step: 'options', result: 'warning', text, advice })
    }
  }

  #reportOptions(options: TokenProviderOptions): void {
    const { show } = this.#redactor
    const { secret, secretFile } = this.#sources
    const { environment, clientId, tokenParameters = {}, bodyFormat, tokenEndpointAuthMethod } = options
    const shown = (values: Readonly<Record<string, string>> | readonly string[]): [string, string][] =>
      Object.entries(values).map(([key, value]) => [show(key), show(value)])
    const areNamed = !Array.isArray(environment.apiUrls)
    const apis = shown(environment.apiUrls)
    const fields = shown(tokenParameters)
    const data = {
      tokenEndpoint: show(tokenEndpoint(environment)),
      audience: environment.audience && show(environment.audience),
      apiUrls: areNamed ? Object.fromEntries(apis) : apis.map(([, url]) => url),
      ...(bodyFormat && { bodyFormat }),
      ...(tokenEndpointAuthMethod && { tokenEndpointAuthMethod }),
      ...(fields.length > 0 && { tokenParameters: Object.fromEntries(fields) }),
      clientId: show(clientId),
      secretSource: secretFile === undefined ? 'MERCHANT_AUTH_CLIENT_SECRET' : `the file ${show(secretFile)}`,
      ...(options.clientAssertion === undefined && fingerprintOf(secret)),
    }
    const ways = [bodyFormat, tokenEndpointAuthMethod].filter((way) => way !== undefined)
    const { secretLength, secretSha256 } = data
    const length = secretLength === undefined ? '' : `, ${secretLength} characters`
    const hash = secretSha256 === undefined ? '' : `, SHA-256 ${secretSha256}…`
    const text = [
      `token endpoint\t${data.tokenEndpoint}`,
      ...(ways.length > 0 ? [`sent as\t${ways.join(', ')}`] : []),
      `audience\t${data.audience ?? '(none)'}`,
      `API URLs\t${apis.map(([key, url]) => (areNamed ? `${url} (${key})` : url)).join('\n\t')}`,
      ...fields.map(([key, value]) => `parameter\t${key}=${value}`),
      `client ID\t${data.clientId}`,
      `${options.clientAssertion ? 'assertion' : 'client secret'}\tfrom ${data.secretSource}${length}${hash}`,
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

  #reportToken(token: AccessToken, audience: string | undefined): void {
    const { show } = this.#redactor
    const { expiresAt } = token
    const lifetimeMs = this.#acquired?.lifetimeMs ?? expiresAt - Date.now()
    const scope = token.scope === undefined ? undefined : show(token.scope)
    const validity = `valid for ${Math.round(lifetimeMs / 1000)} s, until ${instantText(expiresAt / 1000)}`
    const text = `${validity}; ${scope === undefined ? 'no scope in the response' : `scope ${scope}`}`
    const data = { lifetimeMs, expiresAt, scope }
    if (lifetimeMs <= LONG_LIFE_MS) this.#report.add({ step: 'token', result: 'ok', text, data })
    else
      this.#report.add({ step: 'token', result: 'warning', text, advice: told(FINDINGS['long-life']), data })
    this.#reportQuotas('token')
    for (const finding of jwtFindings(token, { audience, lifetimeMs, show })) this.#report.add(finding)
  }

  #reportQuotas(step: Step): void {
    for (const quota of this.#quotas) this.#report.add({ step, ...quotaFinding(quota) })
  }
}

const NOT_CALLED: Finding = {
  step: 'call',
  result: 'info',
  text: 'no API was called: --call URL tests whether one accepts the token',
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
    ...(isLow && FINDINGS['low-quota']),
    data: { scope, name, limit, remaining, resetsInMs },
  }
}
