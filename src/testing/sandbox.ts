/** The sandbox: the documented service on this machine, as two environments that share nothing. */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { frozenEnvironment, isLoopback, tokenEndpoint } from '../environment/environment.ts'
import { Exchange, type SandboxServer, startServer } from './exchange.ts'
import { answerWithFault, FaultQueue, isBelow, type UsualAnswer } from './faults.ts'
import { RequestQuota } from './quota.ts'
import {
  headersOf,
  hide,
  hideIn,
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
  type KnownClient,
  readTokenRequest,
  tokenAnswer,
  tokenError,
  tokenErrorOf,
  tokenOf,
} from './service.ts'
import { changedSettings, checkedOptions, DEFAULT_SETTINGS } from './settings.ts'
import type {
  Fault,
  FaultOptions,
  Sandbox,
  SandboxClient,
  SandboxCounts,
  SandboxEnvironment,
  SandboxOptions,
  SandboxRequest,
  SandboxSettings,
  SandboxTarget,
} from './types.ts'
import { variablesOf } from './variables.ts'

/**
 * Starts the service on this machine, for tests and for trying things out: token endpoints that issue signed tokens,
 * APIs that check them and return what they received, and faults on demand. It keeps the process alive until
 * it is closed.
 *
 * @param options the settings of both environments, their clients, the host, the ports and a listener; by default the system
 *   chooses free ports
 * @returns the sandbox, once it listens; `await using` closes it
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every wrong option, or with the host or the port that is not
 *   available
 * @example
 * await using sandbox = await startSandbox()
 * await using tokens = createTokenProvider(sandbox.test.options)
 * const response = await createAuthFetch(tokens)(`${sandbox.test.merchantUrl}/orders`)
 */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const {
    host = '127.0.0.1',
    ports = {},
    clients,
    onRequest,
    sharedApiUrl = false,
    tokenPath,
    tokenEndpointAuthMethod,
    ...settings
  } = checkedOptions(options)
  const fixed = { clients, sharedApiUrl, onRequest, tokenPath, tokenEndpointAuthMethod }
  const servers: SandboxServer[] = []
  const start = async (name: 'production' | 'test'): Promise<RunningEnvironment> => {
    const server = await startServer({ host, port: ports[name] ?? 0, option: `ports.${name}` })
    servers.push(server)
    // At once: the first request may have arrived.
    const environment = new RunningEnvironment(name, server, fixed)
    environment.configure(settings)
    return environment
  }
  let stopped: Promise<unknown> | undefined
  const close = async (): Promise<void> => {
    stopped ??= Promise.all(servers.map((server) => server.stop()))
    await stopped
  }
  const [production, test] = await Promise.allSettled([start('production'), start('test')])
  if (production.status === 'fulfilled' && test.status === 'fulfilled')
    return { production: production.value, test: test.value, close, [Symbol.asyncDispose]: close }
  await close()
  throw [production, test].find((started) => started.status === 'rejected')?.reason
}

/** Whom a token request names that cannot be read, or has an id that no client has. */
const NOBODY: KnownClient = { clientId: '', secrets: new Set(), quota: new RequestQuota('') }

const REJECTS_ALL = 'The API rejects every token at the moment'

/** One environment on its own port: first what a test may tell it to do, then how it responds to requests. */
class RunningEnvironment implements SandboxEnvironment {
  readonly environment: SandboxEnvironment['environment']
  readonly variables: SandboxEnvironment['variables']
  readonly clientId: string
  readonly clientSecret: string
  readonly merchantUrl: string
  readonly inStoreUrl: string
  readonly #issuer: Issuer
  readonly #faults = new FaultQueue()
  readonly #log = new RequestLog()
  readonly #known: KnownCredentials & { readonly secrets: Set<string> }
  /** By id. */
  readonly #clients: ReadonlyMap<unknown, KnownClient>
  #settings = DEFAULT_SETTINGS
  readonly #usedIds = new Set<string>()
  readonly #authMethod: SandboxOptions['tokenEndpointAuthMethod']

