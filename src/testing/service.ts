/** The service behind one port: which request goes where, what it meets there, and what is noted of it. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Api, apiAnswer, rejectsAll, tokenOf } from './api.ts'
import { type Answer, Exchange, errorAnswer } from './exchange.ts'
import { answerWithFault } from './fault-answers.ts'
import { FaultQueues } from './faults.ts'
import { hide, hideHeaders, type KnownCredentials } from './hidden.ts'
import type { Issuer, Verdict } from './issuer.ts'
import { Recorded, type RecordedRequest, type SandboxRequest, type SandboxTarget } from './recorded.ts'
import { apiLatencyOf, DEFAULT_SETTINGS, type SandboxSettings } from './settings.ts'
import { answerTokenRequest, readTokenRequest, refusal } from './token-endpoint.ts'

/** The client that the service knows. */
export interface SandboxClient {
  readonly clientId: string
  readonly clientSecret: string
  readonly audience: string
}

const SCOPE = 'merchant'
const TOO_LONG = 'The body must not be longer than 10 MiB'

/** Answers the requests of one environment. */
export class Service {
  settings: SandboxSettings = DEFAULT_SETTINGS
  accepted: ReadonlySet<string>
  readonly faults: FaultQueues = new FaultQueues()
  readonly recorded: Recorded = new Recorded()
  readonly issuer: Issuer
  readonly #client: SandboxClient
  readonly #credentials: KnownCredentials & { readonly secrets: Set<string> }
  readonly #onRequest: (request: SandboxRequest) => void
  readonly #underWay = new Set<Promise<void>>()

  /** @param parts `onRequest` is told of each request that is over */
  constructor(
    client: SandboxClient,
    { issuer, onRequest }: { readonly issuer: Issuer; readonly onRequest: (request: SandboxRequest) => void },
  ) {
    this.#client = client
    this.issuer = issuer
    this.#onRequest = onRequest
    this.accepted = new Set([client.clientSecret])
    this.#credentials = { secrets: new Set(this.accepted), jtiOf: (token) => issuer.jtiOf(token) }
  }

  accept(secrets: readonly string[]): void {
    this.accepted = new Set(secrets)
    for (const secret of secrets) this.#credentials.secrets.add(secret)
  }

