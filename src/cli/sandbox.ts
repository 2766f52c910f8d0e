/** `merchant-auth sandbox`: the sandbox of merchant-auth/testing in a terminal, from its start to its end. */
import { ConfigurationError } from '../errors.ts'
import { type Sandbox, type SandboxEnvironment, type SandboxRequest, startSandbox } from '../testing/index.ts'
import { isInForeground } from './sandbox-foreground.ts'
import { SANDBOX_HELP, welcome } from './sandbox-help.ts'
import { ACTIONS, type Keyboard, listenToKeys } from './sandbox-keys.ts'
import { type EnvironmentName, jsonLine, RequestLines } from './sandbox-lines.ts'
import { readPlan, type SandboxPlan } from './sandbox-plan.ts'
import { type Command, EXIT, isTerminal, paint, type Surroundings } from './terminal.ts'

/** What the command takes from the process besides its surroundings. */
export interface SandboxTerminal {
  /** Where keys come from. Asked for only where stderr is a terminal. */
  readonly stdin: () => Keyboard
  readonly isInForeground: () => boolean
}

/** The command, with a keyboard of the caller's choice. */
export function createSandboxCommand(terminal: SandboxTerminal): Command {
  return {
    summary: 'runs the service on this machine, for development and tests',
    help: SANDBOX_HELP,
    async run(args, surroundings) {
      const plan = readPlan(args)
      const faults = new FaultNames()
      const sandbox = await start(plan, { surroundings, faults })
      if (sandbox === undefined) return EXIT.configuration
      try {
        await play(sandbox, { plan, faults, surroundings, stdin: keyboard(plan, { terminal, surroundings }) })
      } finally {
        await sandbox.close()
      }
      return EXIT.ok
    },
  }
}

export const sandboxCommand: Command = createSandboxCommand({ stdin: () => process.stdin, isInForeground })

/** What the faults are called, each by its environment and id. */
class FaultNames {
  readonly #names = new Map<string, string>()

  add(environment: EnvironmentName, { id, label }: { readonly id: string; readonly label: string }): void {
    this.#names.set(`${environment} ${id}`, label)
  }

  of(environment: EnvironmentName, id: string | undefined): string | undefined {
    return this.#names.get(`${environment} ${id}`)
  }
}

/** Starts it as planned; undefined where a port cannot be had, which has been said then. */
async function start(
  { environment, ports, settings, faults: orders, isJson }: SandboxPlan,
  { surroundings: { stderr }, faults }: { readonly surroundings: Surroundings; readonly faults: FaultNames },
): Promise<Sandbox | undefined> {
  const lines = new RequestLines(stderr, environment)
  const onRequest = (request: SandboxRequest, environment: EnvironmentName): void => {
    const seen = { request, environment, fault: faults.of(environment, request.fault) }
    stderr.write(`${isJson ? jsonLine(seen) : lines.line(seen)}\n`)
  }
  try {
    const sandbox = await startSandbox({ ports, onRequest })
    for (const name of ['test', 'production'] as const) {
      sandbox[name].configure(settings)
      for (const { target, fault, times, label } of orders) {
        faults.add(name, { id: sandbox[name].fail(target, fault, { times }), label })
      }
    }
    return sandbox
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    for (const { option, reason } of error.problems) {
      const flag = option === 'ports.production' ? '--production-port' : '--port'
      stderr.write(`${paint('red', 'merchant-auth:', stderr)} ${flag} ${reason}.\n`)
    }
    return undefined
  }
}

/** The terminal that keys come from; undefined where nobody could see what they do, or where they are not ours. */
function keyboard(
  { isJson }: SandboxPlan,
  { terminal, surroundings }: { readonly terminal: SandboxTerminal; readonly surroundings: Surroundings },
): Keyboard | undefined {
  if (isJson || !isTerminal(surroundings.stderr)) return undefined
  const stdin = terminal.stdin()
  return stdin.isTTY === true && terminal.isInForeground() ? stdin : undefined
}

/** Lets people and programs use it until they have had enough. */
async function play(
  sandbox: Sandbox,
  {
    plan,
    faults,
    surroundings,
    stdin,
  }: {
    readonly plan: SandboxPlan
    readonly faults: FaultNames
    readonly surroundings: Surroundings
    readonly stdin: Keyboard | undefined
  },
): Promise<void> {
  const { signal, stdout, stderr } = surroundings
  const standing = new Set(
    plan.faults.flatMap(({ target, times }) => (Number.isFinite(times) ? [] : [target])),
  )
  const { promise: ended, resolve: end } = Promise.withResolvers<unknown>()
  const onKey = (key: string): void => {
    if (key === 'q') end(key)
    const action = Object.hasOwn(ACTIONS, key) ? ACTIONS[key] : undefined
    const done = action?.act({ sandbox, standing, onFault: (fault) => faults.add(fault.environment, fault) })
    if (done !== undefined) stderr.write(`${paint('cyan', `${key}: ${done}`, stderr)}\n`)
  }
  stdout.write(variables(sandbox[plan.environment]))
  if (!plan.isJson) stderr.write(welcome({ sandbox, plan, hasKeys: stdin !== undefined }, surroundings))
  const releaseKeys = stdin === undefined ? undefined : listenToKeys(stdin, onKey)
  signal.addEventListener('abort', end)
  try {
    if (!signal.aborted) await ended
  } finally {
    signal.removeEventListener('abort', end)
    releaseKeys?.()
  }
}

/** Lines that a shell and `node --env-file` read alike; no value has a sign that either takes for another. */
function variables({ environment, clientId, clientSecret }: SandboxEnvironment): string {
  return Object.entries({
    MERCHANT_AUTH_URL: environment.authUrl,
    MERCHANT_AUTH_AUDIENCE: environment.audience,
    MERCHANT_AUTH_API_URLS: environment.apiUrls.join(','),
    MERCHANT_AUTH_CLIENT_ID: clientId,
    MERCHANT_AUTH_CLIENT_SECRET: clientSecret,
  })
    .map(([name, value]) => `export ${name}=${value}\n`)
    .join('')
}
