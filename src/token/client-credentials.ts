/** The current token of one client: look, wait, renew (RFC 6749 §4.4). */
import { Mutex } from 'async-mutex'
import pMemoize from 'p-memoize'
import { type Destinations, destinationsOf } from '../destinations.ts'
import type { Environment } from '../environments.ts'
import { copyForCaller, ProviderClosedError, type TokenRequestError } from '../errors.ts'
import { createEmit, type Emit, rememberOutlet } from '../events.ts'
import type { ResolvedOptions } from '../options.ts'
import { UsedSecrets } from '../redact.ts'
import { throwIfAborted, Waiters } from '../waiting.ts'
import type { AccessToken } from './access-token.ts'
import { Cooldown, RenewalRation } from './cooldown.ts'
import { expiredOnArrival, type HeldToken } from './held-token.ts'
import type { TokenProvider } from './token-provider.ts'
import { TokenSource, type Want } from './token-source.ts'

// A look after a wait finds the token gone only where a clock jumped in between; this ends the looking.
const MOST_LOOKS = 3
const MOST_AHEAD_PAUSE_MS = 1_000

/** What a token is taken for. */
interface Taking extends Omit<Want, 'deadline' | 'ahead'> {
  readonly startedAt: number
  /** Whether nobody waits for it. */
  readonly background?: boolean
}

/** Holds the token of one client and renews it. One for each provider. */
export class ClientCredentialsProvider implements TokenProvider {
  readonly environment: Environment
  readonly #options: ResolvedOptions
  readonly #emit: Emit
  readonly #destinations: Destinations
  readonly #closing = new AbortController()
  readonly #secrets = new UsedSecrets()
  /** The total order over the token endpoint: whoever wants to ask it does so in here, after a second look. */
  readonly #endpointLock = new Mutex()
  readonly #cooldown = new Cooldown()
  readonly #rations = new Map<string | undefined, RenewalRation>()
  #held: HeldToken | undefined
  /** How many tokens there have been. */
  #tokens = 0
  #lastFailure: unknown
  readonly #waiters = new Waiters()
  #renewingAhead = false
  /** When (monotonic ms) to see whether another process has renewed it. */
  #aheadAt = Number.NEGATIVE_INFINITY
  readonly #source: TokenSource

