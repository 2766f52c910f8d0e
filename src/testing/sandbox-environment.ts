/** One environment of the sandbox, as a test sees it: its address, its client, and what it may be told to do. */
import { randomBytes } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import * as z from 'zod/mini'
import { copyOf, text } from '../checks.ts'
import { type Environment, frozenEnvironment } from '../environments.ts'
import { hideGetters } from '../token/access-token.ts'
import { checked } from './checked.ts'
import { checkedTarget, type Fault } from './faults.ts'
import { Issuer } from './issuer.ts'
import { type LoopbackServer, listenOnLoopback } from './loopback.ts'
import type { SandboxCounts, SandboxRequest, SandboxTarget } from './recorded.ts'
import { Service } from './service.ts'
import { changedSettings, type SandboxSettings } from './settings.ts'

/** One environment of the sandbox. */
export interface SandboxEnvironment {
  /** Ready for `createTokenProvider`; its `apiUrls` are the merchant API and the in-store API. */
  readonly environment: Environment
  /** The client id that the token endpoint knows. */
  readonly clientId: string
  /** The client secret that it accepts from the start, another one in every sandbox. Appears in no print and no JSON. */
  readonly clientSecret: string
  /** Base URL of the merchant API. It answers any method and path below with what it received. */
  readonly merchantUrl: string
  /** Base URL of the in-store API. */
  readonly inStoreUrl: string
  /** How much it has received and given since it started, as of now: ask again for newer numbers. */
  readonly counts: SandboxCounts
  /**
   * Changes settings for requests that arrive from now on; those left out, or undefined, stay as they are.
   *
   * @throws ConfigurationError (`ERR_CONFIGURATION`) with every problem; then nothing is changed
   * @example
   * sandbox.test.configure({ lifetimeSeconds: 5, tokenLatencyMs: 200 })
   */
  configure(settings: Partial<SandboxSettings>): void
  /**
   * Which client secrets the token endpoint accepts from now on, instead of those before: two during a rotation,
   * none for a client that was locked. Tokens issued before stay valid.
   *
   * @throws ConfigurationError (`ERR_CONFIGURATION`) where one is not a non-empty string
   */
  acceptSecrets(...secrets: string[]): void
  /**
   * Revokes one token, named by its value or its `jti`, or without an argument all that were issued so far: the APIs
   * answer 401 to it from now on. Returns how many were valid until now.
   *
   * @throws ConfigurationError (`ERR_CONFIGURATION`) where the argument is there, but is no string
   */
  revoke(token?: string): number
  /**
   * Lets the next requests to a target meet a fault. Faults queue up: each target gives out its own in the order in
   * which they were given, one for each request that arrives. Returns the fault's id, which the answer carries as
   * `x-sandbox-fault` and the request in `requests()` as `fault`.
   *
   * @param options `times`: how many requests meet it (a whole number, at least 1, or Infinity: all until
   *   `clearFaults`); by default 1
   * @throws ConfigurationError (`ERR_CONFIGURATION`) with every problem
   * @example
   * sandbox.test.fail('token', { kind: 'status', status: 503, retryAfter: 1 }, { times: 2 })
   */
  fail(target: SandboxTarget, fault: Fault, options?: { readonly times?: number | undefined }): string
  /** Forgets the faults that wait, of one target or of all. A fault that a request has met goes on. */
  clearFaults(target?: SandboxTarget): void
  /**
   * The requests received, oldest first, of one target or of all: the last 10 000, and no more than have 256 MiB of
   * bodies. The list is a copy; an entry in it is completed while its request is being answered.
   */
  requests(target?: SandboxTarget): readonly SandboxRequest[]
  /** Forgets the requests received. The counts and the ids go on. */
  clearRequests(): void
}

/** The environments that a sandbox has. */
export type EnvironmentName = 'production' | 'test'

/** Listens for the requests of a sandbox that are over. */
export type RequestListener = (request: SandboxRequest, environment: EnvironmentName) => void

