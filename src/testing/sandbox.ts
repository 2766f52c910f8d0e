/** The sandbox: the documented service on loopback, as two environments that know nothing of each other. */
import * as z from 'zod/mini'
import { copied, fn } from '../checks.ts'
import { ConfigurationError } from '../errors.ts'
import { checked } from './checked.ts'
import type { SandboxRequest } from './recorded.ts'
import { LoopbackEnvironment, type RequestListener, type SandboxEnvironment } from './sandbox-environment.ts'

/** Options of `startSandbox`. */
export interface SandboxOptions {
  /**
   * The ports (0 to 65535) on 127.0.0.1; 0: a free one.
   * @default { production: 0, test: 0 }
   */
  readonly ports?:
    | {
        /** That of `production`. */
        readonly production?: number | undefined
        /** That of `test`. */
        readonly test?: number | undefined
      }
    | undefined
  /**
   * Told of each request once, when it has been answered or its connection is closed before: a hang, when its client
   * gives up. The request is complete then. `close` resolves after the last call. A listener that throws disturbs
   * nothing.
   * @default undefined
   * @example
   * const onRequest = ({ method, path, status }) => console.log(method, path, status)
   * await using sandbox = await startSandbox({ onRequest })
   */
  readonly onRequest?: ((request: SandboxRequest, environment: 'production' | 'test') => void) | undefined
}

/** The service on loopback: two environments, each with its own port, audience, client and signing keys. */
export interface Sandbox extends AsyncDisposable {
  /** The environment named `production`. */
  readonly production: SandboxEnvironment
  /** The environment named `test`. */
  readonly test: SandboxEnvironment
  /** Ends all connections and frees the ports. Resolves when nothing of the sandbox is left; may be called again. */
  close(): Promise<void>
}

const PORT = 'must be a port from 0 to 65535'
const port = z.optional(z.int(PORT).check(z.gte(0, PORT), z.lte(65_535, PORT)))
const shape = copied(
  z.strictObject(
    {
      ports: z.optional(copied(z.strictObject({ production: port, test: port }, 'must be an object'))),
      onRequest: z.optional(fn<RequestListener>('must be a function')),
    },
    'must be an object',
  ),
)

/**
 * Starts the service on 127.0.0.1, for tests and for trying things out: token endpoints that issue signed tokens,
 * APIs that judge them and answer with what they received, and faults on demand. It keeps the process alive until
 * it is closed.
 *
 * @param options the ports; without them the system chooses free ones
 * @returns the sandbox, once it listens; `await using` closes it
 * @throws ConfigurationError (`ERR_CONFIGURATION`) with every wrong option, or with the port that is in use
 * @example
 * await using sandbox = await startSandbox()
 * const { environment, clientId, clientSecret, merchantUrl } = sandbox.test
 * await using tokens = createTokenProvider({ environment, clientId, clientSecret })
 * const response = await createAuthFetch(tokens)(`${merchantUrl}/orders`)
 */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const { ports, onRequest } = checked('The options of the sandbox', 'options', shape, options)
  const { production = 0, test = 0 } = ports ?? {}
  if (production !== 0 && production === test) {
    throw new ConfigurationError('The options of the sandbox cannot be used', [
      { option: 'ports.test', reason: 'is the port of production too' },
    ])
  }
  const starts = await Promise.allSettled([
    LoopbackEnvironment.start('production', { port: production, onRequest }),
    LoopbackEnvironment.start('test', { port: test, onRequest }),
  ])
  const [first, second] = starts
  if (first.status === 'fulfilled' && second.status === 'fulfilled') {
    return new LoopbackSandbox(first.value, second.value)
  }
  await Promise.all(starts.map((start) => (start.status === 'fulfilled' ? start.value.stop() : undefined)))
  throw starts.find((start) => start.status === 'rejected')?.reason
}

class LoopbackSandbox implements Sandbox {
  readonly production: SandboxEnvironment
  readonly test: SandboxEnvironment
  readonly #stop: () => Promise<unknown>
  #closed: Promise<unknown> | undefined

  constructor(production: LoopbackEnvironment, test: LoopbackEnvironment) {
    this.production = production
    this.test = test
    this.#stop = () => Promise.all([production.stop(), test.stop()])
  }

  async close(): Promise<void> {
    this.#closed ??= this.#stop()
    await this.#closed
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}
