/** One token provider under observation: its requests get names, its events and tokens are written down. */
import { type AuthEvent, createTokenProvider, type TokenProvider } from 'merchant-auth'
import type { Place, Story, TokenFailure, TokenTry } from './evidence.ts'
import { type Ledger, TOKEN_TRY_HEADER } from './ledger.ts'
import type { Vault } from './vault.ts'

const MOST_REMEMBERED = 60

/** What all providers together did. */
export interface ProviderFigures {
  failedAttempts: number
  failedRequests: number
  renewedAhead: number
  renewedAfterRejection: number
  suppressed: number
  providers: number
  readonly breaches: string[]
  readonly events: AuthEvent[]
}

export interface ProviderPlan {
  readonly id: string
  readonly place: Place
  readonly timeoutMs: number
  readonly bodyFormat: 'json' | 'form'
  readonly vault: Vault
  readonly ledger: Ledger
  readonly figures: ProviderFigures
  /** Called when a token request has failed for good for the nth time in a row. */
  onFailure(inARow: number): void
}

export class ObservedProvider implements Story {
  readonly id: string
  readonly place: Place
  readonly tokens = new Map<string, { value: string; issuedAt: number; expiresAt: number }>()
  readonly tries: TokenTry[] = []
  readonly failures: TokenFailure[] = []
  readonly acquiredAt: number[] = []
  readonly suppressed: { at: number; api: string | undefined }[] = []
  readonly provider: TokenProvider
  inARow = 0
  readonly #plan: ProviderPlan
  #inFlight = 0
  #lastTry = 0
  #gapMs = 0

  constructor(plan: ProviderPlan) {
    this.id = plan.id
    this.place = plan.place
    this.#plan = plan
    const { environment, clientId } = plan.ledger.at(plan.place)
    plan.figures.providers += 1
    this.provider = createTokenProvider({
      environment,
      clientId,
      clientSecret: plan.vault.source,
      timeoutMs: plan.timeoutMs,
      bodyFormat: plan.bodyFormat,
      fetch: (url, init) => this.#fetch(url, init),
      onEvent: (event) => this.#told(event),
    })
  }

  /** The newest tokens, for the search for secrets. */
  newestTokens(): string[] {
    return [...this.tokens.values()].slice(-3).map(({ value }) => value)
  }

  async close(): Promise<void> {
    const trouble = this.#plan.ledger.trouble('close', { id: `close-${this.id}`, place: this.place })
    await this.provider.close()
    this.#plan.ledger.over(trouble)
  }

  async #fetch(url: Parameters<typeof fetch>[0], init: RequestInit = {}): Promise<Response> {
    this.#lastTry += 1
    const id = `${this.id}-${this.#lastTry}`
    const tried: TokenTry = { id, startedAt: Date.now(), endedAt: Number.POSITIVE_INFINITY }
    remember(this.tries, tried)
    this.#plan.ledger.expect(tried)
    this.#inFlight += 1
    if (this.#inFlight > 1) {
      this.#plan.figures.breaches.push(`${id}: ${this.#inFlight} token requests in flight (contract 3.1)`)
    }
    let over = false
    const end = (): void => {
      if (over) return
      over = true
      tried.endedAt = Date.now()
      this.#inFlight -= 1
      init.signal?.removeEventListener('abort', end)
    }
    // The provider ends its signal when it is done with an attempt, answered or not.
    init.signal?.addEventListener('abort', end, { once: true })
    return await fetch(url, { ...init, headers: { ...init.headers, [TOKEN_TRY_HEADER]: id } })
  }

  #told(event: AuthEvent): void {
    const { figures } = this.#plan
    const at = Date.now()
    if (figures.events.length < 200) figures.events.push(event)
    if (event.type === 'token-acquired') {
      this.inARow = 0
      this.#gapMs = 0
      remember(this.acquiredAt, at)
      this.#noteToken()
    }
    if (event.type === 'renewal-suppressed') {
      figures.suppressed += 1
      remember(this.suppressed, { at, api: event.api })
    }
    if (event.type === 'token-renewed') {
      if (event.reason === 'expiring') figures.renewedAhead += 1
      else figures.renewedAfterRejection += 1
    }
    if (event.type !== 'token-request-failed') return
    figures.failedAttempts += 1
    if (event.nextTryMs !== undefined) return
    figures.failedRequests += 1
    this.inARow += 1
    // Contract 3.6: 1 s, doubling to 5 s; to 30 s after a 4xx.
    const limitMs = event.status !== undefined && event.status >= 400 && event.status < 500 ? 30_000 : 5_000
    this.#gapMs = Math.min(this.#gapMs === 0 ? 1_000 : this.#gapMs * 2, limitMs)
    const noSecret = event.code === 'ERR_CLIENT_SECRET'
    remember(this.failures, {
      at,
      code: event.code,
      status: event.status,
      attempts: event.attempt,
      tried: noSecret ? undefined : this.tries.at(-1),
      cooldownMs: this.#gapMs,
    })
    this.#plan.onFailure(this.inARow)
  }

  #noteToken(): void {
    const value = this.provider.currentToken()?.value
    if (value === undefined) return
    const claims = JSON.parse(Buffer.from(value.split('.')[1] ?? '', 'base64url').toString()) as {
      jti: string
      iat: number
      exp: number
    }
    this.tokens.set(claims.jti, { value, issuedAt: claims.iat * 1000, expiresAt: claims.exp * 1000 })
    const [oldest] = this.tokens.keys()
    if (this.tokens.size > MOST_REMEMBERED && oldest !== undefined) this.tokens.delete(oldest)
  }
}

function remember<T>(list: T[], one: T): void {
  list.push(one)
  if (list.length > MOST_REMEMBERED) list.shift()
}
