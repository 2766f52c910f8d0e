/** `merchant-auth check`: is this set up right? Every step from the options to an API call, and what to do. */
import { isIP } from 'node:net'
import { hasUserInfo } from '../destinations.ts'
import { tokenEndpoint } from '../environments.ts'
import type { AuthEvent, TokenAcquiredEvent } from '../events.ts'
import type { AccessToken } from '../token/access-token.ts'
import { createTokenProvider, type TokenProvider } from '../token/provider.ts'
import { readArguments, UsageError } from './arguments.ts'
import { callApi, callProblem } from './check-call.ts'
import { jwtFindings } from './check-jwt.ts'
import { type ConnectionFacts, type WatchedConnection, watchConnection } from './connection.ts'
import { type Diagnosis, diagnose, STEPS } from './diagnosis.ts'
import { Hiding } from './hiding.ts'
import { jsonReport, type Report, textReport } from './report.ts'
import {
  HEADER_FLAGS,
  type Header,
  readHeader,
  readSettings,
  SETTINGS_FLAGS,
  SETTINGS_HELP,
  type Settings,
} from './settings.ts'
import { type Command, EXIT, type Surroundings } from './terminal.ts'

const FLAGS = {
  ...SETTINGS_FLAGS,
  ...HEADER_FLAGS,
  call: { type: 'string' },
  json: { type: 'boolean' },
} as const

export const checkCommand: Command = {
  summary: 'tells whether all is set up right, step by step, and what to do where it is not',
  help: `Tells whether all is set up right, step by step, and what to do where it is not: the options, the token
request (name, connection, TLS, answer), the token, and one API call, if you like. It makes one token
request, without retries. Neither the secret nor the token is printed.

Usage: merchant-auth check [--call URL] [--json] [flags]

  --call URL          makes a GET request with the token, and says what the API answers. The URL must lie
                      below one of the API URLs. No redirect is followed, and no body is printed.
  --header-name NAME  the header that carries the token (Authorization)
  --scheme SCHEME     what stands before the token in it (Bearer); '' for the bare token
  --json              one JSON object instead of lines: { ok, exitCode, warnings, steps }

${SETTINGS_HELP}

Exit codes:
  0  all good, or good with warnings            5  the token endpoint refused: error status, redirect
  1  something that should not happen           6  the token endpoint answered, but with no token
  2  the command line makes no sense            7  the API call failed, or its URL is none of an API
  3  options are missing or wrong               129, 130, 143  ended by SIGHUP, Ctrl-C, SIGTERM
  4  the token endpoint was not reached: name,  141  the reader of the output left
     connection, TLS, time-out

Examples:
  merchant-auth check --dotenv .env
  merchant-auth check --call https://api.example.com/merchant/orders
  merchant-auth check --json | jq '.steps[] | select(.result != "ok")'
`,

  async run(args, surroundings) {
    const { json, call, ...values } = readArguments(args, FLAGS)
    if (call !== undefined && !isCallable(call)) {
      throw new UsageError('--call must be an absolute URL, without a user name and a password.')
    }
    const { stdout } = surroundings
    const header = readHeader(values)
    const report = json === true ? jsonReport(stdout) : textReport(stdout)
    const hiding = new Hiding()
    try {
      const settings = await readSettings(values, surroundings)
      await reportOptions(report, hiding, settings)
      const wrong = call === undefined ? undefined : callProblem(call, settings.options.environment, hiding)
      if (wrong !== undefined) {
        report.add(wrong)
        return report.end(EXIT.call)
      }
      const exitCode = await new Check(report, hiding, { settings, surroundings }).run(call, header)
      if (!surroundings.signal.aborted) return report.end(exitCode)
      report.stop()
      return EXIT.unexpected
    } catch (error) {
      report.stop()
      if (surroundings.signal.aborted) return EXIT.unexpected
      const diagnosis = diagnose(error, { host: '', connected: false })
      if (diagnosis?.step !== 'options') throw error
      return report.end(failed(report, diagnosis))
    }
  },
}

function isCallable(url: string): boolean {
  return URL.canParse(url) && !hasUserInfo(url)
}

function failed(report: Report, { exitCode, ...finding }: Diagnosis): number {
  report.add({ ...finding, result: 'failed' })
  return exitCode
}