const secretList = z.array(text('must be a non-empty string'))
const tokenText = z.string("must be a token's value or its jti; without an argument all tokens are revoked")

/** One environment on a port of its own. */
export class LoopbackEnvironment implements SandboxEnvironment {
  readonly environment: Environment
  readonly clientId: string
  readonly merchantUrl: string
  readonly inStoreUrl: string
  readonly #clientSecret: string
  readonly #server: LoopbackServer
  readonly #service: Service

  private constructor(
    name: EnvironmentName,
    {
      server,
      keys,
      onRequest,
    }: {
      readonly server: LoopbackServer
      readonly keys: Awaited<ReturnType<typeof Issuer.createKeys>>
      readonly onRequest: RequestListener | undefined
    },
  ) {
    const url = `http://127.0.0.1:${(server.server.address() as AddressInfo).port}`
    const audience = `https://${name}.sandbox.example`
    this.merchantUrl = `${url}/merchant`
    this.inStoreUrl = `${url}/in-store`
    this.environment = frozenEnvironment({
      name,
      authUrl: url,
      audience,
      apiUrls: [this.merchantUrl, this.inStoreUrl],
    })
    this.clientId = `${name}-client`
    this.#clientSecret = `${name}-secret-${randomBytes(16).toString('hex')}`
    const client = { clientId: this.clientId, clientSecret: this.#clientSecret, audience }
    this.#service = new Service(client, {
      issuer: new Issuer(keys, { issuer: url, audience }),
      onRequest: (request) => tell(onRequest, request, name),
    })
    this.#server = server
    server.server.on('request', (request, response) => this.#service.handle(request, response))
  }

  /** @throws ConfigurationError where the port cannot be listened on */
  static async start(
    name: EnvironmentName,
    { port, onRequest }: { readonly port: number; readonly onRequest: RequestListener | undefined },
  ): Promise<LoopbackEnvironment> {
    const keys = await Issuer.createKeys()
    const server = await listenOnLoopback(port, `ports.${name}`)
    return new LoopbackEnvironment(name, { server, keys, onRequest })
  }

  async stop(): Promise<void> {
    await this.#server.stop()
    await this.#service.settled()
  }

  get clientSecret(): string {
    return this.#clientSecret
  }

  get counts(): SandboxCounts {
    return Object.freeze({ ...this.#service.recorded.counts })
  }

  configure(settings: Partial<SandboxSettings>): void {
    this.#service.settings = changedSettings(this.#service.settings, settings)
  }

  acceptSecrets(...secrets: string[]): void {
    this.#service.accept(checked('The client secrets', 'secrets', secretList, secrets))
  }

  revoke(...tokens: [token?: string]): number {
    // revoke(undefined) is a slip, not the wish to revoke all.
    const token = tokens.length === 0 ? undefined : checked('The token', 'token', tokenText, tokens[0])
    return this.#service.issuer.revoke(token)
  }

  fail(target: SandboxTarget, fault: Fault, options?: { readonly times?: number | undefined }): string {
    return this.#service.faults.add({ ...copyOf(options, []), target, fault })
  }

  clearFaults(target?: SandboxTarget): void {
    this.#service.faults.clear(target === undefined ? undefined : checkedTarget(target))
  }

  requests(target?: SandboxTarget): readonly SandboxRequest[] {
    return this.#service.recorded.requests(target === undefined ? undefined : checkedTarget(target))
  }

  clearRequests(): void {
    this.#service.recorded.clear()
  }
}

hideGetters(LoopbackEnvironment)

/** A listener that throws, or rejects, disturbs nothing. */
function tell(listener: RequestListener | undefined, request: SandboxRequest, name: EnvironmentName): void {
  try {
    const returned: unknown = listener?.(request, name)
    if (returned instanceof Promise) returned.catch(() => {})
  } catch {
    // Its fault is its own.
  }
}
