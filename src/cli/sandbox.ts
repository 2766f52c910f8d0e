/** `merchant-auth sandbox`: the sandbox of merchant-auth/testing in a terminal, from its start to its end. */
import { tokenEndpoint } from '../environments.ts'
import { ConfigurationError } from '../errors.ts'
import {
  type Sandbox,
  type SandboxEnvironment,
  type SandboxOptions,
  type SandboxSettings,
  startSandbox,
} from '../testing/index.ts'
import { isQuota } from '../testing/quota.ts'
import { onAbort } from '../waiting.ts'
import {
  type Command,
  type CommandContext,
  EXIT,
  type FlagValues,
  flagsHelp,
  helpRows,
  parseFlags,
  UsageError,
} from './command.ts'
import { faultsHelp, type QueuedFault, SandboxFaults } from './sandbox-faults.ts'
import { KEYS, listenToKeys, pressKey } from './sandbox-keys.ts'
import { jsonFormat, lineFormat } from './sandbox-log.ts'
import { HEADER_FLAGS, type Header, readHeader } from './settings.ts'
import { type Keyboard, paint, printable, widthOf, wrap } from './terminal.ts'

const MAX = 2 ** 31 - 1

const FLAGS = {
  environment: {
    value: 'NAME',
    choices: ['test', 'production'],
    help: 'environment whose variables are printed: test or production; default: test',
  },
  port: { value: 'N', range: [0, 65_535], help: 'port of test; default: 0, any free port' },
  'production-port': { value: 'N', range: [0, 65_535], help: 'port of production; default: 0' },
  json: { help: 'log requests as JSON lines on stderr, and write nothing else there' },
} as const

/** How both environments behave. */
const SETTINGS = {
  'lifetime-seconds': { value: 'N', range: [1, MAX], help: 'lifetime of the tokens; default: 3600' },
  'token-latency-ms': { value: 'N', range: [0, MAX], help: 'delay of the token endpoint; default: 0' },
  'api-latency-ms': { value: 'N', range: [0, MAX], help: 'delay of the APIs; default: 0' },
  'reject-all-tokens': {
    value: 'API',
    optional: true,
    choices: ['merchant', 'in-store'],
    help: 'return 401 for every token; API: only from merchant or in-store',
  },
  quota: {
    value: 'N/UNIT[,…]',
    help: 'token requests that a client may make by minute, hour or day, such as 10/h,50/d; default: no limit',
  },
  ...HEADER_FLAGS,
  fault: {
    value: 'TARGET:KIND[,KEY=VALUE…]',
    multiple: true,
    help: 'what goes wrong; repeatable; TARGET: token, merchant or in-store',
  },
} as const

const keysHelp = (width: number): string => helpRows(Object.entries(KEYS), width, 5)

const ABOUT =
  'Runs the service on this machine, for development and tests: a token endpoint that issues signed tokens, and a ' +
  'merchant API and an in-store API that check them and return what they received. It runs two environments, test and ' +
  'production, on 127.0.0.1, until Ctrl-C ends it.'
const OUTPUT = 'Prints the environment variables for clients on stdout, and everything else on stderr.'
const KEYS_TITLE =
  'Keys, where stdin and stderr are a terminal (they affect both environments; not with --json):'

const EXIT_CODES = [
  ['0', 'ended by Ctrl-C, q or SIGTERM'],
  ['2', 'the command line is invalid'],
  ['3', 'a port cannot be used'],
] as const

export const sandboxCommand: Command = {
  summary: 'run the service on this machine, for development and tests',
  help: (width) => `${wrap('', ABOUT, width)}

Usage: npx merchant-auth sandbox [flags]

${wrap('', OUTPUT, width)}

${flagsHelp(FLAGS, width)}

Behavior of both environments:
${flagsHelp(SETTINGS, width)}

${faultsHelp(width)}

${wrap('', KEYS_TITLE, width)}
${keysHelp(width)}

Exit codes:
${helpRows(EXIT_CODES, width, 5)}

Examples:
  npx merchant-auth sandbox > .env
  node --env-file=.env app.mjs   # in another terminal
  npx merchant-auth check --dotenv .env
  npx merchant-auth sandbox --lifetime-seconds 30
  npx merchant-auth sandbox --fault token:status=503,times=3
  npx merchant-auth sandbox --json 2>&1 > .env |
    jq 'select(.status >= 400)'
`,

  async run(args, context) {
    const { stdout, stderr } = context
    const flags = parseFlags(args, { ...FLAGS, ...SETTINGS })
    const { environment = 'test', json = false } = flags
    const header = readHeader(flags)
    const settings = settingsOf(flags, header)
    const format = json ? jsonFormat : lineFormat(stderr, environment)
    let faults: SandboxFaults | undefined
    const sandbox = await start(flags, (request, name) => {
      stderr.write(`${format(request, name, faults?.labelOf(request.fault))}\n`)
    })
    try {
      faults = new SandboxFaults(sandbox)
      for (const one of faults.environments) one.configure(settings)
      const queued: QueuedFault[] = []
      for (const fault of flags.fault ?? []) queued.push(faults.queueFlag(fault))
      const stdin = json || stderr.isTTY !== true ? undefined : context.stdin
      const keyboard = stdin?.isTTY === true ? stdin : undefined
      stdout.write(variables(sandbox[environment]))
      if (!json) {
        stderr.write(welcome(sandbox, environment, header, context))
        if (queued.length > 0) stderr.write(`${paint('bold', 'Faults', stderr)}\n${faultLines(queued)}\n`)
        if (keyboard !== undefined)
          stderr.write(`${paint('bold', 'Keys', stderr)}\n${keysHelp(widthOf(stderr))}\n\n`)
      }
      await untilEnded(faults, keyboard, context)
      return EXIT.ok
    } finally {
      await sandbox.close()
    }
  },
}

