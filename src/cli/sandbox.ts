/** `merchant-auth sandbox`: the sandbox of merchant-auth/testing in a terminal, from its start to its end. */

import { ConfigurationError } from '../base/errors.ts'
import { onAbort } from '../base/waiting.ts'
import { tokenEndpoint } from '../environment/environment.ts'
import {
  type Sandbox,
  type SandboxClient,
  type SandboxEnvironment,
  type SandboxOptions,
  startSandbox,
} from '../testing/index.ts'
import {
  type Command,
  type CommandContext,
  choiceOf,
  EXIT,
  type FlagValues,
  parseFlags,
  UsageError,
} from './command.ts'
import { SandboxFaults } from './sandbox-faults.ts'
import { KEYS_HELP, listenToKeys, pressKey } from './sandbox-keys.ts'
import { jsonFormat, lineFormat } from './sandbox-log.ts'
import { HEADER_FLAGS } from './settings.ts'
import { type Keyboard, paint } from './terminal.ts'

const FLAGS = {
  environment: { type: 'string' },
  host: { type: 'string' },
  port: { type: 'string' },
  'production-port': { type: 'string' },
  client: { type: 'string', multiple: true },
  'token-path': { type: 'string' },
  'token-endpoint-auth-method': { type: 'string' },
  'shared-api-url': { type: 'boolean' },
  json: { type: 'boolean' },
  'lifetime-seconds': { type: 'string' },
  'token-latency-ms': { type: 'string' },
  'api-latency-ms': { type: 'string' },
  'reject-all-tokens': { type: 'string' },
  quota: { type: 'string' },
  'quota-counts-refused': { type: 'boolean' },
  'no-quota-headers': { type: 'boolean' },
  ...HEADER_FLAGS,
  fault: { type: 'string', multiple: true },
} as const

export const sandboxCommand: Command = {
  flags: FLAGS,
  help: `Usage: npx merchant-auth sandbox [flags]

Runs the service on this machine, as two environments, until Ctrl-C ends it.
Prints the variables for clients on stdout, and everything else on stderr.

  --environment NAME     whose variables: test or production; default: test
  --host HOST            name or address to listen on; default: 127.0.0.1.
                         0.0.0.0 is all: the network can get tokens, too
  --port N               port of test; default: 0, any free port
  --production-port N    port of production; default: 0
  --client ID:SECRET     accept this client, not a new one; repeatable; never
                         real credentials
  --token-path PATH      path of the token endpoint, which then needs no
                         audience; default: /oauth/token
  --token-endpoint-auth-method METHOD
                         client_secret_post (default) or client_secret_basic
  --shared-api-url       one base URL for both APIs
  --json                 log requests as JSON lines, for programs

Behavior of both environments:
  --lifetime-seconds N   lifetime of the tokens; default: 3600
  --token-latency-ms N   delay of the token endpoint; default: 0
  --api-latency-ms N     delay of the APIs; default: 0
  --reject-all-tokens    return 401 for every token; =merchant, =in-store
  --quota N/UNIT[,…]     limit of token requests, such as 10/h,50/d
  --quota-counts-refused  refused token requests count, too
  --no-quota-headers     a spent quota is announced by a 429 alone
  --header-name NAME     header that carries the token; default: Authorization
  --scheme SCHEME        scheme before the token, --scheme= for none;
                         default: Bearer
  --fault TARGET:KIND[,KEY=VALUE…]
                         what goes wrong (docs/command.md); repeatable;
                         TARGET: token, merchant or in-store;
                         KIND: status=N, json=JSON, text=TEXT, redirect=URL,
                         hang, slow-body=MS, huge-body, truncated-body, reset;
                         times=N limits it to N requests,
                         path=PATH to requests to a path and below it

Keys, in a terminal:
${KEYS_HELP}

Exit codes: 0 ended by Ctrl-C, q or SIGTERM, 2 command line, 3 host or port
not available

Example:
  npx merchant-auth sandbox --fault "token:status=503,times=3" > .env
`,

  async run(args, context) {
    const { stdout, stderr } = context
    // parseArgs has no flags whose value may be left out.
    const all = args.map((arg) => (arg === '--reject-all-tokens' ? `${arg}=all` : arg))
    const flags = parseFlags(all, FLAGS)
    const { json = false } = flags
    const environment = choiceOf('--environment', flags.environment, ['test', 'production']) ?? 'test'
    const showsClients = (flags.client ?? []).length > 1
    const format = json ? jsonFormat : lineFormat(stderr, { environment, showsClients })
    let faults: SandboxFaults | undefined
    const sandbox = await start(flags, (request, name) => {
      stderr.write(`${format(request, name, faults?.labelOf(request.fault))}\n`)
    })
    try {
      faults = new SandboxFaults(sandbox)
      for (const fault of flags.fault ?? []) faults.queueFlag(fault)
      const stdin = json || stderr.isTTY !== true ? undefined : context.stdin
      const keyboard = stdin?.isTTY === true ? stdin : undefined
      stdout.write(exports(sandbox[environment]))
      if (!json) {
        const bold = (text: string): string => paint('bold', text, stderr)
        stderr.write(`${bold('The sandbox is running.')} Press Ctrl-C to end it.\n\n`)
        stderr.write(`${urls(sandbox, bold)}\n`)
        if (sandbox.test.environment.allowInsecureRequests) stderr.write(`${OPEN}\n\n`)
        stderr.write(`${HOW_TO_BEGIN}\n\n`)
        if (keyboard !== undefined) stderr.write(`${bold('Keys')}\n${KEYS_HELP}\n\n`)
      }
      await untilEnded(faults, keyboard, context)
      return EXIT.ok
    } finally {
      await sandbox.close()
    }
  },
}

