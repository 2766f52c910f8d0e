/** How the commands are set up: the environment variables of `optionsFromEnv`, each of which a flag may replace. */
import { parseEnv } from 'node:util'
import { headerName, schemeName } from '../checks.ts'
import { ConfigurationError, type Problem } from '../errors.ts'
import type { TokenProviderOptions } from '../options.ts'
import { optionsFromEnv, withoutLineEnd } from '../options-from-env.ts'
import { UsageError } from './arguments.ts'
import { readSmallFile } from './small-file.ts'
import type { Surroundings } from './terminal.ts'

/** The flags of every command that asks for a token. */
export const SETTINGS_FLAGS = {
  'auth-url': { type: 'string' },
  audience: { type: 'string' },
  'api-url': { type: 'string', multiple: true },
  'client-id': { type: 'string' },
  'client-secret-file': { type: 'string' },
  'timeout-ms': { type: 'string' },
  'body-format': { type: 'string' },
  dotenv: { type: 'string' },
} as const

/** The flags of those that write the header. */
export const HEADER_FLAGS = {
  'header-name': { type: 'string' },
  scheme: { type: 'string' },
} as const

/** Where the token goes, as {@link HEADER_FLAGS} say it. */
export interface Header {
  readonly header: string
  readonly scheme: string
}

/** @throws UsageError */
export function readHeader(
  values: {
    readonly [K in keyof typeof HEADER_FLAGS]?: string | undefined
  },
): Header {
  const { 'header-name': header = 'Authorization', scheme = 'Bearer' } = values
  if (!headerName.safeParse(header).success)
    throw new UsageError(
      '--header-name must be the name of a header that can carry the token (RFC 9110 §5.1).',
    )
  if (!schemeName.safeParse(scheme).success) {
    throw new UsageError("--scheme must be an authentication scheme (RFC 9110 §11.1), or ''.")
  }
  return { header, scheme }
}

const VARIABLES = {
  'auth-url': 'MERCHANT_AUTH_URL',
  audience: 'MERCHANT_AUTH_AUDIENCE',
  'api-url': 'MERCHANT_AUTH_API_URLS',
  'client-id': 'MERCHANT_AUTH_CLIENT_ID',
  'client-secret-file': 'MERCHANT_AUTH_CLIENT_SECRET_FILE',
  'timeout-ms': 'MERCHANT_AUTH_TIMEOUT_MS',
} as const

/** What the flags of {@link SETTINGS_FLAGS} say. */
export type SettingsValues = {
  readonly [K in keyof typeof SETTINGS_FLAGS]?: string | readonly string[] | undefined
}

export const SETTINGS_HELP = `Set up by environment variables, or by flags, which go first:
  MERCHANT_AUTH_URL                 --auth-url URL             base URL of the token endpoint
  MERCHANT_AUTH_AUDIENCE            --audience URL             the audience that the token is for
  MERCHANT_AUTH_API_URLS            --api-url URL              base URLs of the APIs, with commas between them;
                                                               the flag may come several times
  MERCHANT_AUTH_CLIENT_ID           --client-id ID
  MERCHANT_AUTH_CLIENT_SECRET                                  the secret itself: never by a flag
  MERCHANT_AUTH_CLIENT_SECRET_FILE  --client-secret-file FILE  a file that holds it
  MERCHANT_AUTH_TIMEOUT_MS          --timeout-ms MS            for the whole token request (10000)
                                    --body-format form         for token endpoints that take no JSON (json)
                                    --dotenv FILE              more variables, as in a .env file; those that are
                                                               set go first`

/** A set-up, and where its secret comes from: a file, or else `MERCHANT_AUTH_CLIENT_SECRET`. */
export interface Settings {
  readonly options: TokenProviderOptions
  readonly secretFile?: string
  /** The variables that all of this was read from. */
  readonly variables: Readonly<Record<string, string | undefined>>
}

const SECRET = 'MERCHANT_AUTH_CLIENT_SECRET'
const SECRET_FILE = 'MERCHANT_AUTH_CLIENT_SECRET_FILE'

/**
 * The options of a provider, from flags and environment variables. The secret's file is read once, here: it may be a
 * pipe.
 *
 * @throws ConfigurationError with every problem, by the variable's name and its flag
 */
export async function readSettings(values: SettingsValues, { env, signal }: Surroundings): Promise<Settings> {
  const variables = { ...(await moreVariables(values.dotenv, env, signal)), ...given(env) }
  for (const [flag, variable] of Object.entries(VARIABLES)) {
    const value = values[flag as keyof typeof VARIABLES]
    if (value !== undefined) variables[variable] = typeof value === 'string' ? value : value.join(',')
  }
  if (values['client-secret-file'] !== undefined) delete variables[SECRET]
  const bodyFormat = readBodyFormat(values['body-format'])
  const file = variables[SECRET_FILE]?.trim()
  if (!file || variables[SECRET] !== undefined) {
    return { options: { ...optionsOf(variables, []), bodyFormat }, variables }
  }
  const problems: Problem[] = []
  const text = await readSmallFile(file, withFlag(SECRET_FILE), signal).catch((error: unknown) => {
    if (!(error instanceof ConfigurationError)) throw error
    problems.push(...error.problems)
    return 'none' // so that whatever else is wrong is told, too
  })
  const secret = withoutLineEnd(text)
  if (secret === '') problems.push({ option: withFlag(SECRET_FILE), reason: 'names an empty file' })
  const read = { ...variables, [SECRET]: secret || 'none', [SECRET_FILE]: undefined }
  return {
    options: { ...optionsOf(read, problems), bodyFormat },
    secretFile: file,
    variables,
  }
}

function readBodyFormat(value: string | readonly string[] = 'json'): 'json' | 'form' {
  if (value === 'json' || value === 'form') return value
  throw new UsageError('--body-format must be json or form.')
}

/** An empty variable counts as unset, and leaves the file's. */
function given(env: Surroundings['env']): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''))
}

/** The variables of a file. The secret counts as one setting, whichever of its two variables has it. */
async function moreVariables(
  file: string | readonly string[] | undefined,
  env: Surroundings['env'],
  signal: AbortSignal,
): Promise<Record<string, string | undefined>> {
  if (typeof file !== 'string') return {}
  const variables: Record<string, string | undefined> = parseEnv(
    await readSmallFile(file, '--dotenv', signal),
  )
  if (env[SECRET] || env[SECRET_FILE]) {
    delete variables[SECRET]
    delete variables[SECRET_FILE]
  }
  return variables
}

function optionsOf(
  variables: Readonly<Record<string, string | undefined>>,
  known: readonly Problem[],
): TokenProviderOptions {
  const problems = [...known]
  let options: TokenProviderOptions | undefined
  try {
    options = optionsFromEnv(variables)
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    problems.push(...error.problems.map(({ option, reason }) => ({ option: withFlag(option), reason })))
  }
  if (options !== undefined && problems.length === 0) return options
  throw new ConfigurationError('The settings cannot be used', problems)
}

/** `MERCHANT_AUTH_URL (--auth-url)` */
function withFlag(option: string): string {
  const variable = option.replace(/\[\d+\]$/, '')
  const flag = Object.entries(VARIABLES).find(([, name]) => name === variable)?.[0]
  return flag === undefined ? option : `${option} (--${flag})`
}
