/** Environment variables as the options of a provider, for `optionsFromEnv` and the command. Files are read by the callers. */

import type { Flaw, Problem } from '../base/errors.ts'
import { isQuoted, operatorPath, QUOTED } from '../base/operator-path.ts'
import { similarName } from '../base/similar-name.ts'
import type { Environment } from '../environment/environment.ts'
import {
  checkOptions,
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

const ALLOW_INSECURE = 'MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS'

/** A directory, or the URL of a Redis. */
export const STORE_VARIABLE = 'MERCHANT_AUTH_STORE'

/** The variable that sets each option. */
const VARIABLES = {
  'environment.authUrl': 'MERCHANT_AUTH_URL',
  'environment.tokenPath': 'MERCHANT_AUTH_TOKEN_PATH',
  'environment.audience': 'MERCHANT_AUTH_AUDIENCE',
  'environment.apiUrls': 'MERCHANT_AUTH_API_URLS',
  'environment.allowInsecureRequests': ALLOW_INSECURE,
  clientId: 'MERCHANT_AUTH_CLIENT_ID',
  clientSecret: CLIENT_SECRET,
  tokenEndpointAuthMethod: 'MERCHANT_AUTH_TOKEN_ENDPOINT_AUTH_METHOD',
  bodyFormat: 'MERCHANT_AUTH_BODY_FORMAT',
  lifetimeIfMissingMs: 'MERCHANT_AUTH_LIFETIME_IF_MISSING_SECONDS',
  tokenParameters: 'MERCHANT_AUTH_TOKEN_PARAMETERS',
  timeoutMs: 'MERCHANT_AUTH_TIMEOUT_MS',
  refreshAheadMs: 'MERCHANT_AUTH_REFRESH_AHEAD_MS',
  expiryMarginMs: 'MERCHANT_AUTH_EXPIRY_MARGIN_MS',
  store: STORE_VARIABLE,
} as const

/** The options whose values never begin or end with a quote, unless a tool has kept it. */
const NEVER_QUOTED = [
  'environment.authUrl',
  'environment.tokenPath',
  'environment.audience',
  'environment.apiUrls',
  'clientId',
] as const

/** The variables that are read. */
export const VARIABLE_NAMES: readonly string[] = [
  ...Object.values(VARIABLES),
  CLIENT_SECRET_FILE,
  CLIENT_ASSERTION_FILE,
]

/** Environment variables by name; undefined if one is not set. */
export type Variables = Readonly<Record<string, string | undefined>>

/**
 * The variables that are set. An empty one counts as unset. Those of this package are read by their names, because Windows
 * ignores their case.
 */
export function setVariables(env: Variables): Variables {
  const read = VARIABLE_NAMES.map((name) => [name, env[name]] as const)
  // A schema of the caller may have made numbers and booleans of them.
  const texts = [...listed(env), ...read].map(([name, value]) => [name, String(value ?? '')] as const)
  return Object.fromEntries(texts.filter(([, value]) => value.trim()))
}

/** For hints on misspelled names. Deno refuses to list variables where only some may be read. */
function listed(env: Variables): (readonly [string, string | undefined])[] {
  try {
    return Object.entries(env)
  } catch {
    return []
  }
}

/** What Kubernetes sets in each container for a Service whose name begins with merchant-auth. */
const OF_KUBERNETES =
  /_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)$/

/** The names with the prefix of this package that it does not read. */
export function unknownNames(variables: Variables): readonly string[] {
  return Object.keys(variables).filter((name) => {
    const upper = name.toUpperCase()
    // Windows ignores case: the value was read by the name in capitals, too.
    const isRead = VARIABLE_NAMES.includes(upper) && variables[upper] === variables[name]
    return upper.startsWith('MERCHANT_AUTH_') && !isRead && !OF_KUBERNETES.test(name)
  })
}

/**
 * The name of a variable behind a byte order mark. The mark at the beginning of a file becomes part of the first name,
 * and so does `export`, with `node --env-file` and `parseEnv`.
 */
export function nameAfterMark(name: string): string | undefined {
  return /^\uFEFF\s*(?:export\s+)?(\w+)$/.exec(name)?.[1]
}

/** Where the client's credential comes from. */
export interface CredentialSource {
  readonly variable: (typeof CREDENTIALS)[number]
  /** The path of the file that the variable names. */
  readonly file: string | undefined
  /** What is wrong with that path. */
  readonly flaw: Flaw | undefined
}

