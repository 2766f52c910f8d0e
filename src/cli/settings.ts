/** The configuration of the commands that request a token: the variables of `optionsFromEnv`, or flags instead. */
import { readFile } from 'node:fs/promises'
import { isAbsolute, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { ConfigurationError, type Problem } from '../base/errors.ts'
import { type OperatorPath, operatorPath } from '../base/operator-path.ts'
import { headerName, schemeName } from '../base/schema.ts'
import { similarName } from '../base/similar-name.ts'
import { untilAborted } from '../base/waiting.ts'
import { DEFAULT_HEADER, DEFAULT_SCHEME, type TokenProviderOptions } from '../options/options.ts'
import type { locateStore } from '../options/store-location.ts'
import {
  decodeFile,
  decodeSecretFile,
  exists,
  type FileText,
  unreadableFile,
  withoutLineBreak,
} from '../options/text-file.ts'
import {
  CREDENTIALS,
  credentialSource,
  readVariables,
  STORE_VARIABLE,
  setVariables,
  unknownNames,
  VARIABLE_NAMES,
  type Variables,
} from '../options/variables.ts'
import { type CommandContext, type FlagValues, UsageError } from './command.ts'
import type { Dotenv } from './dotenv.ts'

const WHAT = 'The configuration cannot be used'

/** The flags of every command that requests a token. */
export const SETTINGS_FLAGS = {
  'auth-url': { type: 'string' },
  'token-path': { type: 'string' },
  audience: { type: 'string' },
  'api-url': { type: 'string', multiple: true },
  'client-id': { type: 'string' },
  'client-secret-file': { type: 'string' },
  'client-assertion-file': { type: 'string' },
  'token-endpoint-auth-method': { type: 'string' },
  'body-format': { type: 'string' },
  'lifetime-if-missing-seconds': { type: 'string' },
  'token-parameter': { type: 'string', multiple: true },
  'timeout-ms': { type: 'string' },
  store: { type: 'string' },
  dotenv: { type: 'string' },
} as const

/** The flags by the variables that they override. */
const FLAG_OF = {
  MERCHANT_AUTH_URL: 'auth-url',
  MERCHANT_AUTH_TOKEN_PATH: 'token-path',
  MERCHANT_AUTH_AUDIENCE: 'audience',
  MERCHANT_AUTH_API_URLS: 'api-url',
  MERCHANT_AUTH_CLIENT_ID: 'client-id',
  MERCHANT_AUTH_CLIENT_SECRET_FILE: 'client-secret-file',
  MERCHANT_AUTH_CLIENT_ASSERTION_FILE: 'client-assertion-file',
  MERCHANT_AUTH_TOKEN_ENDPOINT_AUTH_METHOD: 'token-endpoint-auth-method',
  MERCHANT_AUTH_BODY_FORMAT: 'body-format',
  MERCHANT_AUTH_LIFETIME_IF_MISSING_SECONDS: 'lifetime-if-missing-seconds',
  MERCHANT_AUTH_TOKEN_PARAMETERS: 'token-parameter',
  MERCHANT_AUTH_TIMEOUT_MS: 'timeout-ms',
  [STORE_VARIABLE]: 'store',
} as const

export const SETTINGS_HELP: string = `Configuration, by flags or by variables; flags take precedence:
${Object.entries(FLAG_OF)
  .map(([variable, flag]) => `${`  --${flag} VALUE`.padEnd(39)}${variable}\n`)
  .join('')}${' '.repeat(39)}MERCHANT_AUTH_CLIENT_SECRET; no flag
  --dotenv FILE                        more variables; those set take precedence`

/** Advice where variables are missing: a file `.env` that may set them. It is not read: nobody asked for that. */
export function unreadDotenv(
  command: string,
  { dotenv }: FlagValues<typeof SETTINGS_FLAGS>,
): string | undefined {
  if (dotenv !== undefined || !exists(resolve('.env'))) return undefined
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
  const { 'header-name': header = DEFAULT_HEADER, scheme = DEFAULT_SCHEME } = flags
  if (!headerName.safeParse(header).success)
    throw new UsageError(
      '--header-name must be the name of a header that can carry the token (RFC 9110 §5.1).',
    )
  if (!schemeName.safeParse(scheme).success)
    throw new UsageError('--scheme must be an authentication scheme (RFC 9110 §11.1), or empty: --scheme=')
  return { header, scheme }
}

/** Variables, and what the files contain that they name. */
export interface Sources {
  readonly variables: Variables
  /** The client secret, or the assertion. */
  readonly secret: string
  /** The file that it comes from; else it is in `MERCHANT_AUTH_CLIENT_SECRET`. */
  readonly secretFile: string | undefined
  /** The contents of that file. */
  readonly secretContent: FileText
  /** Where the store is. */
  readonly location: ReturnType<typeof locateStore>
  readonly dotenv: Dotenv | undefined
}

/** What reads the sources. */
interface SourcesContext extends Pick<CommandContext, 'env' | 'signal'> {
  /** Finds out where the store is, and whether it can be used. */
  readonly locate: typeof locateStore
}

/**
 * Reads flags, environment variables, and files. The file of the secret or the assertion is read only once, because it may
 * be a pipe.
 *
 * @throws ConfigurationError where the file of `--dotenv` cannot be read
 */
export async function readSources(
  flags: FlagValues<typeof SETTINGS_FLAGS>,
  { env, signal, locate }: SourcesContext,
): Promise<Sources> {
  const given: Partial<OperatorPath> = flags.dotenv === undefined ? {} : operatorPath(flags.dotenv)
  const file: FileText = given.flaw === undefined ? await readFileOf(given.path, decodeFile, signal) : given
  if (file.flaw !== undefined) throw new ConfigurationError(WHAT, [{ option: '--dotenv', ...file.flaw }])
  const dotenv = given.path === undefined ? undefined : { path: given.path, ...file }
  const byFlag = Object.entries(FLAG_OF).flatMap(([variable, flag]) =>
    flags[flag] === undefined ? [] : [[variable, String(flags[flag])]],
  )
  const set = { ...setVariables(parseEnv(file.text)), ...setVariables(env) }
  const variables = setVariables(override(set, Object.fromEntries(byFlag)))

  const { variable, file: secretFile, flaw } = credentialSource(variables)
  const secretContent: FileText =
    flaw === undefined ? await readFileOf(secretFile, decodeSecretFile, signal) : { flaw }
  const secret =
    (secretFile === undefined ? withoutLineBreak(variables[variable] ?? '') : secretContent.text) ?? ''
  const location = locate(variables[STORE_VARIABLE])
  return { variables, secret, secretFile, secretContent, location, dotenv }
}

/**
 * The options of a provider, without the store.
 *
 * @throws ConfigurationError with every problem, by the variable's name
 * @throws UsageError if there is a store, and no secret that its entries can be encrypted with
 */
export function optionsFrom(sources: Sources): TokenProviderOptions {
  const { variables, secret, secretContent, location } = sources
  const flaws = { flaw: secretContent.flaw, storeFlaw: location?.flaw }
  const options = readVariables(variables, { readCredential: () => secret, ...flaws })
  const placeholders = placeholderProblems({ ...variables, [credentialSource(variables).variable]: secret })
  if (Array.isArray(options)) throw new ConfigurationError(WHAT, [...options, ...placeholders])
  if (placeholders.length > 0) throw new ConfigurationError(WHAT, placeholders)
  if (location !== undefined && options.clientAssertion !== undefined)
    throw new UsageError(
      'A store needs a client secret, which encrypts its entries, instead of an assertion. Without the store: --store=',
    )
  return options
}

/** Values of the README's `.env`. Programs may use them, as tests without a network do; here a request would follow. */
const PLACEHOLDER = /^your-client-(?:id|secret)$|https?:\/\/(?:[\w-]+\.)*example\.com(?![\w.-])/

function placeholderProblems(variables: Variables): Problem[] {
  return VARIABLE_NAMES.filter((name) => PLACEHOLDER.test(variables[name]?.trim() ?? '')).map((option) => ({
    option,
    kind: 'invalid',
    reason: 'still has the value of an example: replace it with your own',
  }))
}

/** Variables, and those of flags, which take precedence. What proves the client's identity counts as one setting. */
function override(variables: Variables, preferred: Variables): Variables {
  const isCredential = (name: string): boolean => (CREDENTIALS as readonly string[]).includes(name)
  const isGiven = Object.keys(preferred).some(isCredential)
  const kept = Object.entries(variables).filter(([name]) => !(isGiven && isCredential(name)))
  return { ...Object.fromEntries(kept), ...preferred }
}

/** Reads a file; none is like an empty one. The signal ends reads of pipes, too. */
async function readFileOf(
  file: string | undefined,
  decode: (bytes: Buffer) => FileText,
  signal: AbortSignal,
): Promise<FileText> {
  if (file === undefined) return { text: '', wasMarked: false }
  try {
    return decode(await untilAborted(readFile(file), signal))
  } catch (error) {
    if (signal.aborted) throw error
    const { code } = error as NodeJS.ErrnoException
    const { flaw } = unreadableFile(file, error as NodeJS.ErrnoException)
    // In a container or under a service manager, both are others than in a shell.
    const user = code === 'EACCES' ? process.getuid?.() : undefined // not on Windows
    const who = user === undefined ? '' : `; the user ID is ${user}`
    const where = isAbsolute(file) ? '' : `; the working directory is ${process.cwd()}`
    return { flaw: { ...flaw, reason: flaw.reason + who + where } }
  }
}

/** What a vault, or the tool for it, replaces by the value when the process starts. */
const REFERENCE = /^["'\s]*(@Microsoft\.KeyVault\(|op:\/\/|vault:|arn:aws:)/

/** The variables and files whose value is a reference to a vault, each with the beginning of the reference. */
export function unresolvedReferences({ variables, secret, secretFile }: Sources): [string, string][] {
  const values = VARIABLE_NAMES.map((name): [string, string] => [name, variables[name] ?? ''])
  if (secretFile !== undefined) values.push([`the file ${secretFile}`, secret])
  return values.flatMap(([source, value]): [string, string][] => {
    const [, start] = REFERENCE.exec(value) ?? []
    return start === undefined ? [] : [[source, start.endsWith('(') ? `${start}…)` : `${start}…`]]
  })
}

/** The variables with the prefix of this package that it does not know, each with the name that may be meant. */
export function unknownVariables(variables: Variables): [name: string, similar: string | undefined][] {
  return unknownNames(variables).map((name) => [
    name,
    similarName(name, VARIABLE_NAMES) ?? VARIABLE_NAMES.find((one) => one.startsWith(name)),
  ])
}

/** The flags that can be used instead of variables. */
const FLAGS_BY_VARIABLE: Readonly<Record<string, string>> = {
  ...FLAG_OF,
  MERCHANT_AUTH_CLIENT_SECRET: FLAG_OF.MERCHANT_AUTH_CLIENT_SECRET_FILE,
}

/** The flag that can be used instead of a variable, which may have a place behind its name: `MERCHANT_AUTH_API_URLS[1]`. */
export function flagInsteadOf(option: string): string | undefined {
  const [variable = ''] = /^\w*/.exec(option) ?? []
  const flag = FLAGS_BY_VARIABLE[variable]
  return flag && `--${flag}`
}