  /** Callers without a token share one acquisition. What it yields is put in place under the lock. */
  static readonly #acquire = pMemoize((provider: ClientCredentialsProvider) => provider.#acquireNow(), {
    cache: false,
  })

  /**
   * All who had the current token rejected by the same API, which has its own ration, share one renewal. The key names
   * the token by its number, as it may be seen where its value should not.
   */
  static readonly #replace = pMemoize(
    (provider: ClientCredentialsProvider, rejected: string, api: string | undefined) =>
      provider.#replaceNow(rejected, api),
    { cache: false, cacheKey: ([provider, , api]) => `${provider.#id} ${provider.#tokens} ${api}` },
  )
  static #created = 0
  /** Tells providers apart: what they share is made once for all, and there may be thousands of them. */
  readonly #id = ++ClientCredentialsProvider.#created

  constructor(options: ResolvedOptions) {
    this.environment = options.environment
    this.#options = options
    this.#destinations = destinationsOf(options.environment)
    this.#emit = createEmit(options.onEvent, options.environment.name)
    rememberOutlet(this, { emit: this.#emit, secrets: this.#secrets })
    this.#source = new TokenSource(options, {
      emit: this.#emit,
      secrets: this.#secrets,
      closed: this.#closing.signal,
    })
  }

  currentToken(): AccessToken | undefined {
    const held = this.#held
    if (held === undefined) return undefined
    const servableForMs = held.lifetime.servableForMs(this.#options.clock)
    if (servableForMs <= 0) return undefined
    if (servableForMs <= held.lifetime.windowMs) this.#renewAhead()
    return held.token
  }

  async getToken({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<AccessToken> {
    for (let look = 0; look < MOST_LOOKS; look += 1) {
      this.#assertOpen()
      throwIfAborted(signal)
      const token = this.currentToken()
      if (token !== undefined) return token
      if (!this.#source.lookIsDue) this.#assertNoCooldown()
      await this.#waiters.wait(ClientCredentialsProvider.#acquire(this), signal)
    }
    throw expiredOnArrival(this.environment, this.#secrets)
  }

  async renewToken(
    rejected: AccessToken | string,
    { signal, url }: { signal?: AbortSignal | undefined; url?: string | URL | undefined } = {},
  ): Promise<AccessToken | undefined> {
    throwIfAborted(signal)
    const value = typeof rejected === 'string' ? rejected : rejected.value
    const newer = this.#otherThan(value)
    if (newer !== undefined) return newer
    const api = this.#destinations(String(url)).api
    if (url === undefined || api !== undefined) this.#source.noteRefused(value)
    if (this.#servable() === undefined) return await this.getToken({ signal })
    if (url !== undefined && api === undefined) return undefined // what another place refuses says nothing of the token
    this.#emit({ type: 'token-rejected', ...(api === undefined ? undefined : { api }) })
    this.#rationOf(api).rejected(this.#now())
    if (this.#endpointLock.isLocked() || this.#source.lookIsDue || this.#mayRenew(api))
      await this.#waiters.wait(ClientCredentialsProvider.#replace(this, value, api), signal)
    return this.#otherThan(value)
  }

  async close(): Promise<void> {
    this.#held = undefined
    this.#closing.abort(new ProviderClosedError())
    await this.#waiters.wait(this.#atRest(), undefined)
  }

  async #atRest(): Promise<void> {
    await this.#endpointLock.waitForUnlock()
    await this.#source.settled()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #acquireNow(): Promise<void> {
    const startedAt = this.#now()
    await this.#endpointLock.runExclusive(async () => {
      this.#assertOpen()
      if (this.#servable() !== undefined) return
      if (!this.#source.lookIsDue) this.#assertNoCooldown()
      const mayAsk = (): boolean => this.#cooldown.remainsForCallersMs(this.#now()) === 0
      if (!(await this.#take({ startedAt, mayAsk }))) this.#assertNoCooldown()
    })
  }

  async #replaceNow(rejected: string, api: string | undefined): Promise<void> {
    const startedAt = this.#now()
    await this.#endpointLock.runExclusive(async () => {
      this.#assertOpen()
      if (this.#otherThan(rejected) !== undefined) return
      const refusal = { api, ration: this.#rationOf(api) }
      const mayAsk = (): boolean =>
        refusal.ration.waitMs(this.#now()) === 0 && this.#cooldown.remainsMs(this.#now()) === 0
      if (await this.#take({ startedAt, than: rejected, refusal, mayAsk })) {
        // The token endpoint may have given the same one out again.
        if (this.#otherThan(rejected) !== undefined) this.#emit({ type: 'token-renewed', reason: 'rejected' })
      } else if (this.#mayRenew(api)) this.#assertNoCooldown(this.#cooldown.remainsMs(this.#now()))
    })
  }

  #renewAhead(): void {
    if (this.#renewingAhead || this.#now() < this.#aheadAt || this.#cooldown.remainsMs(this.#now()) > 0)
      return
    this.#renewingAhead = true
    this.#endpointLock
      .runExclusive(async () => {
        this.#assertOpen()
        const life = this.#held?.lifetime
        if (life === undefined || life.servableForMs(this.#options.clock) > life.windowMs) return
        const mayAsk = (): boolean => this.#cooldown.remainsMs(this.#now()) === 0
        if (!mayAsk()) return
        const than = this.#held?.token.value
        if (await this.#take({ startedAt: this.#now(), background: true, than, mayAsk }))
          this.#emit({ type: 'token-renewed', reason: 'expiring' })
        else this.#aheadAt = this.#now() + Math.min(life.windowMs / 10, MOST_AHEAD_PAUSE_MS)
      })
      .catch(() => {}) // the cooldown knows, the events have told, and the current token is served on
      .finally(() => {
        this.#renewingAhead = false
      })
  }

  /** Takes a token from its source and puts it in place; whether there was one. Only under the lock. */
  async #take({ startedAt, background = false, ...want }: Taking): Promise<boolean> {
    const { timeoutMs } = this.#options
    const deadline = startedAt + timeoutMs
    // Whoever waited for another's request that hung has no time for one of his own.
    if (this.#lastFailure !== undefined && deadline - this.#now() < timeoutMs / 4) throw this.#failure()
    try {
      const taken = await this.#source.take({ deadline, ahead: background, ...want })
      this.#assertOpen()
      if (taken === undefined) return false
      const { held, source } = taken
      this.#held = held
      this.#tokens += 1
      this.#cooldown.succeeded()
      this.#lastFailure = undefined
      const durationMs = this.#now() - startedAt
      const { lifetime, lifetimeMs } = held
      const remainsMs = lifetime.remainsMs(this.#options.clock)
      this.#emit({ type: 'token-acquired', source, durationMs, lifetimeMs, remainsMs })
      return true
    } catch (error) {
      this.#assertOpen()
      this.#lastFailure = error
      const { status = 0, retryAfterMs } = error as Partial<TokenRequestError>
      this.#cooldown.failed(this.#now(), {
        clientError: status >= 400 && status < 500,
        retryAfterMs,
        background,
      })
      throw this.#failure()
    }
  }

  #now(): number {
    return this.#options.clock.monotonicMs()
  }

  #servable(): AccessToken | undefined {
    const held = this.#held
    return held !== undefined && held.lifetime.servableForMs(this.#options.clock) > 0 ? held.token : undefined
  }

  #otherThan(value: string): AccessToken | undefined {
    const token = this.currentToken()
    return token?.value === value ? undefined : token
  }

  #rationOf(api: string | undefined): RenewalRation {
    let ration = this.#rations.get(api)
    if (ration === undefined) {
      ration = new RenewalRation()
      this.#rations.set(api, ration)
    }
    return ration
  }

  #mayRenew(api: string | undefined): boolean {
    const nextRenewalMs = this.#rationOf(api).waitMs(this.#now())
    if (nextRenewalMs === 0) return true
    this.#emit({ type: 'renewal-suppressed', nextRenewalMs, ...(api === undefined ? undefined : { api }) })
    return false
  }

  #assertOpen(): void {
    if (this.#closing.signal.aborted) throw new ProviderClosedError()
  }

  #assertNoCooldown(remainsMs = this.#cooldown.remainsForCallersMs(this.#now())): void {
    const note = ` The token endpoint is left alone for another ${Math.ceil(remainsMs)} ms after this failure.`
    if (remainsMs > 0) throw copyForCaller(this.#lastFailure, remainsMs, note)
  }

  /** The last failure, with how long it holds back callers from now on. */
  #failure(): unknown {
    return copyForCaller(this.#lastFailure, this.#cooldown.remainsForCallersMs(this.#now()))
  }
}