  constructor(
    name: 'production' | 'test',
    server: SandboxServer,
    { clients, sharedApiUrl, onRequest, tokenPath, tokenEndpointAuthMethod }: SandboxOptions,
  ) {
    const authUrl = server.origin
    const audience = `https://${name}.sandbox.example`
    const paths = sharedApiUrl ? (['/api', '/api'] as const) : (['/merchant', '/in-store'] as const)
    const apiUrls = { merchant: authUrl + paths[0], inStore: authUrl + paths[1] }
    this.merchantUrl = apiUrls.merchant
    this.inStoreUrl = apiUrls.inStore
    const isInsecure = !isLoopback(new URL(authUrl).hostname)
    this.environment = frozenEnvironment({
      ...{ name, authUrl, apiUrls },
      ...(tokenPath === undefined ? { audience } : { tokenPath }),
      ...(isInsecure && { allowInsecureRequests: true }),
    })
    this.#authMethod = tokenEndpointAuthMethod
    const own = {
      clientId: `${name}-client`,
      clientSecret: `${name}-secret-${randomBytes(16).toString('hex')}`,
    }
    const [first = own, ...others]: readonly SandboxClient[] = clients ?? []
    this.clientId = first.clientId
    this.clientSecret = first.clientSecret
    this.variables = variablesOf(this.environment, first, tokenEndpointAuthMethod)
    this.#clients = new Map(
      [first, ...others].map(({ clientId, clientSecret }) => [
        clientId,
        { clientId, secrets: new Set([clientSecret]), quota: new RequestQuota('') },
      ]),
    )
    this.#issuer = new Issuer({ issuer: authUrl, audience })
    this.#known = {
      secrets: new Set([this.clientSecret]),
      furtherSecrets: others.map(({ clientSecret }) => clientSecret),
      jtiOf: (token) => this.#issuer.jtiOf(token),
    }
    const report = async (request: SandboxRequest): Promise<void> => onRequest?.(request, name)
    server.handle(async (request, response) => {
      const recorded = await this.#handle(request, response)
      report(recorded).catch(() => {}) // what the listener throws or rejects with
    })
  }

  get options(): SandboxEnvironment['options'] {
    const { environment, clientId, clientSecret } = this
    const method = this.#authMethod
    return {
      ...{ environment, clientId, clientSecret: () => clientSecret },
      ...(method && { tokenEndpointAuthMethod: method }),
    }
  }

  get counts(): SandboxCounts {
    return { ...this.#log.counts }
  }

  configure(settings: Partial<SandboxSettings>): void {
    this.#settings = changedSettings(this.#settings, settings)
    if (settings.quota === undefined) return
    for (const client of this.#clients.values()) client.quota = new RequestQuota(settings.quota)
  }

  acceptSecrets(...secrets: string[]): void {
    const client = this.#clients.get(this.clientId)
    if (client !== undefined) client.secrets = new Set(secrets)
    for (const secret of secrets) this.#known.secrets.add(secret)
  }

  revoke(token?: string): number {
    return this.#issuer.revoke(token)
  }

  fail(target: SandboxTarget, fault: Fault, options?: FaultOptions): string {
    return this.#faults.add({ ...options, target, fault })
  }

  clearFaults(target?: SandboxTarget): void {
    this.#faults.clear(target)
  }

  requests(target?: SandboxTarget): readonly SandboxRequest[] {
    return this.#log.requests(target)
  }

  clearRequests(): void {
    this.#log.clear()
  }

  /** Answers a request. Resolves when it is over, with what is recorded of it. */
  async #handle(request: IncomingMessage, response: ServerResponse): Promise<RecordedRequest> {
    const startedAt = performance.now()
    const path = request.url ?? '/'
    const target = targetOf(path, this)
    const queued = this.#faults.take(target, pathnameOf(path))
    const recorded = this.#log.arrived({
      at: Date.now(),
      ...(target && { target }),
      method: request.method ?? 'GET',
      path: hide(path, this.#known),
      headers: hideIn(headersOf(request), this.#known),
      ...(queued && { fault: queued.id }),
    })
    const exchange = new Exchange(request, response, (status, error) => {
      this.#log.answered(recorded, status, error)
      return {
        'x-request-id': String(recorded.id),
        ...(queued && { 'x-sandbox-fault': queued.id }),
        ...(target === 'token' &&
          this.#clients.get(recorded.clientId)?.quota.headers(Date.now(), this.#settings)),
      }
    })
    const duration = exchange.over.then(() => performance.now() - startedAt)
    try {
      const usual = await this.#receive(recorded, exchange)
      if (!exchange.gone) {
        if (queued === undefined) exchange.send(await usual())
        else await answerWithFault(exchange, queued.fault, usual)
      }
    } catch (error) {
      if (response.headersSent) request.socket.destroy()
      else exchange.send(tokenError(500, 'server_error', `The sandbox failed: ${String(error)}`))
    }
    recorded.durationMs = await duration
    return recorded
  }

  /** Reads a request, and waits as long as its target does. Resolves with what creates the usual response. */
  async #receive(recorded: RecordedRequest, exchange: Exchange): Promise<UsualAnswer> {
    if (recorded.target === 'token') return await this.#receiveTokenRequest(recorded, exchange)
    if (recorded.target !== undefined)
      return await this.#receiveApiRequest(recorded.target, recorded, exchange)
    await exchange.readBody()
    return () => apiError(404, 'not_found')
  }

  async #receiveTokenRequest(recorded: RecordedRequest, exchange: Exchange): Promise<UsualAnswer> {
    const settings = this.#settings
    const body = await exchange.readBody()
    const read = readTokenRequest(exchange.request.headers, body, {
      ...settings,
      isBasic: this.#authMethod === 'client_secret_basic',
      needsAudience: this.environment.audience !== undefined,
    })
    if (read.fields !== undefined) recorded.fields = hideIn(read.fields, this.#known)
    const client = this.#clients.get(read.credentials?.['client_id']) ?? NOBODY
    if (client !== NOBODY) recorded.clientId = client.clientId
    const isSpent = client.quota.charge(Date.now(), settings)
    await exchange.wait(settings.tokenLatencyMs)
    return async () => {
      if (isSpent) return tokenError(429, 'too_many_requests', 'The quota of token requests is spent')
      const error = await tokenErrorOf(recorded.method, read, {
        endpoint: tokenEndpoint(this.environment),
        authUrl: this.environment.authUrl,
        audience: this.environment.audience,
        client,
        assertionKey: settings.assertionKey,
        usedIds: this.#usedIds,
      })
      if (error !== undefined) return error
      const { lifetimeSeconds } = this.#settings
      const { value, jti } = await this.#issuer.issue(client.clientId, lifetimeSeconds)
      this.#log.counts.issued += 1
      recorded.jti = jti
      return tokenAnswer(value, lifetimeSeconds)
    }
  }

  async #receiveApiRequest(api: Api, recorded: RecordedRequest, exchange: Exchange): Promise<UsualAnswer> {
    const settings = this.#settings
    const { apiLatencyMs, rejectAllTokens } = settings
    const token = tokenOf(headersOf(exchange.request), settings)
    // Before the body: the token is checked as it is on arrival.
    const verdict = token === undefined ? undefined : this.#issuer.check(token)
    const body = await exchange.readBody()
    Object.assign(recorded, verdict?.token)
    recorded.body = body
    await exchange.wait(typeof apiLatencyMs === 'number' ? apiLatencyMs : apiLatencyMs())
    return () => {
      if (verdict === undefined) return apiUnauthorized(api)
      const rejectsAll = rejectAllTokens === true || [rejectAllTokens].flat().includes(api)
      const problem = rejectsAll ? REJECTS_ALL : verdict.problem
      return problem === undefined ? apiEcho(api, recorded, body) : apiUnauthorized(api, problem)
    }
  }
}

function targetOf(
  path: string,
  { environment, merchantUrl, inStoreUrl }: SandboxEnvironment,
): SandboxTarget | undefined {
  const pathname = pathnameOf(path)
  if (pathname === new URL(tokenEndpoint(environment)).pathname) return 'token'
  if (isBelow(pathname, new URL(merchantUrl).pathname)) return 'merchant' // and the in-store API, too, if they share a base URL
  return isBelow(pathname, new URL(inStoreUrl).pathname) ? 'in-store' : undefined
}

function pathnameOf(path: string): string {
  return path.split('?')[0] ?? path
}