type SandboxFlags = FlagValues<typeof FLAGS>

/** `lifetimeSeconds` is `--lifetime-seconds`. */
function flagOf(option: string): string {
  if (option === 'ports.test') return '--port'
  if (option === 'ports.production') return '--production-port'
  if (option === 'header') return '--header-name'
  if (option.startsWith('clients')) return '--client'
  return `--${option.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
}

/**
 * @throws UsageError where a flag has an invalid value
 * @throws ConfigurationError where the host or a port cannot be used
 */
async function start(flags: SandboxFlags, onRequest: SandboxOptions['onRequest']): Promise<Sandbox> {
  const rejected = flags['reject-all-tokens']
  const numberOf = (text: string | undefined): number | undefined =>
    text === undefined ? text : Number(text)
  const options = {
    host: flags.host,
    clients: flags.client?.map(clientOf),
    ports: { test: numberOf(flags.port), production: numberOf(flags['production-port']) },
    tokenPath: flags['token-path'],
    tokenEndpointAuthMethod: flags['token-endpoint-auth-method'],
    sharedApiUrl: flags['shared-api-url'],
    onRequest,
    lifetimeSeconds: numberOf(flags['lifetime-seconds']),
    tokenLatencyMs: numberOf(flags['token-latency-ms']),
    apiLatencyMs: numberOf(flags['api-latency-ms']),
    rejectAllTokens: rejected === 'all' || (rejected && [rejected]),
    quota: flags.quota,
    quotaCountsRefused: flags['quota-counts-refused'],
    quotaHeaders: !flags['no-quota-headers'],
    header: flags['header-name'],
    scheme: flags.scheme,
  } as SandboxOptions // undefined where a flag is not given
  try {
    return await startSandbox(options)
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    const problems = error.problems.map((problem) => ({ ...problem, option: flagOf(problem.option) }))
    if (problems.some(({ kind }) => kind === 'unavailable'))
      throw new ConfigurationError('The sandbox cannot be started', problems)
    throw new UsageError(problems.map(({ option, reason }) => `${option} ${reason}`).join('; '))
  }
}

/** The client of a flag. The id ends at the first colon. */
function clientOf(flag: string): SandboxClient {
  const [, clientId, clientSecret] = /^([^:\s'"`]+):([^\s'"`]+)$/.exec(flag) ?? []
  if (clientId === undefined || clientSecret === undefined)
    throw new UsageError('--client must be ID:SECRET, without white space and quotes.')
  return { clientId, clientSecret }
}

/** Waits for the signal or the key that ends the sandbox, and does what other keys stand for. */
async function untilEnded(
  faults: SandboxFaults,
  keyboard: Keyboard | undefined,
  { signal, stderr }: CommandContext,
): Promise<void> {
  let releaseKeys: (() => void) | undefined
  let releaseSignal: (() => void) | undefined
  await new Promise<unknown>((end) => {
    const onKey = (key: string): void => {
      if (key === 'q') end(key)
      const done = pressKey(key, faults)
      if (done !== undefined) stderr.write(`${paint('cyan', `${key}: ${done}`, stderr)}\n`)
    }
    releaseKeys = keyboard && listenToKeys(keyboard, onKey)
    releaseSignal = onAbort(signal, end)
  })
  releaseSignal?.()
  releaseKeys?.()
}

/** Lines that a shell and `node --env-file` read alike. */
function exports({ variables }: SandboxEnvironment): string {
  return Object.entries(variables)
    .map(([name, value]) => `export ${name}=${/^[\w.:/=,-]*$/.test(value) ? value : `'${value}'`}\n`)
    .join('')
}

/** The URLs, for people. */
function urls({ test, production }: Sandbox, bold: (text: string) => string): string {
  const lines = [test, production].map(
    ({ environment, merchantUrl, inStoreUrl }) =>
      `  ${bold(String(environment.name).padEnd(10))}  token     ${tokenEndpoint(environment)}
              merchant  ${merchantUrl}
              in-store  ${inStoreUrl}\n`,
  )
  return lines.join('')
}

const OPEN = `Anyone who can reach this host can get tokens of the sandbox, and nothing is
encrypted. Never use real credentials.`

const HOW_TO_BEGIN = `Write the variables to a file, and use them in another terminal:
  npx merchant-auth sandbox > .env
  node --env-file=.env app.mjs
  npx merchant-auth check --dotenv .env`