  /** Answers a request. Whatever goes wrong in here becomes a 500, or ends the connection. */
  handle(request: IncomingMessage, response: ServerResponse): void {
    const handled = this.#handle(this.#arrived(request, response))
    this.#underWay.add(handled)
    handled.finally(() => this.#underWay.delete(handled))
  }

  /** Resolves when all requests received so far are over, and told of. */
  async settled(): Promise<void> {
    await Promise.all(this.#underWay)
  }

  async #handle(exchange: Exchange): Promise<void> {
    const { recorded, request, response } = exchange
    const startedAt = performance.now()
    const duration = exchange.over().then(() => performance.now() - startedAt)
    try {
      await this.#answer(exchange)
    } catch (error) {
      if (response.headersSent) request.socket.destroy()
      else exchange.send(refusal(500, 'server_error', `The sandbox failed: ${String(error)}`))
    }
    recorded.durationMs = await duration
    this.#onRequest(recorded)
  }

  #arrived(request: IncomingMessage, response: ServerResponse): Exchange {
    const path = pathOf(request.url ?? '/')
    const target = targetOf(path)
    const ordered = target === undefined ? undefined : this.faults.take(target)
    const tokenHeader = this.settings.header.toLowerCase()
    const recorded = this.recorded.arrived({
      at: Date.now(),
      ...(target === undefined ? undefined : { target }),
      method: request.method ?? 'GET',
      path: hide(path, this.#credentials),
      headers: hideHeaders(headersOf(request), tokenHeader, this.#credentials),
      ...(ordered === undefined ? undefined : { fault: ordered.id }),
    })
    const onStatus = (status: number): void => {
      if (status === 401 && target !== undefined && target !== 'token') this.recorded.counts.unauthorized += 1
    }
    return new Exchange(request, response, { recorded, ordered, onStatus })
  }

  async #answer(exchange: Exchange): Promise<void> {
    const { target } = exchange.recorded
    if (target === 'token') return this.#answerToken(exchange)
    if (target !== undefined) return this.#answerApi(exchange, target)
    await exchange.readBody()
    exchange.send(errorAnswer(404, { code: 'not_found' }))
  }

  async #answerToken(exchange: Exchange): Promise<void> {
    const { recorded, request } = exchange
    const { tokenLatencyMs } = this.settings
    const body = await exchange.readBody()
    const read = body === undefined ? {} : readTokenRequest(request.headers['content-type'], body)
    if (read.fields !== undefined) recorded.fields = this.#shownFields(read.fields)
    await exchange.wait(tokenLatencyMs)
    await this.#finish(exchange, () =>
      body === undefined
        ? refusal(413, 'invalid_request', TOO_LONG)
        : answerTokenRequest(recorded.method, read, {
            clientId: this.#client.clientId,
            audience: this.#client.audience,
            accepted: this.accepted,
            issue: () => this.#issue(recorded),
          }),
    )
  }

  async #issue(
    recorded: RecordedRequest,
  ): Promise<{ value: string; scope: string; lifetimeSeconds: number }> {
    const { lifetimeSeconds } = this.settings
    const value = await this.issuer.issue(this.#client.clientId, SCOPE, lifetimeSeconds)
    this.recorded.counts.issued += 1
    const jti = this.issuer.jtiOf(value)
    if (jti !== undefined) recorded.jti = jti
    return { value, scope: SCOPE, lifetimeSeconds }
  }

  async #answerApi(exchange: Exchange, api: Api): Promise<void> {
    const { recorded, request } = exchange
    const { settings } = this
    // Both begin now: the token is judged as it is on arrival, and no chunk is missed.
    const [verdict, body] = await Promise.all([
      this.#judge(api, tokenOf(headersOf(request), settings)),
      exchange.readBody(),
    ])
    if (verdict?.jti !== undefined) recorded.jti = verdict.jti
    if (body !== undefined) this.recorded.received(recorded, body)
    await exchange.wait(apiLatencyOf(settings))
    await this.#finish(exchange, () =>
      body === undefined
        ? errorAnswer(413, { code: 'content_too_large' })
        : apiAnswer(api, verdict, recorded, body),
    )
  }

  async #judge(api: Api, token: string | undefined): Promise<Verdict | undefined> {
    if (token === undefined) return undefined
    const rejectsEveryToken = rejectsAll(api, this.settings)
    const verdict = await this.issuer.judge(token)
    return rejectsEveryToken ? { ...verdict, problem: 'The API rejects every token at the moment' } : verdict
  }

  async #finish(exchange: Exchange, usual: () => Answer | Promise<Answer>): Promise<void> {
    if (exchange.gone) return
    if (exchange.ordered === undefined) exchange.send(await usual())
    else await answerWithFault(exchange, exchange.ordered.fault, usual)
  }

  /** The secret is hidden under its own name, whatever it is, and wherever else it stands. */
  #shownFields(fields: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
    return JSON.parse(JSON.stringify(fields), (name, value: unknown) => {
      if (name === 'client_secret') return '[hidden]'
      return typeof value === 'string' ? hide(value, this.#credentials) : value
    })
  }
}

/** Path and query of a request target (RFC 9112 §3.2), which is an absolute URL where a proxy is believed to be here. */
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

/** The headers as they came: one that came twice is joined, not dropped. */
function headersOf({ rawHeaders }: IncomingMessage): Record<string, string> {
  const headers = new Map<string, string>()
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = String(rawHeaders[index]).toLowerCase()
    const before = headers.get(name)
    const value = String(rawHeaders[index + 1])
    headers.set(name, before === undefined ? value : `${before}, ${value}`)
  }
  return Object.fromEntries(headers)
}
