/** Which command is meant, and what becomes of its errors. */
import { readFileSync } from 'node:fs'
import { ConfigurationError } from '../errors.ts'
import { type Command, type CommandContext, EXIT, helpRows, SIGNAL_CODES, UsageError } from './command.ts'
import { paint, printable } from './terminal.ts'

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
    const mark = paint('red', 'merchant-auth:', stderr)
    if (error instanceof UsageError) {
      const command = Object.hasOwn(COMMANDS, name) ? ` ${name}` : ''
      stderr.write(`${mark} ${error.message}\nSee: merchant-auth${command} --help\n`)
      return EXIT.usage
    }
    if (error instanceof ConfigurationError) {
      for (const { option, reason } of error.problems) stderr.write(`${mark} ${option} ${reason}\n`)
      return EXIT.configuration
    }
    stderr.write(`${mark} ${error instanceof Error ? printable(error.message) : 'unexpected failure'}\n`)
    return EXIT.unexpected
  }
}

async function run(name: string, args: readonly string[], context: CommandContext): Promise<number> {
  const isHelp = (arg: string): boolean => arg === '--help' || arg === '-h'
  const print = (text: string): number => {
    context.stdout.write(text)
    return EXIT.ok
  }
  const command = await commandNamed(name)
  if (command !== undefined) return args.some(isHelp) ? print(command.help) : await command.run(args, context)
  if (name === '--version' || name === '-v') return print(`${version()}\n`)
  if (isHelp(name) || name === 'help') {
    const about = await commandNamed(args[0])
    if (about === undefined && args.length > 0) throw new UsageError('Unknown command.')
    return print(about?.help ?? (await overview()))
  }
  if (name === '') {
    context.stderr.write(await overview())
    return EXIT.usage
  }
  if (name.startsWith('-')) throw new UsageError('The command comes first: check, token or sandbox.')
  throw new UsageError('Unknown command.')
}

async function commandNamed(name = ''): Promise<Command | undefined> {
  return Object.hasOwn(COMMANDS, name) ? await COMMANDS[name]?.() : undefined
}

async function overview(): Promise<string> {
  const summaries = Object.entries(COMMANDS).map(
    async ([name, load]) => [name, (await load()).summary] as const,
  )
  return `Access tokens for a payment service's merchant and in-store APIs, on the command line.

Usage: merchant-auth COMMAND [flags]

Commands:
${helpRows(await Promise.all(summaries), 17)}

Flags:
  -h, --help     show this text, or the help of a command: merchant-auth check --help
  -v, --version  show the version of the package

Examples:
  merchant-auth check --dotenv .env
  curl -H "Authorization: Bearer $(merchant-auth token)" https://api.example.com/merchant/orders
  merchant-auth sandbox --lifetime-seconds 30
`
}

/** The path is the same from src, from dist and from the package. */
function version(): string {
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { readonly version: string }).version
}
