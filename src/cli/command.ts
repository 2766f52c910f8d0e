/** What a command is, its exit codes, and how its flags are parsed. */
import { type ParseArgsConfig, parseArgs } from 'node:util'
import { similarName } from '../base/similar-name.ts'
import type { Keyboard, Output } from './terminal.ts'

/** What a command gets instead of the process. */
export interface CommandContext {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stdout: Output
  readonly stderr: Output
  /** Where keys come from; absent where they are not for this process. Reading this opens the terminal. */
  readonly stdin?: Keyboard | undefined
  /** Aborted with the name of the signal that ends the process, or because stdout was closed. */
  readonly signal: AbortSignal
}

/** A command of `merchant-auth`. */
export interface Command {
  /** The output of `--help`. */
  readonly help: string
  /** The flags that it accepts: each is in its help. */
  readonly flags: Flags
  /**
   * Runs it, and leaves nothing behind. Resolves with the exit code.
   *
   * @throws UsageError where the arguments are invalid
   */
  run(args: readonly string[], context: CommandContext): Promise<number>
}

/** The exit codes, which scripts rely on. The help of `check` explains them, also to the manual. */
export const EXIT = {
  ok: 0,
  unexpected: 1,
  usage: 2,
  configuration: 3,
  unreachable: 4,
  rejected: 5,
  unusable: 6,
  call: 7,
  store: 8,
  pipe: 141, // 128 + SIGPIPE
} as const

/** Exit codes of commands that a signal ended, as in shells. */
export const SIGNAL_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143, SIGBREAK: 149 } as const

/** An invalid command line. Its message never holds a value: it may be a secret in the wrong place. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

type Flags = NonNullable<ParseArgsConfig['options']>

/** The values of the flags that were given. */
export type FlagValues<T extends Flags> = ReturnType<typeof parseArgs<{ readonly options: T }>>['values']

/**
 * Parses the flags.
 *
 * @throws UsageError
 */
export function parseFlags<const T extends Flags>(args: readonly string[], options: T): FlagValues<T> {
  // Not strict, to find in the tokens what is wrong: the messages of Node.js repeat arguments, and say it in words only.
  const { tokens } = parseArgs({ args: [...args], options, strict: false, tokens: true })
  for (const token of tokens) {
    if (token.kind === 'positional')
      throw new UsageError('Unexpected argument. A value must follow its flag, as in --flag VALUE.')
    if (token.kind === 'option') checkFlag(token, options)
  }
  return parseArgs({ args: [...args], options }).values
}

/** A flag, as `parseArgs` found it. */
interface FlagToken {
  readonly name: string
  readonly rawName: string
  readonly value: string | undefined
  readonly inlineValue: boolean | undefined
}

/** @throws UsageError */
function checkFlag({ name, rawName, value, inlineValue }: FlagToken, options: Flags): void {
  const option = Object.hasOwn(options, name) ? options[name] : undefined
  if (option === undefined) {
    // Another name may be a value without its flag.
    const flag = /^--[a-z-]+$/.test(rawName) ? rawName : undefined
    if (/(?:secret|assertion)$/.test(flag ?? '')) throw new UsageError(SECRET)
    const names = [...Object.keys(options), 'help'].map((known) => `--${known}`)
    throw new UsageError(
      flag === undefined ? 'Unknown flag.' : `Unknown flag ${flag}.${didYouMean(flag, names)}`,
    )
  }
  if (option.type === 'boolean' && value !== undefined) throw new UsageError(`${rawName} takes no value.`)
  if (option.type === 'string' && value === undefined) throw new UsageError(`${rawName} needs a value.`)
  if (value === "''" || value === '""')
    throw new UsageError(
      `${rawName} has two quotes as its value, which cmd.exe does not remove. No value: ${rawName}=`,
    )
  // It is more likely the next flag.
  if (option.type === 'string' && inlineValue === false && /^-./.test(value ?? ''))
    throw new UsageError(`${rawName} needs a value. One that begins with - is written ${rawName}=-…`)
}

const SECRET =
  'A client secret or an assertion cannot be passed on the command line, where other users and the shell history see ' +
  'it. Set MERCHANT_AUTH_CLIENT_SECRET, or name a file with --client-secret-file or --client-assertion-file.'

/**
 * The value of a flag that has only these values.
 *
 * @throws UsageError
 */
export function choiceOf<T extends string>(
  flag: string,
  value: string | undefined,
  choices: readonly T[],
): T | undefined {
  const choice = choices.find((one) => one === value)
  if (choice === value) return choice
  throw new UsageError(`The value of ${flag} must be ${oneOf(choices)}.`)
}

/** ` Did you mean check?`, or nothing. */
export function didYouMean(typed: string, names: readonly string[]): string {
  const meant = similarName(typed, names)
  return meant === undefined ? '' : ` Did you mean ${meant}?`
}

/** `a, b or c` */
export function oneOf(names: readonly string[], conjunction = 'or'): string {
  return names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} ${conjunction} ${names.at(-1)}`
}
