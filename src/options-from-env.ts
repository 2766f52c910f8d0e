/** A provider's options from environment variables. */
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { Environment } from './environments.ts'
import { ConfigurationError, type Problem } from './errors.ts'
import { similarName } from './names.ts'
import {
  resolveOptions,
  type TokenProviderOptions,
  type WithClientAssertion,
  type WithClientSecret,
} from './options.ts'

/** The client proves its identity by one of them. */
export const CREDENTIALS = [
  'MERCHANT_AUTH_CLIENT_SECRET',
  'MERCHANT_AUTH_CLIENT_SECRET_FILE',
  'MERCHANT_AUTH_CLIENT_ASSERTION_FILE',
] as const
const [CLIENT_SECRET, CLIENT_SECRET_FILE, CLIENT_ASSERTION_FILE] = CREDENTIALS

/** The variable that sets each option. */
const VARIABLES = {
  'environment.authUrl': 'MERCHANT_AUTH_URL',
  'environment.audience': 'MERCHANT_AUTH_AUDIENCE',
  'environment.apiUrls': 'MERCHANT_AUTH_API_URLS',
  clientId: 'MERCHANT_AUTH_CLIENT_ID',
  clientSecret: CLIENT_SECRET,
  tokenParameters: 'MERCHANT_AUTH_TOKEN_PARAMETERS',
  timeoutMs: 'MERCHANT_AUTH_TIMEOUT_MS',
  refreshAheadMs: 'MERCHANT_AUTH_REFRESH_AHEAD_MS',
  expiryMarginMs: 'MERCHANT_AUTH_EXPIRY_MARGIN_MS',
} as const

/** The variables that are read. */
export const VARIABLE_NAMES: readonly string[] = [
  ...Object.values(VARIABLES),
  CLIENT_SECRET_FILE,
  CLIENT_ASSERTION_FILE,
]

/** Environment variables by name; undefined if one is not set. @inline */
type Variables = Readonly<Record<string, string | undefined>>

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
 * The inspect and JSON output of the result does not contain the secret.
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
  const read = (option: keyof typeof VARIABLES): string | undefined =>
    env[VARIABLES[option]]?.trim() || undefined
  const parameters = read('tokenParameters')
  const durations = (['timeoutMs', 'refreshAheadMs', 'expiryMarginMs'] as const).flatMap((option) => {
    const text = read(option)
    return text === undefined ? [] : [[option, Number(text)] as const]
  })
  const options: TokenProviderOptions = {
    environment: {
      authUrl: read('environment.authUrl') ?? '',
      audience: read('environment.audience') ?? '',
      apiUrls: apiUrlsFrom(read('environment.apiUrls') ?? '', apis, problems),
    },
    clientId: read('clientId') ?? '',
    ...credentialFrom(env, problems),
    ...(parameters && { tokenParameters: namedValues(partsOf(parameters), 'tokenParameters', problems) }),
    ...Object.fromEntries(durations),
  }
  try {
    const { environment } = resolveOptions(options)
    if (problems.length === 0)
      return { ...options, environment: environment as OptionsFromEnv<Name>['environment'] }
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    problems.push(...error.problems)
  }
  const ofVariables = problems.map((problem) => ofVariable(problem, env))
  const isNoneSet = VARIABLE_NAMES.every((name) => !env[name])
  const hint = isNoneSet
    ? ' (none is set: does the process read its .env file, as with node --env-file=.env?)'
    : ''
  throw new ConfigurationError(`The environment variables cannot be used${hint}`, ofVariables)
}

/** The problem of an option as that of its variable, with a note on a set variable that has almost this name. */
function ofVariable({ option, reason }: Problem, env: Variables): Problem {
  const [, path = '', place = ''] = /^(environment\.\w+|\w+)(.*)$/.exec(option) ?? []
  const variable = VARIABLES[path as keyof typeof VARIABLES] ?? path
  // No variable sets allowInsecureRequests.
  const explained = reason.replace(', or with allowInsecureRequests: true', '')
  if (env[variable]?.trim()) return { option: variable + place, reason: explained }
  const isSecret = variable === CLIENT_SECRET
  const others = isSecret ? `, and neither is ${CLIENT_SECRET_FILE} or ${CLIENT_ASSERTION_FILE}` : ''
  const names = isSecret ? CREDENTIALS : [variable]
  const known = names.flatMap((name) => [name, name.replace('CLIENT_', '')])
  const similar = Object.keys(env)
    .filter((name) => name.startsWith('MERCHANT_AUTH_') && !VARIABLE_NAMES.includes(name))
    .find((name) => similarName(name, known))
  const note = similar === undefined ? '' : `, but ${similar} is: check its spelling`
  return { option: variable, reason: `is not set${others}${note}` }
}

/** A part of a list: its name, or '', and its value. */
type Part = readonly [name: string, value: string]

/** The parts of a text that are separated by commas: `name=value`, or only a value. */
function partsOf(text: string): readonly Part[] {
  return text.split(',').flatMap((untrimmed) => {
    const part = untrimmed.trim()
    const [, name = '', value = part] = /^([\w.-]+)\s*=\s*(.*)$/s.exec(part) ?? []
    return part === '' ? [] : [[name, value] as const]
  })
}

/** The values by name. */
function namedValues(parts: readonly Part[], option: string, problems: Problem[]): Record<string, string> {
  const names = new Set(parts.map(([name]) => name))
  if (names.has('') || names.size < parts.length)
    problems.push({ option, reason: 'must give each value a name of its own: name=value,…' })
  return Object.fromEntries(parts.filter(([name]) => name !== ''))
}

/** Base URLs by name, or as a list if none has a name. */
function apiUrlsFrom(text: string, apis: readonly string[], problems: Problem[]): Environment['apiUrls'] {
  if (text === '') return []
  const option = 'environment.apiUrls'
  if (/;\s*(?:[\w.-]+\s*=|https?:)/.test(text))
    problems.push({ option, reason: 'must separate the base URLs by commas, not by semicolons' })
  const parts = partsOf(text)
  for (const api of apis)
    if (parts.every(([name]) => name !== api))
      problems.push({ option, reason: `must name the API ${api}: ${api}=https://…` })
  const hasNames = parts.some(([name]) => name !== '')
  return hasNames ? namedValues(parts, option, problems) : parts.map(([, url]) => url)
}

/** Always a function, because inspect would show a string. */
function credentialFrom(env: Variables, problems: Problem[]): WithClientSecret | WithClientAssertion {
  const [first, second] = CREDENTIALS.filter((name) => env[name]?.trim())
  if (second !== undefined)
    problems.push({ option: second, reason: `must not be set together with ${first}` })
  if (first === undefined) problems.push({ option: CLIENT_SECRET, reason: 'is not set' })
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
