/** The configuration of the commands that request a token: the variables of `optionsFromEnv`, or flags instead. */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { headerName, schemeName } from '../checks.ts'
import { ConfigurationError, type Problem } from '../errors.ts'
import { similarName } from '../names.ts'
import type { TokenProviderOptions } from '../options.ts'
import { CREDENTIALS, optionsFromEnv, VARIABLE_NAMES, withoutLineEnd } from '../options-from-env.ts'
import { untilAborted } from '../waiting.ts'
import { type CommandContext, choiceOf, type FlagValues, UsageError } from './command.ts'

const [SECRET, SECRET_FILE, ASSERTION_FILE] = CREDENTIALS
const WHAT = 'The configuration cannot be used'
/** A Redis store for `token`. */
export const STORE_VARIABLE = 'MERCHANT_AUTH_STORE'

/** The flags of every command that requests a token. */
export const SETTINGS_FLAGS = {
  'auth-url': { type: 'string' },
  audience: { type: 'string' },
  'api-url': { type: 'string', multiple: true },
  'client-id': { type: 'string' },
  'client-secret-file': { type: 'string' },
  'client-assertion-file': { type: 'string' },
  'token-parameter': { type: 'string', multiple: true },
  'timeout-ms': { type: 'string' },
  'body-format': { type: 'string' },
  dotenv: { type: 'string' },
} as const

/** The flags by the variables that they override. */
const FLAG_OF = {
  MERCHANT_AUTH_URL: 'auth-url',
  MERCHANT_AUTH_AUDIENCE: 'audience',
  MERCHANT_AUTH_API_URLS: 'api-url',
  MERCHANT_AUTH_CLIENT_ID: 'client-id',
  MERCHANT_AUTH_CLIENT_SECRET_FILE: 'client-secret-file',
  MERCHANT_AUTH_CLIENT_ASSERTION_FILE: 'client-assertion-file',
  MERCHANT_AUTH_TOKEN_PARAMETERS: 'token-parameter',
  MERCHANT_AUTH_TIMEOUT_MS: 'timeout-ms',
} as const

export const SETTINGS_HELP: string = `Configuration, by flags or by variables; flags take precedence:
${Object.entries(FLAG_OF)
  .map(([variable, flag]) => `${`  --${flag} VALUE`.padEnd(33)}${variable}\n`)
  .join('')}                                 MERCHANT_AUTH_CLIENT_SECRET; it has no flag
  --body-format FORMAT           json or form; default: json
  --dotenv FILE                  more variables; those set take precedence`

/** Advice where variables are missing: a file `.env` that may set them. It is not read: nobody asked for that. */
export function unreadDotenv(
  command: string,
  { dotenv }: FlagValues<typeof SETTINGS_FLAGS>,
): string | undefined {
  if (dotenv !== undefined || !existsSync(resolve('.env'))) return undefined
  return `A file .env is here. Read it with:\nnpx merchant-auth ${command} --dotenv .env`
}

/** The flags of commands that send or print the header. */
export const HEADER_FLAGS = { 'header-name': { type: 'string' }, scheme: { type: 'string' } } as const

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
  /** The files that began with a byte order mark. */
  readonly markedFiles: readonly string[]
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
  const bodyFormat = choiceOf('--body-format', flags['body-format'], ['json', 'form']) ?? 'json'
  const byFlag = Object.entries(FLAG_OF).flatMap(([variable, flag]) =>
    flags[flag] === undefined ? [] : [[variable, String(flags[flag])]],
  )
  const marked: string[] = []
  const { text: dotenv = '', reason } =
    flags.dotenv === undefined ? {} : await readText(flags.dotenv, signal, marked)
  if (reason !== undefined) throw new ConfigurationError(WHAT, [{ option: '--dotenv', reason }])
  const set = { ...withoutEmpty(parseEnv(dotenv)), ...withoutEmpty(env) }
  const variables = override(set, Object.fromEntries(byFlag))

  const problems: Problem[] = []
  const checked: Record<string, string | undefined> = { ...variables }
  const [source, ...others] = CREDENTIALS.filter((name) => variables[name] !== undefined)
  const isAssertion = source === ASSERTION_FILE
  let secret = variables[SECRET] ?? ''
  let secretFile: string | undefined
  if (source !== undefined && source !== SECRET && others.length === 0) {
    secretFile = variables[source]?.trim() ?? ''
    const { text = '', reason } = await readText(secretFile, signal, marked)
    secret = isAssertion ? text.trim() : withoutLineEnd(text)
    if (secret === '') problems.push({ option: source, reason: reason ?? 'names an empty file' })
    checked[SECRET] = secret || 'none' // so that the remaining problems are found, too
    delete checked[source]
  }
  try {
    const { clientSecret: _, clientAssertion: __, ...fromEnv } = optionsFromEnv(checked)
    const proof = isAssertion ? { clientAssertion: () => secret } : { clientSecret: () => secret }
    if (problems.length === 0)
      return {
        options: { ...fromEnv, ...proof, bodyFormat },
        secret,
        secretFile,
        variables,
        markedFiles: marked,
      }
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    problems.push(...error.problems)
  }
  const named = problems.map(({ option, reason }) => ({ option: withFlag(option), reason }))
  throw new ConfigurationError(WHAT, named)
}

/** Variables, and those of flags, which take precedence. What proves the client's identity counts as one setting. */
function override(variables: Variables, preferred: Variables): Variables {
  const isCredential = (name: string): boolean => (CREDENTIALS as readonly string[]).includes(name)
  const isGiven = Object.keys(preferred).some(isCredential)
  const kept = Object.entries(variables).filter(([name]) => !(isGiven && isCredential(name)))
  return { ...Object.fromEntries(kept), ...preferred }
}

function withoutEmpty(variables: Variables): Variables {
  return Object.fromEntries(Object.entries(variables).filter(([, value]) => value))
}

/** Reads a file without its byte order mark, whose file it adds to `marked`, or says why not. The signal ends reads of pipes, too. */
async function readText(
  file: string,
  signal: AbortSignal,
  marked: string[],
): Promise<{ readonly text?: string; readonly reason?: string }> {
  let bytes: Buffer
  try {
    bytes = await untilAborted(readFile(file), signal)
  } catch (error) {
    if (signal.aborted) throw error
    return { reason: `names a file that cannot be read (${(error as NodeJS.ErrnoException).code})` }
  }
  if (bytes.indexOf('\uFEFF') === 0) marked.push(file)
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) } // drops the mark
  } catch {
    return { reason: NOT_UTF_8 }
  }
}

const NOT_UTF_8 =
  'names a file that is not UTF-8. In Windows PowerShell 5 write it with: … | Out-File -Encoding ascii FILE'

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
  const flag = (FLAG_OF as Readonly<Record<string, string>>)[name]
  return flag === undefined ? option : `${option} (--${flag})`
}
