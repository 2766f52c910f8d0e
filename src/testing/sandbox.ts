/** The sandbox: the documented service on loopback, as two environments that share nothing. */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import * as z from 'zod/mini'
import { copied, copyOf, fn, text } from '../checks.ts'
import { frozenEnvironment } from '../environments.ts'
import { ConfigurationError } from '../errors.ts'
import { hideGetters } from '../token/access-token.ts'
import { Exchange, type LoopbackServer, listenOnLoopback } from './exchange.ts'
import { answerWithFault, checkedTarget, FaultQueues, type UsualAnswer } from './faults.ts'
import {
  headersOf,
  hide,
  hideFields,
  hideHeaders,
  type KnownCredentials,
  type RecordedRequest,
  RequestLog,
} from './requests.ts'
import {
  type Api,
  apiEcho,
  apiError,
  apiUnauthorized,
  Issuer,
  readTokenRequest,
  tokenAnswer,
  tokenError,
  tokenErrorOf,
  tokenOf,
} from './service.ts'
import { apiLatencyOf, changedSettings, checked, DEFAULT_SETTINGS, rejectsAllTokens } from './settings.ts'
import type {
  Fault,
  Sandbox,
  SandboxCounts,
  SandboxEnvironment,
  SandboxOptions,
  SandboxRequest,
  SandboxSettings,
  SandboxTarget,
} from './types.ts'

type EnvironmentName = 'production' | 'test'
type RequestListener = NonNullable<SandboxOptions['onRequest']>

const PORT = 'must be a port from 0 to 65535'
const port = z.optional(z.int(PORT).check(z.gte(0, PORT), z.lte(65_535, PORT)))
const optionsShape = copied(
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
 * APIs that check them and answer with what they received, and faults on demand. It keeps the process alive until
 * it is closed.
 *
 * @param options the ports and a listener; by default the system chooses free ports
 * @returns the sandbox, once it listens; `await using` closes it
 * @throws ConfigurationError (`ERR_CONFIGURATION`) with every wrong option, or with the port that is in use
 * @example
 * await using sandbox = await startSandbox()
 * const { environment, clientId, clientSecret, merchantUrl } = sandbox.test
 * await using tokens = createTokenProvider({ environment, clientId, clientSecret })
 * const response = await createAuthFetch(tokens)(`${merchantUrl}/orders`)
 */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const { ports, onRequest } = checked('The options of the sandbox', 'options', optionsShape, options)
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
  const environments = starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value] : []))
  const stop = async (): Promise<void> => void (await Promise.all(environments.map((one) => one.stop())))
  const [first, second] = environments
  if (first === undefined || second === undefined) {
    await stop()
    throw starts.find((start) => start.status === 'rejected')?.reason
  }
  let stopped: Promise<void> | undefined
  const close = (): Promise<void> => {
    stopped ??= stop()
    return stopped
  }
  return { production: first, test: second, close, [Symbol.asyncDispose]: close }
}

const secretList = z.array(text('must be a non-empty string'))
const tokenText = z.string("must be a token's value or its jti; without an argument all tokens are revoked")
const REJECTS_ALL = 'The API rejects every token at the moment'
const TOO_LONG = 'The body must not be longer than 10 MiB'

interface Call {
  readonly exchange: Exchange
  readonly recorded: RecordedRequest
}

/** One environment on its own port: first what a test may tell it to do, then how it answers requests. */
class LoopbackEnvironment implements SandboxEnvironment {
  readonly environment: SandboxEnvironment['environment']
  readonly clientId: string
  readonly merchantUrl: string
  readonly inStoreUrl: string
  readonly #clientSecret: string
  readonly #server: LoopbackServer
  readonly #issuer: Issuer
  readonly #onRequest: (request: SandboxRequest) => void
  readonly #faults = new FaultQueues()
  readonly #log = new RequestLog()
  readonly #pending = new Set<Promise<void>>()
  readonly #known: KnownCredentials & { readonly secrets: Set<string> }
  #accepted: ReadonlySet<string>
  #settings = DEFAULT_SETTINGS

