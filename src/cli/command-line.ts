/** Which command is meant, its help, and what becomes of its errors. */
import { readFileSync } from 'node:fs'
import { ConfigurationError } from '../errors.ts'
import { UsageError } from './arguments.ts'
import { type Command, EXIT, paint, printable, SIGNAL_CODES, type Surroundings } from './terminal.ts'

/** Each is loaded when it is asked for: scripts ask for tokens often. */
const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  check: async () => (await import('./check.ts')).checkCommand,
  token: async () => (await import('./token.ts')).tokenCommand,
  sandbox: async () => (await import('./sandbox.ts')).sandboxCommand,
}

const SIGNALS: Readonly<Record<string, number>> = SIGNAL_CODES

/** Runs the command that the arguments name. Resolves with the exit code, and never rejects. */
export async function runCommandLine(args: readonly string[], surroundings: Surroundings): Promise<number> {
  const { stdout, stderr, signal } = surroundings
  const [name = '', ...rest] = args
  try {
    const command = await commandNamed(name)
    if (command !== undefined) {
      if (rest.includes('--help') || rest.includes('-h')) return print(stdout, command.help)
      const code = await command.run(rest, surroundings)
      return signal.aborted && code !== EXIT.ok ? (SIGNALS[String(signal.reason)] ?? code) : code
    }
    if (name === '--version' || name === '-v') return print(stdout, `${version()}\n`)
    if (name === '--help' || name === '-h' || name === 'help') {
      const about = await commandNamed(rest[0])
      if (about === undefined && rest.length > 0) throw new UsageError('There is no such command.')
      return print(stdout, about?.help ?? (await overview()))
    }
    if (name.startsWith('-')) throw new UsageError('The command comes first: check, token or sandbox.')
    if (name !== '') throw new UsageError('There is no such command.')
    print(stderr, await overview())
    return EXIT.usage
  } catch (error) {
    const mark = paint('red', 'merchant-auth:', stderr)
    if (error instanceof UsageError) {
      const page = Object.hasOwn(COMMANDS, name) ? `merchant-auth ${name} --help` : 'merchant-auth --help'
      stderr.write(`${mark} ${error.message}\nTry: ${page}\n`)
      return EXIT.usage
    }
    stderr.write(`${mark} ${error instanceof Error ? printable(error.message) : 'unexpected failure'}\n`)
    return error instanceof ConfigurationError ? EXIT.configuration : EXIT.unexpected
  }
}

async function commandNamed(name = ''): Promise<Command | undefined> {
  return Object.hasOwn(COMMANDS, name) ? await COMMANDS[name]?.() : undefined
}

async function overview(): Promise<string> {
  const summaries = Object.entries(COMMANDS).map(
    async ([name, load]) => `  ${name.padEnd(9)}${(await load()).summary}`,
  )
  return `The access token of a payment service's merchant and in-store APIs, on the command line.

Usage: merchant-auth COMMAND [flags]

Commands:
${(await Promise.all(summaries)).join('\n')}

Flags:
  -h, --help     this text, or that of a command: merchant-auth check --help
  -v, --version  the version of the package

Examples:
  merchant-auth check --dotenv .env
  curl -H "Authorization: Bearer $(merchant-auth token)" https://api.example.com/merchant/orders
  merchant-auth sandbox --lifetime-seconds 30
`
}

function print(stream: Surroundings['stdout'], text: string): number {
  stream.write(text.endsWith('\n') ? text : `${text}\n`)
  return EXIT.ok
}

/** From where it stands in the sources, in `dist` and in the package alike. */
function version(): string {
  const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(manifest) as { readonly version: string }).version
}