async function reportOptions(
  report: Report,
  { secrets, shown }: Hiding,
  { options, secretFile }: Settings,
): Promise<void> {
  const secret =
    typeof options.clientSecret === 'string' ? options.clientSecret : await options.clientSecret()
  secrets.add(secret) // before anything is said: it may stand in a wrong place
  const { environment } = options
  const data = {
    tokenEndpoint: shown(tokenEndpoint(environment)),
    audience: shown(environment.audience),
    apiUrls: environment.apiUrls.map(shown),
    clientId: shown(options.clientId),
    secretSource: secretFile === undefined ? 'MERCHANT_AUTH_CLIENT_SECRET' : `the file ${shown(secretFile)}`,
  }
  report.add({
    step: 'options',
    result: 'ok',
    text: [
      `token endpoint ${data.tokenEndpoint}`,
      `audience       ${data.audience}`,
      ...data.apiUrls.map((url, index) => `${index === 0 ? 'API URLs' : '        '}       ${url}`),
      `client id      ${data.clientId}`,
      `client secret  from ${data.secretSource}`,
    ].join('\n'),
    data,
  })
  if (/^["'\s]|["'\s]$/.test(secret)) {
    report.add({
      step: 'options',
      result: 'warning',
      text: 'the client secret begins or ends with a blank or a quote',
      advice: 'If that is no part of it, take it out.',
    })
  }
}

/** The token request, and what comes after it. */
class Check {
  readonly #report: Report
  readonly #hiding: Hiding
  readonly #settings: Settings
  readonly #surroundings: Surroundings
  readonly #host: string
  #acquired: TokenAcquiredEvent | undefined

  constructor(
    report: Report,
    hiding: Hiding,
    { settings, surroundings }: { readonly settings: Settings; readonly surroundings: Surroundings },
  ) {
    this.#report = report
    this.#hiding = hiding
    this.#settings = settings
    this.#surroundings = surroundings
    this.#host = hiding.shown(new URL(settings.options.environment.authUrl).host)
  }

  /** Resolves with the exit code. */
  async run(call: string | undefined, header: Header): Promise<number> {
    const { options } = this.#settings
    const tokens = createTokenProvider({
      ...options,
      retries: 0, // what is wrong now is what is asked for
      onEvent: (event) => this.#note(event),
    })
    try {
      const token = await this.#token(tokens)
      if (typeof token === 'number') return token
      const lifetimeMs = this.#lifetimeMs(token)
      const foreign = this.#hiding.shown
      for (const finding of jwtFindings(token, { ...options, lifetimeMs, foreign })) this.#report.add(finding)
      if (call === undefined) return EXIT.ok
      const timeoutMs = options.timeoutMs ?? 10_000
      const [report, hiding] = [this.#report, this.#hiding]
      return await callApi({ url: call, tokens, header, timeoutMs, report, hiding }, this.#surroundings)
    } finally {
      await tokens.close()
    }
  }

  #note(event: AuthEvent): void {
    if (event.type === 'token-acquired') this.#acquired = event
  }

  /** The token, or the exit code. */
  async #token(tokens: TokenProvider): Promise<AccessToken | number> {
    const { env, signal } = this.#surroundings
    const connection = watchConnection(tokenEndpoint(tokens.environment), env, this.#hiding.shown)
    this.#report.pending(`asking ${this.#host} for a token`)
    try {
      const token = await tokens.getToken({ signal })
      this.#hiding.secrets.add(token.value)
      this.#reportSteps('token', connection)
      this.#reportToken(token)
      return token
    } catch (error) {
      if (signal.aborted) return EXIT.unexpected
      const diagnosis = diagnose(error, connection.context())
      if (diagnosis === undefined) throw error
      this.#reportSteps(diagnosis.step, connection)
      return failed(this.#report, diagnosis)
    } finally {
      connection.stop()
    }
  }

  /** The steps that were good, up to the one that was not. */
  #reportSteps(end: Diagnosis['step'], connection: WatchedConnection): void {
    const { shown } = this.#hiding
    const facts = connection.facts()
    const { protocol, hostname } = new URL(this.#settings.options.environment.authUrl)
    const isAddress = isIP(hostname.replace(/^\[|\]$/g, '')) !== 0
    // A proxy looks up the name by itself.
    const hasName = !isAddress && connection.context().proxy === undefined
    const proxy = facts?.proxy === undefined ? '' : ', a proxy'
    const duration = this.#acquired ? ` in ${Math.round(this.#acquired.durationMs)} ms` : ''
    const texts: Partial<Record<Diagnosis['step'], string>> = {
      ...(hasName ? { name: shown(hostname) } : {}),
      connection: (facts === undefined ? this.#host : shown(facts.address)) + proxy,
      ...(protocol === 'https:' ? { tls: tlsText(facts) } : {}),
      answer: `a success${duration}`,
    }
    for (const step of STEPS.slice(1, STEPS.indexOf(end))) {
      const text = texts[step]
      if (text !== undefined) this.#report.add({ step, result: 'ok', text })
    }
  }

  #lifetimeMs(token: AccessToken): number {
    return this.#acquired?.lifetimeMs ?? token.expiresAt - Date.now()
  }

  #reportToken(token: AccessToken): void {
    const { expiresAt } = token
    const scope = token.scope === undefined ? undefined : this.#hiding.shown(token.scope)
    const lifetimeMs = this.#lifetimeMs(token)
    const until = new Date(expiresAt).toISOString()
    this.#report.add({
      step: 'token',
      result: 'ok',
      text: `lives ${durationText(lifetimeMs)}, until ${until}; ${scope === undefined ? 'no scope was stated' : `scope ${scope}`}`,
      data: { lifetimeMs, expiresAt, ...(scope === undefined ? {} : { scope }) },
    })
  }
}

function tlsText(facts: ConnectionFacts | undefined): string {
  if (facts?.tls === undefined) return 'good'
  const end = facts.certificateEndsAt
  return `${facts.tls}${end === undefined ? '' : `, certificate until ${new Date(end).toISOString().slice(0, 10)}`}`
}

/** `3600 s (1 h)` */
function durationText(ms: number): string {
  const seconds = Math.round(ms / 1000)
  if (seconds < 120) return `${seconds} s`
  const [amount, unit] =
    seconds < 3600
      ? [seconds / 60, 'min']
      : seconds < 172_800
        ? [seconds / 3600, 'h']
        : [seconds / 86_400, 'days']
  return `${seconds} s (${Math.round(amount * 10) / 10} ${unit})`
}
