/** The arguments of a command: flags as `node:util` parses them, and refusals that repeat no value. */
import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'

/** A command line that makes no sense. Its message never holds a value: one may be a secret in the wrong place. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

type Values<T extends ParseArgsOptionsConfig> = ReturnType<
  typeof parseArgs<{ options: T; strict: true; allowPositionals: false }>
>['values']

/**
 * The values of the flags.
 *
 * @throws UsageError
 */
export function readArguments<T extends ParseArgsOptionsConfig>(
  args: readonly string[],
  options: T,
): Values<T> {
  const { tokens } = parseArgs({ args: [...args], options, strict: false, tokens: true })
  const seen = new Set<string>()
  for (const token of tokens) {
    if (token.kind === 'positional')
      throw new UsageError('An argument is not a flag. Values follow their flag.')
    if (token.kind !== 'option') continue
    const { name, rawName, value, inlineValue } = token
    if (/secret$/i.test(name)) throw new UsageError(SECRET)
    if (name === 'env-file')
      throw new UsageError('Node.js takes --env-file for itself. Name the file with --dotenv.')
    const option = Object.hasOwn(options, name) ? options[name] : undefined
    if (option === undefined) throw new UsageError(`There is no flag ${shownFlag(rawName)}.`)
    if (option.type === 'boolean' && value !== undefined) throw new UsageError(`${rawName} takes no value.`)
    const isFlag = inlineValue === false && value.startsWith('-')
    const isEmpty = value === '' && inlineValue === false && name !== 'scheme'
    if (option.type === 'string' && (value === undefined || isFlag || isEmpty)) {
      throw new UsageError(`${rawName} needs a value.`)
    }
    if (seen.has(name) && option.multiple !== true) throw new UsageError(`${rawName} is there twice.`)
    seen.add(name)
  }
  return parseArgs({ args: [...args], options, strict: true, allowPositionals: false }).values as Values<T>
}

const SECRET =
  'The client secret is never taken from the command line, where other users and the shell history see it. ' +
  'Set MERCHANT_AUTH_CLIENT_SECRET, or name a file with --client-secret-file.'

/** Part of a value may stand behind a flag that does not exist: `-pHUNTER2`. */
function shownFlag(rawName: string): string {
  return /^--[a-z-]{1,40}$/.test(rawName) ? rawName : 'of that name'
}

/** A whole number of a flag. */
export function wholeNumber(flag: string, text: string, [least, most]: readonly [number, number]): number {
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  if (value >= least && value <= most) return value
  throw new UsageError(`--${flag} must be a whole number from ${least} to ${most}.`)
}
