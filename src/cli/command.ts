/** What a command is, its exit codes, and its flags: one table of them is both parsed and printed as help. */
import { parseArgs } from 'node:util'
import { similarName } from '../names.ts'
import { type Keyboard, type Output, wrap } from './terminal.ts'

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
  /** Its purpose, on one line. */
  readonly summary: string
  /** The output of `--help`, in lines of at most so many columns. */
  help(width: number): string
  /**
   * Runs it, and leaves nothing behind. Resolves with the exit code.
   *
   * @throws UsageError where the arguments are invalid
   */
  run(args: readonly string[], context: CommandContext): Promise<number>
}

/** The exit codes, which scripts rely on. `merchant-auth check --help` explains them. */
export const EXIT = {
  ok: 0,
  unexpected: 1,
  usage: 2,
  configuration: 3,
  unreachable: 4,
  rejected: 5,
  unusable: 6,
  call: 7,
  pipe: 141, // 128 + SIGPIPE
} as const

/** Exit codes of commands that a signal ended, as in shells. */
export const SIGNAL_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const

/** An invalid command line. Its message never holds a value: it may be a secret in the wrong place. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** A flag. Without `value` it is a switch. */
export interface Flag {
  /** What the value is, for the help. */
  readonly value?: string
  /** Whether the value may be left out; then it follows `=`. */
  readonly optional?: true
  /** Whether the flag may be given several times. */
  readonly multiple?: true
  readonly mayBeEmpty?: true
  readonly choices?: readonly string[]
  /** The least and the greatest whole number. */
  readonly range?: readonly [number, number]
  /** The environment variable that it overrides. */
  readonly variable?: string
  readonly help: string
}

export type Flags = Readonly<Record<string, Flag>>

/** The values of the flags that were given. */
export type FlagValues<T extends Flags> = { readonly [K in keyof T]?: FlagValue<T[K]> }

type FlagValue<F extends Flag> = F extends { readonly multiple: true }
  ? readonly string[]
  : F extends { readonly range: readonly unknown[] }
    ? number
    : F extends { readonly choices: readonly (infer Choice)[] }
      ? Choice | (F extends { readonly optional: true } ? true : never)
      : F extends { readonly value: string }
        ? string
        : true

/**
 * Reads the flags.
 *
 * @throws UsageError
 */
export function parseFlags<const T extends Flags>(args: readonly string[], flags: T): FlagValues<T> {
  const typeOf = ({ value, optional }: Flag) => (value === undefined || optional ? 'boolean' : 'string')
  const options = Object.fromEntries(
    Object.entries<Flag>(flags).map(([name, flag]) => [name, { type: typeOf(flag) }] as const),
  )
  const { tokens } = parseArgs({ args: [...args], options, strict: false, tokens: true }) // strict: would repeat values
  const values: Record<string, unknown> = {}
  for (const token of tokens) {
    if (token.kind === 'positional')
      throw new UsageError('Unexpected argument. A value must follow its flag, as in --flag VALUE.')
    if (token.kind !== 'option') continue
    const { name, rawName } = token
    if (/(?:secret|assertion)$/i.test(name)) throw new UsageError(SECRET)
    if (name === 'env-file')
      throw new UsageError('Node.js handles --env-file itself. Use --dotenv FILE instead.')
    const flag = Object.hasOwn(flags, name) ? flags[name] : undefined
    // Part of a value may follow a short flag that does not exist: -pHUNTER2.
    if (!flag) {
      const shown = /^--[a-z-]{1,40}$/.test(rawName) ? ` ${rawName}` : ''
      throw new UsageError(
        `Unknown flag${shown}.${didYouMean(rawName, [...Object.keys(flags), 'help'], '--')}`,
      )
    }
    const value = readValue(flag, token)
    if (flag.multiple) values[name] = [values[name] ?? [], value].flat()
    else if (values[name] === undefined) values[name] = value
    else throw new UsageError(`${rawName} is given twice.`)
  }
  return values as FlagValues<T>
}

const SECRET =
  'A client secret or an assertion cannot be passed on the command line, where other users and the shell history see ' +
  'it. Set MERCHANT_AUTH_CLIENT_SECRET, or name a file with --client-secret-file or --client-assertion-file.'

type FlagToken = NonNullable<ReturnType<typeof parseArgs>['tokens']>[number] & { readonly kind: 'option' }

function readValue(flag: Flag, { rawName, value, inlineValue }: FlagToken): string | number | true {
  if (flag.value === undefined) {
    if (value !== undefined) throw new UsageError(`${rawName} takes no value.`)
    return true
  }
  if (value === undefined && flag.optional) return true
  const isNext = inlineValue !== true && (value?.startsWith('-') || (value === '' && !flag.mayBeEmpty))
  if (value === undefined || isNext) throw new UsageError(`${rawName} needs a value.`)
  if (flag.choices && !flag.choices.includes(value)) {
    throw new UsageError(`The value of ${rawName} must be ${oneOf(flag.choices)}.`)
  }
  if (!flag.range) return value
  const [least, most] = flag.range
  const number = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN
  if (number >= least && number <= most) return number
  throw new UsageError(`The value of ${rawName} must be a whole number from ${least} to ${most}.`)
}

/** ` Did you mean --json?`, or nothing. What was typed is not repeated. */
export function didYouMean(typed: string, names: readonly string[], prefix = ''): string {
  const meant = similarName(
    typed,
    names.map((name) => prefix + name),
  )
  return meant === undefined ? '' : ` Did you mean ${meant}?`
}

/** `a, b or c` */
export function oneOf(names: readonly string[], conjunction = 'or'): string {
  return names.length < 2 ? names.join() : `${names.slice(0, -1).join(', ')} ${conjunction} ${names.at(-1)}`
}

/** Rows for the help: a name on the left, a text on the right, or below where the terminal is narrow. */
export function helpRows(
  rows: readonly (readonly [name: string, text: string])[],
  width: number,
  column: number = width < 80 ? 6 : 29,
): string {
  const lines = rows.map(([name, text]) => {
    const left = `  ${name} `
    if (left.length <= column) return wrap(left.padEnd(column), text, width)
    return `${left.trimEnd()}\n${wrap(' '.repeat(column), text, width)}`
  })
  return lines.join('\n')
}

/** The flags for the help. */
export function flagsHelp(flags: Flags, width: number): string {
  const rows = Object.entries(flags).map(([name, { value, optional, variable, help }]) => {
    const shown = value === undefined ? '' : optional ? `[=${value}]` : ` ${value}`
    return [`--${name}${shown}`, variable === undefined ? help : `${help} [${variable}]`] as const
  })
  return helpRows(rows, width)
}
