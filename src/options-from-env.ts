/** A provider's options from environment variables. */
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { Environment } from './environments.ts'
import { ConfigurationError, type Problem } from './errors.ts'
import { similarName } from './names.ts'
import {
  type ResolvedOptions,
  resolveOptions,
  type TokenProviderOptions,
  type WithClientAssertion,
  type WithClientSecret,
} from './options.ts'

const WHAT = 'The environment variables cannot be used'

const URL_VARIABLE = 'MERCHANT_AUTH_URL'
const AUDIENCE = 'MERCHANT_AUTH_AUDIENCE'
const API_URLS = 'MERCHANT_AUTH_API_URLS'
const CLIENT_ID = 'MERCHANT_AUTH_CLIENT_ID'
/** The client proves its identity by one of them. */
export const CREDENTIALS = [
  'MERCHANT_AUTH_CLIENT_SECRET',
  'MERCHANT_AUTH_CLIENT_SECRET_FILE',
  'MERCHANT_AUTH_CLIENT_ASSERTION_FILE',
] as const
const [CLIENT_SECRET, CLIENT_SECRET_FILE, CLIENT_ASSERTION_FILE] = CREDENTIALS
const TOKEN_PARAMETERS = 'MERCHANT_AUTH_TOKEN_PARAMETERS'
const DURATIONS = {
  timeoutMs: 'MERCHANT_AUTH_TIMEOUT_MS',
  refreshAheadMs: 'MERCHANT_AUTH_REFRESH_AHEAD_MS',
  expiryMarginMs: 'MERCHANT_AUTH_EXPIRY_MARGIN_MS',
} as const

/** The variable that sets each option. */
const VARIABLES: Readonly<Record<string, string>> = {
  ...DURATIONS,
  clientId: CLIENT_ID,
  clientSecret: CLIENT_SECRET,
  tokenParameters: TOKEN_PARAMETERS,
  'environment.authUrl': URL_VARIABLE,
  'environment.audience': AUDIENCE,
  'environment.apiUrls': API_URLS,
}

/**
 * Options from environment variables. The type assumes that `MERCHANT_AUTH_API_URLS` names the two APIs `merchant` and
 * `inStore`. A name that it does not contain is undefined at run time; base URLs without names are read by index.
 */
export type OptionsFromEnv<Name extends string = 'merchant' | 'inStore'> = TokenProviderOptions & {
  /** The environment. */
  readonly environment: {
    /** The base URLs of the APIs, by name. */
    readonly apiUrls: Readonly<Record<Name, string>> & Readonly<Record<string, string>>
  }
}

/** The variables that are read. */
export const VARIABLE_NAMES: readonly string[] = [
  ...Object.values(VARIABLES),
  CLIENT_SECRET_FILE,
  CLIENT_ASSERTION_FILE,
]

/** Environment variables by name; undefined if one is not set. */
type Variables = Readonly<Record<string, string | undefined>>

/**
 * Reads the options of a provider from environment variables. An empty variable counts as unset.
 *
 * - `MERCHANT_AUTH_URL`, `MERCHANT_AUTH_AUDIENCE`, `MERCHANT_AUTH_API_URLS`: the environment. The base URLs of the APIs are
 *   separated by commas: `merchant=https://…,inStore=https://…`, or without names
 * - `MERCHANT_AUTH_CLIENT_ID`
 * - `MERCHANT_AUTH_CLIENT_SECRET`, or `MERCHANT_AUTH_CLIENT_SECRET_FILE`: a file that contains the secret. It is read
 *   before every token request, so that a new secret needs no restart. A byte order mark and trailing line
 *   breaks are removed.
 * - `MERCHANT_AUTH_CLIENT_ASSERTION_FILE`: instead of a secret, a file that contains a signed JWT, such as a projected
 *   token of Kubernetes. It is read before every attempt.
 * - `MERCHANT_AUTH_TOKEN_PARAMETERS`: `tokenParameters` as `name=value,…`, for values without commas
 * - `MERCHANT_AUTH_TIMEOUT_MS`, `MERCHANT_AUTH_REFRESH_AHEAD_MS`, `MERCHANT_AUTH_EXPIRY_MARGIN_MS`: the options with these
 *   names
 *
 * The inspect and JSON output of the result does not contain the secret. Its `environment.apiUrls` has the base URLs by
 * name, or by index if they have no names.
 *
 * @param env the variables by name; by default those of the process
 * @param options `apis`: the names that `MERCHANT_AUTH_API_URLS` must contain
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every problem, each with the variable's name
 * @example
 * const tokens = createTokenProvider({ ...optionsFromEnv(), onEvent: (event) => console.log(event.type) })
 */
