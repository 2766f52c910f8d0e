/** Which command is meant, and what becomes of its errors. */
import { readFileSync } from 'node:fs'
import { ConfigurationError } from '../base/errors.ts'
import { printable } from '../base/redact.ts'
import { type Command, type CommandContext, didYouMean, EXIT, SIGNAL_CODES, UsageError } from './command.ts'
import { complain } from './terminal.ts'

/** Each is loaded only when it is needed: scripts ask for tokens often. */
const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  check: async () => (await import('./check.ts')).checkCommand,
  token: async () => (await import('./token.ts')).tokenCommand,
  sandbox: async () => (await import('./sandbox.ts')).sandboxCommand,
}

const OVERVIEW = `Access tokens for a payment service's APIs, on the command line.

Usage: npx merchant-auth COMMAND [flags]

Commands:
  check    check the configuration: what fails, why, and what to do about it
  token    print an access token
  sandbox  run the service on this machine, for development and tests

Flags:
  -h, --help     show this text, or, after a command, its own help
  -v, --version  show the version of the package
`

/** Runs the command that the arguments name. Resolves with the exit code, and never rejects. */
export async function runCommandLine(args: readonly string[], context: CommandContext): Promise<number> {
  const { stderr, signal } = context
  const [name = '', ...rest] = args
  try {
    const code = await run(name, rest, context)
    const signalCodes: Readonly<Record<string, number>> = SIGNAL_CODES
    return signal.aborted && code !== EXIT.ok ? (signalCodes[String(signal.reason)] ?? code) : code
  } catch (error) {
    if (error instanceof UsageError) {
      complain(stderr, error.message)
      stderr.write(`See: npx merchant-auth${Object.hasOwn(COMMANDS, name) ? ` ${name}` : ''} --help\n`)
      return EXIT.usage
    }
    if (error instanceof ConfigurationError) {
      for (const { option, reason } of error.problems) complain(stderr, `${option} ${reason}`)
      return EXIT.configuration
    }
    complain(stderr, error instanceof Error ? printable(error.message) : 'unexpected failure')
    return EXIT.unexpected
  }
}

async function run(name: string, args: readonly string[], context: CommandContext): Promise<number> {
  const isHelp = (arg: string): boolean => arg === '--help' || arg === '-h'
  const print = (text: string): number => {
    context.stdout.write(text)
    return EXIT.ok
  }
  if (name === '') {
    context.stderr.write(OVERVIEW)
    return EXIT.usage
  }
  if (name === '--version' || name === '-v') return print(`${version()}\n`)
  if (isHelp(name) || name === 'help')
    return print(args[0] === undefined ? OVERVIEW : (await commandNamed(args[0])).help)
  const command = await commandNamed(name)
  return args.some(isHelp) ? print(command.help) : await command.run(args, context)
}

/** @throws UsageError */
async function commandNamed(name: string): Promise<Command> {
  const load = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (load !== undefined) return await load()
  if (name.startsWith('-')) throw new UsageError('The command comes first: check, token or sandbox.')
  throw new UsageError(`Unknown command.${didYouMean(name, [...Object.keys(COMMANDS), 'help'])}`)
}

/** The path is the same from src, from dist and from the package. */
function version(): string {
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { readonly version: string }).version
}
