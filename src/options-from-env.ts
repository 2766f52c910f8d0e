/** A provider's options from environment variables. */
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { keysOf, propertyOf } from './checks.ts'
import { ConfigurationError, type Problem } from './errors.ts'
import { similarName } from './names.ts'
import { resolveOptions, type TokenProviderOptions } from './options.ts'

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
export type OptionsFromEnv = TokenProviderOptions & {
  /** The environment. */
  readonly environment: {
    /** The base URLs of the APIs, by name. */
    readonly apiUrls: Readonly<Record<'merchant' | 'inStore', string>> & Readonly<Record<string, string>>
  }
}

type NamedApiUrls = OptionsFromEnv['environment']['apiUrls']

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
 *   before every token request, so that a new secret needs no restart. Trailing line breaks are removed.
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
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every problem, each with the variable's name
 * @example
 * const tokens = createTokenProvider({ ...optionsFromEnv(), onEvent: (event) => console.log(event.type) })
 */
export function optionsFromEnv(
  env: Readonly<Record<string, string | undefined>> = process.env,
): OptionsFromEnv {
  const problems: Problem[] = []
  const variables = variablesOf(env, problems)
  const read = (name: string): string | undefined => variables[name]?.trim() || undefined
  const options: OptionsFromEnv = {
    environment: {
      authUrl: read(URL_VARIABLE) ?? '',
      audience: read(AUDIENCE) ?? '',
      apiUrls: apiUrlsFrom(read(API_URLS) ?? '', problems),
    },
    clientId: read(CLIENT_ID) ?? '',
    ...credentialFrom(variables, problems),
    ...parametersFrom(read(TOKEN_PARAMETERS), problems),
    ...durationsFrom(read, problems),
  }
  problems.push(...problemsIn(options, read))
  // A variable that is not a string has only that problem.
  const first = problems.filter(({ option }, n) => problems.findIndex((p) => p.option === option) === n)
  if (first.length > 0) throw new ConfigurationError(WHAT, withSpelling(first, env))
  return options
}

/** The variables that this file reads. One that is not a string is a problem, and counts as unset. */
function variablesOf(env: unknown, problems: Problem[]): Variables {
  if (typeof env !== 'object' || env === null)
    throw new ConfigurationError(WHAT, [{ option: 'env', reason: 'must be an object' }])
  return Object.fromEntries(
    VARIABLE_NAMES.map((name) => {
      const value = propertyOf(env, name) ?? undefined
      if (value === undefined || typeof value === 'string') return [name, value]
      problems.push({ option: name, reason: 'must be a string' })
      return [name, undefined]
    }),
  )
}

/** The problems, with a note on a set variable whose name is almost that of a missing one. */
function withSpelling(problems: readonly Problem[], env: Readonly<Record<string, unknown>>): Problem[] {
  const unknown = (keysOf(env) ?? []).filter(
    (name) => name.startsWith('MERCHANT_AUTH_') && !VARIABLE_NAMES.includes(name),
  )
  return problems.map(({ option, reason }) => {
    const names = option === CLIENT_SECRET ? CREDENTIALS : [option]
    const similar = reason.startsWith('is not set')
      ? names.map((name) => similarName(name, unknown)).find((name) => name !== undefined)
      : undefined
    return {
      option,
      reason: similar === undefined ? reason : `${reason}, but ${similar} is: check its spelling`,
    }
  })
}

/** Base URLs by name, or as a list if none has a name. */
function apiUrlsFrom(text: string, problems: Problem[]): NamedApiUrls {
  const items = text.split(',').flatMap((item) => item.trim() || [])
  const entries = items.map((item): [string | undefined, string] => {
    const [, name, url = ''] = /^(?:([\w.-]+)\s*=\s*)?(.*)$/s.exec(item) ?? []
    return [name, url]
  })
  const names = new Set(entries.map(([name]) => name))
  // A list can be read by index, as its type says.
  if (names.size <= 1 && names.has(undefined)) return items as object as NamedApiUrls
  if (names.has(undefined) || names.size < entries.length)
    problems.push({ option: API_URLS, reason: 'must give each base URL a name of its own, or none a name' })
  return Object.fromEntries(entries.map(([name, url]) => [String(name), url])) as NamedApiUrls
}

/** Always a function, because inspect would show a string. */
function credentialFrom(
  env: Variables,
  problems: Problem[],
): Pick<TokenProviderOptions, 'clientSecret' | 'clientAssertion'> {
  const secret = env[CLIENT_SECRET] || undefined
  const fileOf = (name: string): string | undefined => env[name]?.trim() || undefined
  const files = [CLIENT_SECRET_FILE, CLIENT_ASSERTION_FILE].filter((name) => fileOf(name))
  const given = [...(secret === undefined ? [] : [CLIENT_SECRET]), ...files] // a secret may consist of spaces
  const [first, second] = given
  if (second !== undefined)
    problems.push({ option: second, reason: `must not be set together with ${first}` })
  if (first === undefined) {
    const reason = `is not set, and neither is ${CLIENT_SECRET_FILE} or ${CLIENT_ASSERTION_FILE}`
    problems.push({ option: CLIENT_SECRET, reason })
  }
  if (first === CLIENT_ASSERTION_FILE)
    return { clientAssertion: contentOf(CLIENT_ASSERTION_FILE, fileOf(CLIENT_ASSERTION_FILE), problems) }
  const file = fileOf(CLIENT_SECRET_FILE)
  if (file !== undefined) return { clientSecret: contentOf(CLIENT_SECRET_FILE, file, problems) }
  return { clientSecret: () => secret ?? '' }
}

/** A function that reads a file. */
function contentOf(variable: string, file = '', problems: Problem[]): () => Promise<string> {
  const problem = fileProblem(file)
  if (problem !== undefined) problems.push({ option: variable, reason: problem })
  return async () => withoutLineEnd(await readFile(file, 'utf8'))
}

function fileProblem(file: string): string | undefined {
  try {
    return withoutLineEnd(readFileSync(file, 'utf8')) === '' ? 'names an empty file' : undefined
  } catch (error) {
    return `names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`
  }
}

/** `name=value,…` */
function parametersFrom(
  text: string | undefined,
  problems: Problem[],
): Pick<TokenProviderOptions, 'tokenParameters'> {
  if (text === undefined) return {}
  const parts = text.split(',').flatMap((part) => part.trim() || [])
  const found = parts.flatMap((part) => [/^([^=\s]+)\s*=\s*(.*)$/s.exec(part) ?? []])
  const parameters = Object.fromEntries(
    found.flatMap(([, name, value = '']) => (name ? [[name, value]] : [])),
  )
  let reason: string | undefined
  if (found.some(([, name]) => name === undefined)) reason = 'must be name=value,…'
  else if (Object.keys(parameters).length < found.length) reason = 'must name each field once'
  if (reason !== undefined) problems.push({ option: TOKEN_PARAMETERS, reason })
  return { tokenParameters: parameters }
}

/** A text without its trailing line breaks. */
export function withoutLineEnd(text: string): string {
  let end = text.length
  while (end > 0 && '\r\n'.includes(text.charAt(end - 1))) end -= 1
  return text.slice(0, end)
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

/** The problems that a provider would find in the options, each with the variable's name. */
function problemsIn(options: TokenProviderOptions, read: (name: string) => string | undefined): Problem[] {
  try {
    resolveOptions(options)
    return []
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
