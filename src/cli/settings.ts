/** The configuration of the commands that request a token: the variables of `optionsFromEnv`, or flags instead. */
import { createReadStream, existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { headerName, schemeName } from '../checks.ts'
import { ConfigurationError, type Problem } from '../errors.ts'
import { similarName } from '../names.ts'
import type { TokenProviderOptions } from '../options.ts'
import { CREDENTIALS, optionsFromEnv, VARIABLE_NAMES, withoutLineEnd } from '../options-from-env.ts'
import { untilAborted } from '../waiting.ts'
import { type CommandContext, type Flag, type FlagValues, flagsHelp, UsageError } from './command.ts'
import { wrap } from './terminal.ts'

const [SECRET, SECRET_FILE, ASSERTION_FILE] = CREDENTIALS
const WHAT = 'The configuration cannot be used'
/** A Redis store for `token`. */
export const STORE_VARIABLE = 'MERCHANT_AUTH_STORE'

/** The flags of every command that requests a token. */
export const SETTINGS_FLAGS = {
  'auth-url': { value: 'URL', variable: 'MERCHANT_AUTH_URL', help: 'base URL of the token endpoint' },
  audience: { value: 'URL', variable: 'MERCHANT_AUTH_AUDIENCE', help: 'audience of the token' },
  'api-url': {
    value: 'URL',
    multiple: true,
    variable: 'MERCHANT_AUTH_API_URLS',
    help: 'base URL of an API; repeat the flag, or separate URLs in the variable with commas',
  },
  'client-id': { value: 'ID', variable: 'MERCHANT_AUTH_CLIENT_ID', help: 'client ID' },
  'client-secret-file': {
    value: 'FILE',
    variable: 'MERCHANT_AUTH_CLIENT_SECRET_FILE',
    help: 'file with the client secret',
  },
  'client-assertion-file': {
    value: 'FILE',
    variable: 'MERCHANT_AUTH_CLIENT_ASSERTION_FILE',
    help: 'file with a signed assertion (JWT) instead of a secret',
  },
  'token-parameter': {
    value: 'NAME=VALUE',
    multiple: true,
    variable: 'MERCHANT_AUTH_TOKEN_PARAMETERS',
    help: 'further field of the token request; repeat the flag, or use commas in the variable',
  },
  'timeout-ms': {
    value: 'MS',
    variable: 'MERCHANT_AUTH_TIMEOUT_MS',
    help: 'time limit of the token request; default: 10000',
  },
  'body-format': {
    value: 'FORMAT',
    choices: ['json', 'form'],
    help: 'format of the token request: json or form; default: json',
  },
  dotenv: { value: 'FILE', help: 'file with more variables; those that are set take precedence' },
} as const

/** The flags by the variables that they override. */
const FLAG_OF = new Map(
  Object.entries<Flag>(SETTINGS_FLAGS).flatMap(([name, { variable }]) =>
    variable === undefined ? [] : [[variable, name as keyof typeof SETTINGS_FLAGS] as const],
  ),
)

export function settingsHelp(width: number): string {
  const title = 'Configuration, by flags or by the [environment variables]; flags take precedence:'
  const secret = `There is no flag for the client secret itself: set ${SECRET}, or name a file.`
  return `${wrap('', title, width)}\n${flagsHelp(SETTINGS_FLAGS, width)}\n${wrap('', secret, width)}`
}

/** Advice where variables are missing: a file `.env` that may set them. It is not read: nobody asked for that. */
export function unreadDotenv(
  command: string,
  { dotenv }: FlagValues<typeof SETTINGS_FLAGS>,
): string | undefined {
  if (dotenv !== undefined || !existsSync(resolve('.env'))) return undefined
  return `A file .env is here. Read it with:\nnpx merchant-auth ${command} --dotenv .env`
}

/** The flags of commands that send or print the header. */
export const HEADER_FLAGS = {
  'header-name': { value: 'NAME', help: 'header that carries the token; default: Authorization' },
  scheme: {
    value: 'SCHEME',
    mayBeEmpty: true,
    help: "scheme before the token; default: Bearer; '' for none",
  },
} as const

/** Where the token goes. */
export interface Header {
  readonly header: string
  readonly scheme: string
}

/** @throws UsageError */
export function readHeader(flags: FlagValues<typeof HEADER_FLAGS>): Header {
  const { 'header-name': header = 'Authorization', scheme = 'Bearer' } = flags
  if (!headerName.safeParse(header).success)
    throw new UsageError(
      '--header-name must be the name of a header that can carry the token (RFC 9110 §5.1).',
    )
  if (!schemeName.safeParse(scheme).success)
    throw new UsageError("--scheme must be an authentication scheme (RFC 9110 §11.1), or ''.")
  return { header, scheme }
}

type Variables = Readonly<Record<string, string | undefined>>

export interface Settings {
  readonly options: TokenProviderOptions
  /** The client secret, or the assertion. */
  readonly secret: string
  /** The file that it comes from; else it is in `MERCHANT_AUTH_CLIENT_SECRET`. */
  readonly secretFile: string | undefined
  readonly variables: Variables
}

/**
 * Reads the options of a provider from flags and environment variables. The file of the secret or the assertion is read
 * only once, because it may be a pipe.
 *
 * @throws ConfigurationError with every problem, by the variable's name and its flag
 */
export async function readSettings(
  flags: FlagValues<typeof SETTINGS_FLAGS>,
  { env, signal }: CommandContext,
): Promise<Settings> {
  if (flags['token-parameter']?.some((parameter) => parameter.includes(',')))
    throw new UsageError('--token-parameter takes one field, whose value must not contain a comma.')
  const byFlag = [...FLAG_OF].flatMap(([variable, flag]) =>
    flags[flag] === undefined ? [] : [[variable, String(flags[flag])]],
  )
  const dotenv = flags.dotenv === undefined ? {} : await readDotenv(flags.dotenv, signal)
  const variables = override(override(withoutEmpty(dotenv), withoutEmpty(env)), Object.fromEntries(byFlag))

  const problems: Problem[] = []
  const read: Record<string, string | undefined> = { ...variables }
  const [source, ...others] = CREDENTIALS.filter((name) => variables[name] !== undefined)
  const isAssertion = source === ASSERTION_FILE
  let secret = variables[SECRET] ?? ''
  let secretFile: string | undefined
  if (source !== undefined && source !== SECRET && others.length === 0) {
    secretFile = variables[source]?.trim() ?? ''
    const { text = '', reason } = await readSmallFile(secretFile, signal)
    secret = isAssertion ? text.trim() : withoutLineEnd(text)
    if (secret === '') problems.push({ option: source, reason: reason ?? 'names an empty file' })
    read[SECRET] = secret || 'none' // so that the remaining problems are found, too
    delete read[source]
  }
  try {
    const { clientSecret, ...fromEnv } = optionsFromEnv(read)
    const proof = isAssertion ? { clientAssertion: () => secret } : { clientSecret }
    const options = { ...fromEnv, ...proof, bodyFormat: flags['body-format'] ?? 'json' }
    if (problems.length === 0)
      return { options: options as TokenProviderOptions, secret, secretFile, variables }
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    problems.push(...error.problems)
  }
  const named = problems.map(({ option, reason }) => ({ option: withFlag(option), reason }))
  throw new ConfigurationError(WHAT, named)
}

/** Variables, and those that take precedence. What proves the client's identity counts as one setting. */
function override(variables: Variables, preferred: Variables): Variables {
  const isCredential = (name: string): boolean => (CREDENTIALS as readonly string[]).includes(name)
  const isGiven = Object.keys(preferred).some(isCredential)
  const kept = Object.entries(variables).filter(([name]) => !(isGiven && isCredential(name)))
  return { ...Object.fromEntries(kept), ...preferred }
}

function withoutEmpty(variables: Variables): Variables {
  return Object.fromEntries(Object.entries(variables).filter(([, value]) => value))
}

async function readDotenv(file: string, signal: AbortSignal): Promise<Variables> {
  const { text = '', reason } = await readSmallFile(file, signal)
  if (reason !== undefined) throw new ConfigurationError(WHAT, [{ option: '--dotenv', reason }])
  return parseEnv(text)
}

const MAX_BYTES = 64 * 1024

/** Reads a file, or why not. The limit and the signal end reads of pipes and devices, too. */
async function readSmallFile(
  file: string,
  signal: AbortSignal,
): Promise<{ readonly text?: string; readonly reason?: string }> {
  const read = async (): Promise<Buffer> =>
    Buffer.concat(await createReadStream(file, { end: MAX_BYTES }).toArray())
  let bytes: Buffer
  try {
    bytes = await untilAborted(read(), signal)
  } catch (error) {
    if (signal.aborted) throw error
    return { reason: `names a file that cannot be read (${(error as NodeJS.ErrnoException).code})` }
  }
  if (bytes.length > MAX_BYTES) return { reason: `names a file of more than ${MAX_BYTES} bytes` }
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) } // drops a byte order mark
  } catch {
    return { reason: 'names a file that is not UTF-8' }
  }
}

/** The variables with the prefix of this package that it does not know, each with the name that may be meant. */
export function unknownVariables(variables: Variables): [name: string, similar: string | undefined][] {
  const known = [...VARIABLE_NAMES, STORE_VARIABLE]
  return Object.keys(variables)
    .filter((name) => /^MERCHANT_AUTH_/i.test(name) && !known.includes(name))
    .map((name) => [name, similarName(name, known) ?? known.find((one) => one.startsWith(name))])
}

/** `MERCHANT_AUTH_URL (--auth-url)` */
function withFlag(option: string): string {
  const name = option === SECRET ? SECRET_FILE : option.replace(/(?:\[\d+\]|\.[^.]*)$/, '')
  const flag = FLAG_OF.get(name)
  return flag === undefined ? option : `${option} (--${flag})`
}