type SandboxFlags = FlagValues<typeof FLAGS & typeof SETTINGS>

/** @throws ConfigurationError where a port cannot be used, by its flag */
async function start(flags: SandboxFlags, onRequest: SandboxOptions['onRequest']): Promise<Sandbox> {
  try {
    const ports = { test: flags.port, production: flags['production-port'] }
    return await startSandbox({ ports, onRequest })
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    const flagOf = (option: string): string =>
      option === 'ports.production' ? '--production-port' : '--port'
    const problems = error.problems.map(({ option, reason }) => ({ option: flagOf(option), reason }))
    throw new ConfigurationError('The sandbox cannot be started', problems)
  }
}

function settingsOf(flags: SandboxFlags, header: Header): Partial<SandboxSettings> {
  const { quota = '' } = flags
  if (!isQuota(quota))
    throw new UsageError(
      '--quota must be N/UNIT, separated by commas, such as 10/h,50/d. The units are m, h and d.',
    )
  const rejected = flags['reject-all-tokens'] ?? false
  return {
    lifetimeSeconds: flags['lifetime-seconds'] ?? 3600,
    tokenLatencyMs: flags['token-latency-ms'] ?? 0,
    apiLatencyMs: flags['api-latency-ms'] ?? 0,
    rejectAllTokens: typeof rejected === 'string' ? [rejected] : rejected,
    quota,
    ...header,
  }
}

/** Waits for the signal or the key that ends the sandbox, and does what other keys stand for. */
async function untilEnded(
  faults: SandboxFaults,
  keyboard: Keyboard | undefined,
  { signal, stderr }: CommandContext,
): Promise<void> {
  const { promise: ended, resolve: end } = Promise.withResolvers<unknown>()
  const onKey = (key: string): void => {
    if (key === 'q') end(key)
    const done = pressKey(key, faults)
    if (done !== undefined) stderr.write(`${paint('cyan', `${key}: ${done}`, stderr)}\n`)
  }
  const releaseKeys = keyboard && listenToKeys(keyboard, onKey)
  const releaseSignal = onAbort(signal, end)
  await ended
  releaseSignal()
  releaseKeys?.()
}

/** Lines that a shell and `node --env-file` read alike: no value needs quotes. */
function variables({ environment, clientId, clientSecret }: SandboxEnvironment): string {
  return Object.entries({
    URL: environment.authUrl,
    AUDIENCE: environment.audience,
    API_URLS: Object.entries(environment.apiUrls)
      .map((entry) => entry.join('='))
      .join(','),
    CLIENT_ID: clientId,
    CLIENT_SECRET: clientSecret,
  })
    .map(([name, value]) => `export MERCHANT_AUTH_${name}=${value}\n`)
    .join('')
}

/** For people: the URLs, and how to begin. */
function welcome(
  sandbox: Sandbox,
  name: 'test' | 'production',
  header: Header,
  context: CommandContext,
): string {
  const bold = (text: string): string => paint('bold', text, context.stderr)
  const urls = (['test', 'production'] as const).map((name) => {
    const { environment, merchantUrl, inStoreUrl } = sandbox[name]
    return `  ${bold(name.padEnd(10))}  token     ${tokenEndpoint(environment)}
              merchant  ${merchantUrl}
              in-store  ${inStoreUrl}\n`
  })
  return `${bold('The sandbox is running.')} Press Ctrl-C to end it.

${urls.join('')}
${howToBegin(sandbox[name], header, context)}

`
}

/** Commands for another terminal. */
function howToBegin(
  { environment, merchantUrl }: SandboxEnvironment,
  { header, scheme }: Header,
  { stdout, stderr }: CommandContext,
): string {
  const width = widthOf(stderr)
  if (stdout.isTTY !== true) {
    // The name of the file is not known.
    const first = `In another terminal, if the variables of ${environment.name} went to a file such as .env:`
    return `${wrap('', first, width)}
  node --env-file=.env app.mjs
  npx merchant-auth check --dotenv .env`
  }
  const first = `In another terminal, paste the variables of ${environment.name} above, and then run:`
  // A shell interprets $ and ` between double quotes.
  const before = `${header}: ${scheme === '' ? '' : `${scheme} `}`.replace(/[$`]/g, '\\$&')
  return `${wrap('', first, width)}
  curl -H "${before}$(npx merchant-auth token)" \\
    ${merchantUrl}/orders
Or write the variables to a file:
  npx merchant-auth sandbox > .env`
}

function faultLines(queued: readonly QueuedFault[]): string {
  const lines = queued.map(({ target, label, times }) => {
    const count = Number.isFinite(times) ? ` (${times} ${times === 1 ? 'time' : 'times'})` : ''
    return `  ${target.padEnd(10)}  ${printable(label, 48)}${count}\n`
  })
  return lines.join('')
}
