/** Which command is meant, and what becomes of its errors. */
import { readFileSync } from 'node:fs'
import { ConfigurationError } from '../errors.ts'
import {
  type Command,
  type CommandContext,
  didYouMean,
  EXIT,
  helpRows,
  SIGNAL_CODES,
  UsageError,
} from './command.ts'
import { complain, printable, widthOf, wrap } from './terminal.ts'

/** Each is loaded only when it is needed: scripts ask for tokens often. */
const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  check: async () => (await import('./check.ts')).checkCommand,
  token: async () => (await import('./token.ts')).tokenCommand,
  sandbox: async () => (await import('./sandbox.ts')).sandboxCommand,
}

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
      const command = Object.hasOwn(COMMANDS, name) ? ` ${name}` : ''
      complain(stderr, error.message)
      stderr.write(`See: npx merchant-auth${command} --help\n`)
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
  const width = Math.min(80, widthOf(context.stdout))
  const command = await commandNamed(name)
  if (command !== undefined)
    return args.some(isHelp) ? print(command.help(width)) : await command.run(args, context)
  if (name === '--version' || name === '-v') return print(`${version()}\n`)
  if (isHelp(name) || name === 'help') {
    const about = await commandNamed(args[0])
    if (about === undefined && args[0] !== undefined) throw unknownCommand(args[0])
    return print(about?.help(width) ?? (await overview(width)))
  }
  if (name === '') {
    context.stderr.write(await overview(Math.min(80, widthOf(context.stderr))))
    return EXIT.usage
  }
  if (!name.startsWith('-')) throw unknownCommand(name)
  const meant = didYouMean(name, ['--help', '--version'])
  throw new UsageError(meant ? `Unknown flag.${meant}` : 'The command comes first: check, token or sandbox.')
}

function unknownCommand(name: string): UsageError {
  return new UsageError(`Unknown command.${didYouMean(name, [...Object.keys(COMMANDS), 'help'])}`)
}

async function commandNamed(name = ''): Promise<Command | undefined> {
  return Object.hasOwn(COMMANDS, name) ? await COMMANDS[name]?.() : undefined
}

async function overview(width: number): Promise<string> {
  const summaries = Object.entries(COMMANDS).map(
    async ([name, load]) => [name, (await load()).summary] as const,
  )
  return `${wrap('', "Access tokens for a payment service's APIs, on the command line.", width)}

Usage: npx merchant-auth COMMAND [flags]

Commands:
${helpRows(await Promise.all(summaries), width, 11)}

Flags:
${helpRows(
  [
    ['-h, --help', 'show this text, or, after a command, its own help'],
    ['-v, --version', 'show the version of the package'],
  ],
  width,
  17,
)}

Examples:
  npx merchant-auth sandbox > .env
  npx merchant-auth check --dotenv .env
  npx merchant-auth token --header | curl -H @- \\
    https://api.example.com/merchant/orders
`
}

/** The path is the same from src, from dist and from the package. */
function version(): string {
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { readonly version: string }).version
}