/** Where the client's credential comes from: `MERCHANT_AUTH_CLIENT_SECRET` if no variable for it is set. */
export function credentialSource(variables: Variables): CredentialSource {
  const variable = CREDENTIALS.find((name) => variables[name] !== undefined) ?? CLIENT_SECRET
  const file = variable === CLIENT_SECRET ? undefined : variables[variable]
  const { path, flaw } = file === undefined ? {} : operatorPath(file)
  return { variable, file: path, flaw }
}

/** What is needed besides the variables. */
interface Context {
  /** Returns the secret or the assertion. */
  readonly readCredential: () => string | Promise<string>
  /** Why its file cannot be used. */
  readonly flaw: Flaw | undefined
  /** Why the store cannot be used. */
  readonly storeFlaw: Flaw | undefined
  /** The names that `MERCHANT_AUTH_API_URLS` must contain. */
  readonly apis?: readonly string[] | undefined
}

/**
 * The options that variables set, with their frozen environment, or every problem, each by the variable's name. The store
 * is not among them: the callers open it.
 */
export function readVariables(
  variables: Variables,
  { readCredential, flaw, storeFlaw, apis = [] }: Context,
): TokenProviderOptions | Problem[] {
  const source = credentialSource(variables)
  const read = (option: keyof typeof VARIABLES): string | undefined => variables[VARIABLES[option]]?.trim()
  const problems: Problem[] = []
  const readUnquoted = (option: (typeof NEVER_QUOTED)[number]): string => {
    const text = read(option) ?? ''
    if (isQuoted(text)) problems.push({ option, kind: 'invalid', reason: QUOTED })
    return text.replace(/^["']|["']$/g, '')
  }
  if (flaw !== undefined) problems.push({ option: source.variable, ...flaw })
  if (storeFlaw !== undefined) problems.push({ option: 'store', ...storeFlaw })
  for (const name of CREDENTIALS)
    if (name !== source.variable && variables[name] !== undefined) {
      const reason = `must not be set together with ${source.variable}`
      problems.push({ option: name, kind: 'conflict', reason })
    }
  const parameters = read('tokenParameters')
  const allowInsecureRequests = read('environment.allowInsecureRequests')
  const others = Object.entries(READERS).flatMap(([option, readText]) => {
    const text = read(option as keyof typeof READERS)
    return text === undefined ? [] : [[option, readText(text)] as const]
  })
  const environment = {
    tokenPath: readUnquoted('environment.tokenPath'),
    audience: readUnquoted('environment.audience'),
  }
  // What is wrong with these is a problem of the options.
  const options = {
    environment: {
      authUrl: readUnquoted('environment.authUrl'),
      ...Object.fromEntries(Object.entries(environment).filter(([, text]) => text !== '')),
      apiUrls: apiUrlsFrom(readUnquoted('environment.apiUrls'), apis, problems),
      ...(allowInsecureRequests !== undefined && {
        allowInsecureRequests: booleanFrom(allowInsecureRequests, problems),
      }),
    },
    clientId: readUnquoted('clientId'),
    ...credentialFrom(source, variables, readCredential),
    ...(parameters !== undefined && { tokenParameters: parametersFrom(parameters, problems) }),
    ...Object.fromEntries(others),
  } as TokenProviderOptions
  const resolved = checkOptions(options)
  if (Array.isArray(resolved)) problems.push(...resolved)
  else if (problems.length === 0) return { ...options, environment: resolved.environment }
  return problems.map((problem) => ofVariable(problem, variables))
}

/** The options that are read in a way of their own. */
type ReadByItself = `environment.${string}` | 'clientId' | 'clientSecret' | 'tokenParameters' | 'store'

/** How the others are read. */
const READERS: Readonly<Record<Exclude<keyof typeof VARIABLES, ReadByItself>, (text: string) => unknown>> = {
  timeoutMs: Number,
  refreshAheadMs: Number,
  expiryMarginMs: Number,
  bodyFormat: String,
  tokenEndpointAuthMethod: String,
  lifetimeIfMissingMs: (seconds) => Number(seconds) * 1000,
}

/** Always a function if one is set, because inspect would show a string. */
function credentialFrom(
  { variable }: CredentialSource,
  variables: Variables,
  read: Context['readCredential'],
): WithClientSecret | WithClientAssertion {
  if (variable === CLIENT_ASSERTION_FILE) return { clientAssertion: read }
  return { clientSecret: variables[variable] === undefined ? '' : read }
}

/** The problem of an option as that of its variable, with a note on a set variable that was probably meant to be it. */
function ofVariable(problem: Problem, variables: Variables): Problem {
  const [path, variable] = Object.entries(VARIABLES).find(([path]) => problem.option.startsWith(path)) ?? []
  if (path === undefined || variable === undefined) return problem
  if (variables[variable] !== undefined) {
    const isInsecureUrl = problem.kind === 'insecure' && path !== 'store'
    const reason = isInsecureUrl ? INSECURE : (REASONS[path] ?? problem.reason)
    return { option: variable + problem.option.slice(path.length), kind: problem.kind, reason }
  }
  const isSecret = variable === CLIENT_SECRET
  const others = OTHERS[variable] ?? ''
  const names: readonly string[] = isSecret ? CREDENTIALS : [variable]
  const known = names.flatMap((name) => [name, name.replace('CLIENT_', '')])
  const similar = unknownNames(variables).find((name) => similarName(name, known))
  const misspelled = similar === undefined ? '' : `, but ${similar} is: check its spelling`
  const isMarked = Object.keys(variables).some((name) => names.includes(nameAfterMark(name) ?? ''))
  const reason = `is not set${others}${isMarked ? MARKED : misspelled}`
  return { option: variable, kind: 'missing', reason }
}

/** Where other variables could be set instead. */
const OTHERS: Readonly<Record<string, string>> = {
  [CLIENT_SECRET]: `, and neither is ${CLIENT_SECRET_FILE} or ${CLIENT_ASSERTION_FILE}`,
  [VARIABLES['environment.audience']]: ` (optional with ${VARIABLES['environment.tokenPath']})`,
}

/** Why variables cannot be used whose values are written in another way than those of their options. */
const REASONS: Readonly<Record<string, string>> = {
  lifetimeIfMissingMs: 'must be a number of seconds from 0.001 to 2147483',
}

const MARKED =
  ', but a variable is whose name begins with a byte order mark: save the .env file as UTF-8 without one'

const INSECURE = `must use https (http is allowed for loopback hosts, or with ${ALLOW_INSECURE}=true)`

/** A part of a list: its name, or '', and its value. */
type Part = readonly [name: string, value: string]

/** The parts of a list: `name=value`, or only a value. */
function partsOf(text: string, separators: RegExp): readonly Part[] {
  const parts = text.split(separators).map((part) => part.trim())
  return parts
    .filter((part) => part !== '')
    .map((part) => {
      const [, name = '', value = part] = /^([\w.-]+)\s*=\s*(.*)$/s.exec(part) ?? []
      return [name, value]
    })
}

/** The values by name. */
function namedValues(parts: readonly Part[], option: string, problems: Problem[]): Record<string, string> {
  const names = new Set(parts.map(([name]) => name))
  if (names.has('') || names.size < parts.length) {
    const reason = 'must give each value a name of its own: name=value,…'
    problems.push({ option, kind: 'invalid', reason })
  }
  return Object.fromEntries(parts.filter(([name]) => name !== ''))
}

function parametersFrom(text: string, problems: Problem[]): Record<string, string> {
  return namedValues(partsOf(text, /[,\r\n]/), 'tokenParameters', problems)
}

/** Base URLs by name, or as a list if none has a name. */
function apiUrlsFrom(text: string, apis: readonly string[], problems: Problem[]): Environment['apiUrls'] {
  if (text === '') return []
  const option = 'environment.apiUrls'
  if (/;\s*(?:[\w.-]+\s*=|https?:)/.test(text)) {
    const reason = 'must separate the base URLs by commas or white space, not by semicolons'
    problems.push({ option, kind: 'invalid', reason })
  }
  const parts = partsOf(text.replace(/\s*=\s*/g, '='), /[,\s]/)
  const names = parts.map(([name]) => name).filter((name) => name !== '')
  const missing = apis.filter((api) => !names.includes(api))
  if (missing.length > 0) problems.push({ option, kind: 'missing', reason: missingNames(missing, names) })
  return names.length > 0 ? namedValues(parts, option, problems) : parts.map(([, url]) => url)
}

/** Which names the caller uses that are missing, what is there instead, and how to write them. */
function missingNames(missing: readonly string[], names: readonly string[]): string {
  const all = new Intl.ListFormat('en')
  const given = `has the name${names.length > 1 ? 's' : ''} ${all.format(names)}`
  const read = all.format(missing.map((api) => `apiUrls.${api}`))
  const example = missing.map((api) => `${api}=https://…`).join()
  return `${names.length > 0 ? given : 'gives its base URLs no names'}, but the program reads ${read}: write ${example}`
}

function booleanFrom(text: string, problems: Problem[]): boolean {
  if (text !== 'true' && text !== 'false') {
    const option = 'environment.allowInsecureRequests'
    problems.push({ option, kind: 'invalid', reason: 'must be true or false' })
  }
  return text === 'true'
}