export function optionsFromEnv<const Name extends string = 'merchant' | 'inStore'>(
  env: Variables = process.env,
  { apis = [] }: { readonly apis?: readonly Name[] | undefined } = {},
): OptionsFromEnv<Name> {
  const problems: Problem[] = []
  const read = (name: string): string | undefined => env[name]?.trim() || undefined
  const options = {
    environment: {
      authUrl: read(URL_VARIABLE) ?? '',
      audience: read(AUDIENCE) ?? '',
      apiUrls: apiUrlsFrom(read(API_URLS) ?? '', problems),
    },
    clientId: read(CLIENT_ID) ?? '',
    ...credentialFrom(env, problems),
    ...parametersFrom(read(TOKEN_PARAMETERS), problems),
    ...durationsFrom(read, problems),
  }
  const missing =
    read(API_URLS) === undefined ? [] : apis.filter((name) => !(name in options.environment.apiUrls))
  problems.push(
    ...missing.map((name) => ({ option: API_URLS, reason: `must name the API ${name}: ${name}=https://…` })),
  )
  const resolved = resolvedFrom(options, read)
  if (Array.isArray(resolved)) problems.push(...resolved)
  if (Array.isArray(resolved) || problems.length > 0)
    throw new ConfigurationError(WHAT, withSpelling(problems, env))
  return { ...options, environment: resolved.environment as OptionsFromEnv<Name>['environment'] }
}

/** The problems, with a note on a set variable whose name is almost that of a missing one. */
function withSpelling(problems: readonly Problem[], env: Variables): Problem[] {
  const unknown = Object.keys(env).filter(
    (name) => name.startsWith('MERCHANT_AUTH_') && !VARIABLE_NAMES.includes(name),
  )
  return problems.map(({ option, reason }) => {
    if (!reason.startsWith('is not set')) return { option, reason }
    const names = option === CLIENT_SECRET ? CREDENTIALS : [option]
    const similar = names
      .flatMap((name) => [name, name.replace('CLIENT_', '')])
      .map((name) => similarName(name, unknown))
      .find((name) => name !== undefined)
    return {
      option,
      reason: similar === undefined ? reason : `${reason}, but ${similar} is: check its spelling`,
    }
  })
}

/** The parts of a text that are separated by commas. */
function partsOf(text: string): string[] {
  return text.split(',').flatMap((part) => part.trim() || [])
}

/** Base URLs by name, or as a list if none has a name. */
function apiUrlsFrom(text: string, problems: Problem[]): Environment['apiUrls'] {
  if (/;\s*(?:[\w.-]+\s*=|https?:)/.test(text))
    problems.push({ option: API_URLS, reason: 'must separate the base URLs by commas, not by semicolons' })
  const parts = partsOf(text)
  const entries = parts.map((part) => /^([\w.-]+)\s*=\s*(.*)$/s.exec(part)?.slice(1) ?? [])
  if (entries.every(([name]) => name === undefined)) return parts
  const names = new Set(entries.map(([name]) => name))
  if (names.has(undefined) || names.size < entries.length)
    problems.push({ option: API_URLS, reason: 'must give each base URL a name of its own, or none a name' })
  return Object.fromEntries(entries.filter(([name]) => name !== undefined))
}

