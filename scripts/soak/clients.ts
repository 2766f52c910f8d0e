/** A token provider with all clients that share it, replaced now and then by a fresh one. */
import { type AuthEvent, createTokenProvider, type TokenProvider } from 'merchant-auth'
import { createAuthDispatch } from 'merchant-auth/undici'
import { Agent, type Dispatcher, request } from 'undici'
import { AXIOS_FETCH, AXIOS_HTTP, type Client, FETCH, undiciDriver } from '../../test/clients/drivers.ts'
import type { Random } from '../../test/support/random.ts'
import type { Service } from './service.ts'

export const CLIENT_NAMES = ['axios http', 'axios fetch', 'fetch', 'undici'] as const
export type ClientName = (typeof CLIENT_NAMES)[number]

/** What all providers did. */
export class ProviderFigures {
  providers = 0
  failedAttempts = 0
  suppressed = 0
  renewed = { expiring: 0, rejected: 0 }
  readonly breaches: string[] = []
  /** The first events, to be searched for secrets. */
  readonly events: AuthEvent[] = []
}

export class Clients {
  readonly service: Service
  readonly provider: TokenProvider
  readonly calls: Readonly<Record<ClientName, Client>>
  /** The longest answer (bytes) that axios' http adapter takes. Its fetch adapter never closes the connection of a longer one. */
  readonly maxContentLength: number
  closedAt: number | undefined
  suppressedAt: number | undefined
  /** The newest tokens. */
  readonly tokens: string[] = []
  readonly #figures: ProviderFigures
  readonly #agent = new Agent()
  #inFlight = 0

  constructor(service: Service, figures: ProviderFigures, random: Random) {
    const { environment, clientId } = service.environment
    // Production has the token in another header.
    const attach = service.place === 'test' ? {} : { header: 'X-Api-Token', scheme: '' }
    this.service = service
    this.#figures = figures
    figures.providers += 1
    this.provider = createTokenProvider({
      environment,
      clientId,
      clientSecret: service.clientSecret,
      timeoutMs: random.between(1_600, 2_000),
      bodyFormat: random.chance(0.7) ? 'json' : 'form',
      fetch: (url, init) => this.#fetch(url, init),
      onEvent: (event) => this.#note(event),
    })
    this.maxContentLength = random.chance(0.5) ? 4_000_000 : -1
    const compose = (interceptor: unknown): Dispatcher =>
      this.#agent.compose(interceptor as Dispatcher.DispatcherComposeInterceptor)
    const own = class {
      readonly compose = compose
    }
    this.calls = {
      'axios http': AXIOS_HTTP.create(this.provider, attach),
      'axios fetch': AXIOS_FETCH.create(this.provider, attach),
      fetch: FETCH.create(this.provider, attach),
      undici: undiciDriver('undici', { Agent: own, request }, createAuthDispatch).create(
        this.provider,
        attach,
      ),
    }
  }

  async close(): Promise<void> {
    this.closedAt = Date.now()
    await this.provider.close()
    await this.#agent.close() // waits for the calls under way
  }

  /** The provider aborts its signal when it is done with an attempt, answered or not. */
  async #fetch(url: Parameters<typeof fetch>[0], init: RequestInit = {}): Promise<Response> {
    this.#inFlight += 1
    if (this.#inFlight > 1) this.#figures.breaches.push(`${this.#inFlight} token requests in flight`)
    init.signal?.addEventListener('abort', () => (this.#inFlight -= 1), { once: true })
    return await fetch(url, init)
  }

  #note(event: AuthEvent): void {
    const figures = this.#figures
    if (figures.events.length < 200) figures.events.push(event)
    if (event.type === 'token-request-failed') figures.failedAttempts += 1
    else if (event.type === 'token-renewed') figures.renewed[event.reason] += 1
    else if (event.type === 'renewal-suppressed') {
      figures.suppressed += 1
      this.suppressedAt = Date.now()
    } else if (event.type === 'token-acquired') {
      const value = this.provider.currentToken()?.value
      if (value !== undefined && this.tokens.unshift(value) > 3) this.tokens.pop()
    }
  }
}