  private constructor(
    environment: SandboxEnvironment['environment'],
    parts: {
      readonly server: LoopbackServer
      readonly issuer: Issuer
      readonly onRequest: (request: SandboxRequest) => void
    },
  ) {
    const { name, apiUrls } = environment
    this.environment = environment
    this.clientId = `${name}-client`
    this.#clientSecret = `${name}-secret-${randomBytes(16).toString('hex')}`
    this.merchantUrl = apiUrls.merchant
    this.inStoreUrl = apiUrls.inStore
    this.#server = parts.server
    this.#issuer = parts.issuer
    this.#onRequest = parts.onRequest
    this.#accepted = new Set([this.#clientSecret])
    this.#known = { secrets: new Set(this.#accepted), jtiOf: (token) => this.#issuer.jtiOf(token) }
    this.#server.server.on('request', (request, response) => {
      const handled = this.#handle(request, response)
      this.#pending.add(handled)
      handled.finally(() => this.#pending.delete(handled))
    })
  }

  /** @throws ConfigurationError if the port is not available */
  static async start(
    name: EnvironmentName,
    { port, onRequest }: { readonly port: number; readonly onRequest: RequestListener | undefined },
  ): Promise<LoopbackEnvironment> {
    const keys = await Issuer.createKeys()
    const server = await listenOnLoopback(port, `ports.${name}`)
    const authUrl = `http://127.0.0.1:${(server.server.address() as AddressInfo).port}`
    const audience = `https://${name}.sandbox.example`
    const apiUrls = { merchant: `${authUrl}/merchant`, inStore: `${authUrl}/in-store` }
    return new LoopbackEnvironment(frozenEnvironment({ name, authUrl, audience, apiUrls }), {
      server,
      issuer: new Issuer(keys, { issuer: authUrl, audience }),
      onRequest: (request) => callSafely(onRequest, request, name),
    })
  }

  /** Resolves when all requests are over and `onRequest` was called for the last one. */
  async stop(): Promise<void> {
    await this.#server.stop()
    await Promise.all(this.#pending)
  }

  get clientSecret(): string {
    return this.#clientSecret
  }

  get counts(): SandboxCounts {
    return Object.freeze({ ...this.#log.counts })
  }

  configure(settings: Partial<SandboxSettings>): void {
    this.#settings = changedSettings(this.#settings, settings)
  }

  acceptSecrets(...secrets: string[]): void {
    this.#accepted = new Set(checked('The client secrets', 'secrets', secretList, secrets))
    for (const secret of this.#accepted) this.#known.secrets.add(secret)
  }

  revoke(...tokens: [token?: string]): number {
    // revoke(undefined) is a mistake, and must not revoke all.
    if (tokens.length === 0) return this.#issuer.revoke(undefined)
    return this.#issuer.revoke(checked('The token', 'token', tokenText, tokens[0]))
  }

  fail(target: SandboxTarget, fault: Fault, options?: { readonly times?: number | undefined }): string {
    return this.#faults.add({ ...copyOf(options, []), target, fault })
  }

  clearFaults(target?: SandboxTarget): void {
    this.#faults.clear(target === undefined ? undefined : checkedTarget(target))
  }

  requests(target?: SandboxTarget): readonly SandboxRequest[] {
    return this.#log.requests(target === undefined ? undefined : checkedTarget(target))
  }

  clearRequests(): void {
    this.#log.clear()
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const startedAt = performance.now()
    const path = pathOf(request.url ?? '/')
    const target = targetOf(path)
    const ordered = target && this.#faults.take(target)
    const recorded = this.#log.arrived({
      at: Date.now(),
      ...(target && { target }),
      method: request.method ?? 'GET',
      path: hide(path, this.#known),
      headers: hideHeaders(headersOf(request), this.#settings.header.toLowerCase(), this.#known),
      ...(ordered && { fault: ordered.id }),
    })
    const exchange = new Exchange(request, response, (status, error) => {
      this.#log.answered(recorded, status, error)
      return { 'x-request-id': String(recorded.id), ...(ordered && { 'x-sandbox-fault': ordered.id }) }
    })
    const duration = exchange.over.then(() => performance.now() - startedAt)
    try {
      const usual = await this.#receive({ exchange, recorded })
      if (!exchange.gone) {
        if (ordered === undefined) exchange.send(await usual())
        else await answerWithFault(exchange, ordered.fault, usual)
      }
    } catch (error) {
      if (response.headersSent) request.socket.destroy()
      else exchange.send(tokenError(500, 'server_error', `The sandbox failed: ${String(error)}`))
    }
    recorded.durationMs = await duration
    this.#onRequest(recorded)
  }

  /** Reads a request, and waits as long as its target does. Resolves with what creates the usual answer. */
  async #receive(call: Call): Promise<UsualAnswer> {
    const { target } = call.recorded
    if (target === 'token') return await this.#receiveTokenRequest(call)
    if (target !== undefined) return await this.#receiveApiRequest(target, call)
    await call.exchange.readBody()
    return () => apiError(404, { code: 'not_found' })
  }

  async #receiveTokenRequest({ exchange, recorded }: Call): Promise<UsualAnswer> {
    const { tokenLatencyMs } = this.#settings
    const body = await exchange.readBody()
    const read = body && readTokenRequest(exchange.request.headers['content-type'], body)
    if (read?.fields !== undefined) recorded.fields = hideFields(read.fields, this.#known)
    await exchange.wait(tokenLatencyMs)
    return async () => {
      if (read === undefined) return tokenError(413, 'invalid_request', TOO_LONG)
      const { clientId, environment } = this
      const client = { clientId, audience: environment.audience, secrets: this.#accepted }
      const error = tokenErrorOf(recorded.method, read, client)
      if (error !== undefined) return error
      const { lifetimeSeconds } = this.#settings
      const { value, jti } = await this.#issuer.issue(clientId, lifetimeSeconds)
      this.#log.counts.issued += 1
      recorded.jti = jti
      return tokenAnswer(value, lifetimeSeconds)
    }
  }

  async #receiveApiRequest(api: Api, { exchange, recorded }: Call): Promise<UsualAnswer> {
    const settings = this.#settings
    const token = tokenOf(headersOf(exchange.request), settings)
    // Both at once: the token is checked as it is on arrival, and no chunk of the body is missed.
    const [verdict, body] = await Promise.all([
      token === undefined ? undefined : this.#issuer.check(token),
      exchange.readBody(),
    ])
    if (verdict?.jti !== undefined) recorded.jti = verdict.jti
    if (body !== undefined) this.#log.received(recorded, body)
    await exchange.wait(apiLatencyOf(settings))
    return () => {
      if (body === undefined) return apiError(413, { code: 'content_too_large' })
      if (verdict === undefined) return apiUnauthorized(api)
      const problem = rejectsAllTokens(settings, api) ? REJECTS_ALL : verdict.problem
      return problem === undefined ? apiEcho(api, recorded, body) : apiUnauthorized(api, problem)
    }
  }
}

hideGetters(LoopbackEnvironment)

/** What an `onRequest` listener throws, or rejects with, is suppressed. */
function callSafely(listener: RequestListener | undefined, ...given: Parameters<RequestListener>): void {
  try {
    const returned: unknown = listener?.(...given)
    if (returned instanceof Promise) returned.catch(() => {})
  } catch {}
}

/** Path and query of a request target (RFC 9112 §3.2), which is an absolute URL if the client takes this for a proxy. */
function pathOf(url: string): string {
  if (url.startsWith('/') || !URL.canParse(url)) return url
  const { pathname, search } = new URL(url)
  return pathname + search
}

function targetOf(path: string): SandboxTarget | undefined {
  const [pathname = ''] = path.split('?')
  if (pathname === '/oauth/token') return 'token'
  return (['merchant', 'in-store'] as const).find((api) => `${pathname}/`.startsWith(`/${api}/`))
}