/** Always a function, because inspect would show a string. */
function credentialFrom(env: Variables, problems: Problem[]): WithClientSecret | WithClientAssertion {
  const [first, second] = CREDENTIALS.filter((name) => env[name]?.trim())
  if (second !== undefined)
    problems.push({ option: second, reason: `must not be set together with ${first}` })
  if (first === undefined) {
    const reason = `is not set, and neither is ${CLIENT_SECRET_FILE} or ${CLIENT_ASSERTION_FILE}`
    problems.push({ option: CLIENT_SECRET, reason })
  }
  if (first === undefined || first === CLIENT_SECRET) {
    const secret = env[CLIENT_SECRET] ?? ''
    return { clientSecret: () => secret }
  }
  const file = env[first]?.trim() ?? ''
  const problem = fileProblem(file)
  if (problem !== undefined) problems.push({ option: first, reason: problem })
  const content = async (): Promise<string> => withoutLineEnd(await readFile(file, 'utf8'))
  return first === CLIENT_SECRET_FILE ? { clientSecret: content } : { clientAssertion: content }
}

function fileProblem(file: string): string | undefined {
  try {
    const text = withoutLineEnd(readFileSync(file, 'utf8'))
    if (text.includes('\0')) return 'names a file in UTF-16, as PowerShell 5 writes it: write it in UTF-8'
    return text === '' ? 'names an empty file' : undefined
  } catch (error) {
    return `names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`
  }
}

/** The text of a file, without a byte order mark and trailing line breaks. */
export function withoutLineEnd(text: string): string {
  return text.replace(/^\uFEFF|[\r\n]+$/g, '')
}

/** `name=value,…` */
function parametersFrom(
  text: string | undefined,
  problems: Problem[],
): Pick<TokenProviderOptions, 'tokenParameters'> {
  if (text === undefined) return {}
  const entries = partsOf(text).map((part) => /^([^=\s]+)\s*=\s*(.*)$/s.exec(part)?.slice(1) ?? [])
  const names = new Set(entries.map(([name]) => name))
  if (names.has(undefined)) problems.push({ option: TOKEN_PARAMETERS, reason: 'must be name=value,…' })
  else if (names.size < entries.length)
    problems.push({ option: TOKEN_PARAMETERS, reason: 'must name each field once' })
  return { tokenParameters: Object.fromEntries(entries.filter(([name]) => name !== undefined)) }
}

function durationsFrom(
  read: (name: string) => string | undefined,
  problems: Problem[],
): Partial<Record<keyof typeof DURATIONS, number>> {
  const durations: Partial<Record<keyof typeof DURATIONS, number>> = {}
  for (const option of Object.keys(DURATIONS) as (keyof typeof DURATIONS)[]) {
    const text = read(DURATIONS[option])
    if (text === undefined) continue
    if (/^\d+(?:\.\d+)?$/.test(text)) durations[option] = Number(text)
    else problems.push({ option: DURATIONS[option], reason: 'must be a number of milliseconds' })
  }
  return durations
}

/** The options as a provider resolves them, or the problems that it finds, each with the variable's name. */
function resolvedFrom(
  options: TokenProviderOptions,
  read: (name: string) => string | undefined,
): ResolvedOptions | Problem[] {
  try {
    return resolveOptions(options)
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    return error.problems.map(({ option, reason }) => {
      const [, path = option, place = ''] =
        /^(environment\.apiUrls|tokenParameters|[^[]*)(.*)$/.exec(option) ?? []
      const variable = VARIABLES[path] ?? option
      // No variable sets allowInsecureRequests.
      const explained = reason.replace(', or with allowInsecureRequests: true', '')
      return { option: variable + place, reason: read(variable) === undefined ? 'is not set' : explained }
    })
  }
}
