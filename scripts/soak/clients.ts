/** A token provider with all clients that share it, replaced now and then by a fresh one. */
import axios, { type AxiosInstance } from 'axios'
import { type AuthEvent, createAuthFetch, createTokenProvider, type TokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { createAuthDispatch } from 'merchant-auth/undici'
import { Agent, type Dispatcher } from 'undici'
import type { Random } from '../../test/support/random.ts'
import type { Service } from './service.ts'

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
  readonly http: AxiosInstance
  readonly viaFetch: AxiosInstance
  readonly authFetch: typeof fetch
  readonly dispatcher: Dispatcher
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
    const maxContentLength = random.chance(0.5) ? 4_000_000 : -1
    this.http = axios.create({ adapter: 'http', maxContentLength })
    // Without a limit: axios' fetch adapter never closes the connection of an answer that is too long.
    this.viaFetch = axios.create({ adapter: 'fetch' })
    for (const instance of [this.http, this.viaFetch]) attachAuth(instance, this.provider, attach)
    this.authFetch = createAuthFetch(this.provider, attach)
    this.dispatcher = this.#agent.compose(createAuthDispatch(this.provider, attach))
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
