/** The token provider: the cached token of one client, single flight, and the order of token requests. */
import { type Destinations, destinationsOf } from '../destinations.ts'
import type { Api, Environment } from '../environments.ts'
import {
  ConfigurationError,
  copyForCaller,
  isFrameworkError,
  ProviderClosedError,
  TokenRequestError,
} from '../errors.ts'
import { createEmit, registerEmitter } from '../events.ts'
import { inManual } from '../manual.ts'
import { clientOf, type ResolvedOptions, resolveOptions, type TokenProviderOptions } from '../options.ts'
import { shownUrl, UsedSecrets } from '../redact.ts'
import { waitFor } from '../waiting.ts'
import { countProvider, uncountProvider, warnIfWeak } from '../warnings.ts'
import { type AccessToken, type CachedToken, RejectedTokens } from './access-token.ts'
import { ClientCredential } from './client-credential.ts'
import type { ProviderContext } from './context.ts'
import { type Failure, RequestLimits } from './rate-limit.ts'
import { canLoseRuns, isLost, Runs } from './runs.ts'
import type { Acquisition, Begun, SharedToken } from './shared-token.ts'
import { expiredOnArrival, lostRequest } from './token-errors.ts'
import { TokenRequest } from './token-request.ts'

/** Provides and renews the access token of one environment. */
export interface TokenProvider {
  /** A frozen copy of the environment. */
  readonly environment: Environment
  /**
   * The cached token, without waiting; undefined if there is none that may still be sent. In the refresh window this starts
   * a background renewal.
   */
  currentToken(): AccessToken | undefined
  /**
   * The cached token, or a new one. Concurrent calls share one token request; `signal` ends the wait of this call only.
   *
   * @throws {@link TokenRequestError} if no token could be acquired, now or before the end of a cooldown (`retryAfterMs`)
   * @throws {@link TokenResponseError} if the response of the token endpoint is not a valid token response
   * @throws {@link ProviderClosedError} after `close()`
   * @throws the signal's reason
   * @example
   * const { value } = await tokens.getToken({ signal: AbortSignal.timeout(5_000) })
   */
  getToken(options?: { readonly signal?: AbortSignal | undefined }): Promise<AccessToken>
  /**
   * A token other than the `rejected` one, for which an API returned 401: the current token if it is newer, otherwise a
   * renewed one. Concurrent calls share one renewal. Resolves with undefined if the rate limit of renewals for the API of
   * `url`, or a quota of the token endpoint, allows none at the moment, if `url` is not below `apiUrls`, and if the token
   * endpoint issued the rejected token again.
   *
   * @param rejected the token of the rejected call, or its value
   * @param options `url`: the URL that was called, which selects the rate limit; `signal`: ends the wait of this call only
   * @throws as `getToken` does
   */
  renewToken(
    rejected: AccessToken | string,
    options?: { readonly signal?: AbortSignal | undefined; readonly url?: string | URL | undefined },
  ): Promise<AccessToken | undefined>
  /** Forgets the token, aborts the request in flight and ends every wait. Later calls reject with `ProviderClosedError`. */
  close(): Promise<void>
  /** `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

/**
 * Creates a token provider for one environment, to be shared by everything that calls its APIs. It makes no request until
 * a token is needed; then it uses the client credentials grant (RFC 6749 §4.4).
 *
 * @param options environment, client id and client secret; everything else has a default. They are checked and copied
 * @throws {@link ConfigurationError} (`ERR_CONFIGURATION`) with every invalid option; (`ERR_BROWSER`) in a browser
 * @example
 * const tokens = createTokenProvider({
 *   environment: environments.test,
 *   clientId: process.env.MERCHANT_AUTH_CLIENT_ID ?? '',
 *   clientSecret: process.env.MERCHANT_AUTH_CLIENT_SECRET ?? '',
 * })
 */
export function createTokenProvider(options: TokenProviderOptions): TokenProvider {
  if ('document' in globalThis && globalThis.process?.versions?.node === undefined) {
    throw new ConfigurationError(
      'merchant-auth does not run in a browser',
      [
        {
          option: 'clientSecret',
          kind: 'invalid',
          reason: `belongs on a server: anybody who opens the page could read it. See ${inManual('in-client-code')}`,
        },
      ],
      'ERR_BROWSER',
    )
  }
  return new ClientCredentialsProvider(resolveOptions(options))
}

// After a wait the token can be gone only if a clock jumped. This limits the retries.
const MAX_ROUNDS = 3
/** A background renewal that finds another process at work looks again soon. */
const LEASED_AGAIN_MS = 1_000
/** A caller that waited for more than this part of `timeoutMs`, behind a run that failed, has no time left for its own. */
const MAX_QUEUED_PART = 0.75

/**
 * How an acquisition ended, if it did not fail: with a token; because another process has the lease, or the store fails and
 * may be back soon (background renewals wait for neither); or because a limit forbids a request.
 */
type Outcome = 'acquired' | Exclude<Begun['kind'], 'found' | 'request'>

/** The time of an acquisition: see {@link Acquisition}. */
type Turn = Pick<Acquisition, 'waitingSince' | 'deadline'>

/** A run that calls with the same key join. */
interface JoinedRun {
  readonly key: string
  readonly run: (turn: Turn) => Promise<void>
  /** Ends the wait of one call. */
  readonly signal: AbortSignal | undefined
}

class ClientCredentialsProvider implements TokenProvider {
  readonly environment: Environment
  readonly #options: ResolvedOptions
  readonly #context: ProviderContext
  readonly #limits: RequestLimits
  readonly #destinations: Destinations
  readonly #closing = new AbortController()
  /**
   * Everything that may send a token request: one run at a time, in order; calls with the same key share one. Each run first
   * checks again whether it has to.
   */
  #runs: Runs
  /** Only with a store. */
  #sharedToken: SharedToken | undefined
  #cached: CachedToken | undefined
  /** The number of tokens cached so far. */
  #tokens = 0

  constructor(options: ResolvedOptions) {
    const { clock, credential, encryptionKeys = [], environment, onEvent } = options
    const emit = createEmit(onEvent, environment.name, options.store)
    const secrets = new UsedSecrets()
    this.environment = environment
    this.#options = options
    this.#limits = new RequestLimits(clock)
    this.#runs = new Runs(clock)
    const rejected = new RejectedTokens()
    this.#context = { emit, secrets, limits: this.#limits, rejected, closed: this.#closing.signal }
    this.#destinations = destinationsOf(environment)
    registerEmitter(this, this.#context)
    for (const key of encryptionKeys) secrets.keep(key, key)
    if (typeof credential.value === 'string') {
      secrets.keep('credential', credential.value)
      warnIfWeak(credential.value)
    }
    // Providers that share a store also share its token.
    if (options.store === undefined)
      countProvider(this, clientOf(options), shownUrl(options.endpoint, secrets))
    else loadSharedToken().catch(() => {}) // now, so that the first call need not wait for it
  }

  currentToken(): AccessToken | undefined {
    const cached = this.#cached
    if (cached === undefined) return undefined
    const servableForMs = cached.servableForMs(this.#options.clock)
    if (servableForMs <= 0) return undefined
    if (servableForMs <= cached.windowMs) this.#startBackgroundRenewal()
    return cached.token
  }

  async getToken({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<AccessToken> {
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      this.#assertOpen()
      signal?.throwIfAborted()
      const token = this.currentToken()
      if (token !== undefined) return token
      if (!this.#isStoreReadDue) this.#assertNoCooldown()
      await this.#join({ key: 'caller', run: (turn) => this.#acquireForCaller(turn), signal })
    }
    throw expiredOnArrival(this.#endpoint)
  }

  async renewToken(
    rejected: AccessToken | string,
    { signal, url }: { signal?: AbortSignal | undefined; url?: string | URL | undefined } = {},
  ): Promise<AccessToken | undefined> {
    signal?.throwIfAborted()
    const value = typeof rejected === 'string' ? rejected : rejected.value
    const newer = this.#servableOtherThan(value)
    if (newer !== undefined) return newer
    const api = url === undefined ? undefined : this.#destinations(String(url)).api
    const isOutside = url !== undefined && api === undefined // such a 401 does not mean that the token is invalid
    if (!isOutside) this.#context.rejected.add(value)
    if (this.#servable() === undefined) return await this.getToken({ signal })
    if (isOutside) return undefined
    this.#context.emit({ type: 'token-rejected', ...(api && { api: api.label }) })
    this.#limits.rejected(api?.url)
    if (!this.#limits.mayRequest('rejection', api?.url) && !this.#mayGetTokenAnyway) {
      this.#reportNoRenewal(api)
      return undefined
    }
    // The key contains the number of the token, because keys may be inspected and must not contain its value.
    const key = `rejection ${this.#tokens} ${api?.url}`
    await this.#join({ key, run: (turn) => this.#replaceRejected(value, { api, turn }), signal })
    return this.#servableOtherThan(value)
  }

  async close(): Promise<void> {
    this.#cached = undefined
    uncountProvider(this, clientOf(this.#options))
    this.#closing.abort(new ProviderClosedError())
    const settled = this.#runs.join('close', async () => await this.#sharedToken?.settled())
    await waitFor(settled, { limitMs: this.#lostAfterMs }).catch(() => {})
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Waits for a run. Where it was lost, another one starts. */
  async #join({ key, run, signal }: JoinedRun, isSecond = false): Promise<void> {
    this.#replaceLostRuns()
    const runs = this.#runs
    const waitingSince = this.#now()
    const storeMsBefore = this.#storeMs
    // Earlier runs may have waited for the store, too.
    const deadline = (): number => waitingSince + this.#options.timeoutMs + this.#storeMs - storeMsBefore
    try {
      const joined = runs.join(key, () => run({ waitingSince, deadline: deadline() }))
      await waitFor(joined, { signal, limitMs: this.#lostAfterMs })
    } catch (error) {
      if (signal?.aborted || !isLost(error)) throw error
      if (this.#runs === runs) this.#replaceRuns()
      if (isSecond) throw lostRequest(this.#endpoint)
      await this.#join({ key, run, signal }, true)
    }
  }

  /** A run that was lost while no call waited for it, as a background renewal, must not hold up the next one. */
  #replaceLostRuns(): void {
    const limitMs = this.#lostAfterMs
    if (limitMs !== undefined && this.#now() - this.#runs.runningSince >= limitMs) this.#replaceRuns()
  }

  /** A lost run keeps its key and its turn, and its write may be lost, too: nothing of it is waited for. */
  #replaceRuns(): void {
    this.#runs = new Runs(this.#options.clock)
    this.#sharedToken = undefined
  }

  /** After this time (ms) a run counts as lost; undefined: never, as each of its steps has a limit. */
  get #lostAfterMs(): number | undefined {
    if (!canLoseRuns()) return undefined
    const { store, timeoutMs } = this.#options
    // A run also waits for the lease of another process. Otherwise its own timers end it first.
    return store ? 3 * timeoutMs + 10_000 : timeoutMs + 1
  }

  /** Acquires a token for the callers that have none. */
  async #acquireForCaller(turn: Turn): Promise<void> {
    if (this.#servable() !== undefined) return
    if ((await this.#acquire({ purpose: 'caller', ...turn })) !== 'acquired') this.#assertNoCooldown()
  }

  /** Replaces a token that an API rejected. */
  async #replaceRejected(
    rejected: string,
    { api, turn }: { readonly api: Api | undefined; readonly turn: Turn },
  ): Promise<void> {
    if (this.#servableOtherThan(rejected) !== undefined) return
    if (this.#servable() === undefined) return await this.#acquireForCaller(turn) // it has expired in the meantime
    const acquisition = { purpose: 'rejection', api: api?.url, replaces: rejected, ...turn } as const
    if ((await this.#acquire(acquisition)) !== 'acquired') this.#reportNoRenewal(api)
    // The token endpoint may have issued the same token again.
    else if (this.#servableOtherThan(rejected) !== undefined)
      this.#context.emit({ type: 'token-renewed', reason: 'rejected' })
  }

  /** Why a rejected token is not renewed now: throws the last failure during a cooldown, else emits `renewal-suppressed`. */
  #reportNoRenewal(api: Api | undefined): void {
    this.#assertNoCooldown()
    // A limit holds renewals back only until the token expires.
    const waitMs = this.#limits.nextAt('rejection', api?.url) - this.#now()
    const nextRenewalMs = Math.min(waitMs, this.#servableForMs())
    if (nextRenewalMs > 0)
      this.#context.emit({ type: 'renewal-suppressed', nextRenewalMs, ...(api && { api: api.label }) })
  }

  #startBackgroundRenewal(): void {
    this.#replaceLostRuns()
    if (this.#runs.has('background') || !this.#limits.mayRequest('background')) return
    this.#runs.join('background', () => this.#renewExpiring()).catch(() => {}) // closed
  }

  /** Replaces a token in its refresh window. If that fails, the current token stays in use. */
  async #renewExpiring(): Promise<void> {
    const { clock } = this.#options
    const cached = this.#cached
    if (cached === undefined || cached.servableForMs(clock) > cached.windowMs) return
    if (!this.#limits.mayRequest('background')) return // an earlier run failed
    const waitingSince = this.#now()
    const waitsForStoreUntil = waitingSince + cached.servableForMs(clock) - cached.withoutStoreMs
    const acquisition: Acquisition = {
      purpose: 'background',
      replaces: cached.token.value,
      waitingSince,
      deadline: waitingSince + this.#options.timeoutMs,
      waitsForStoreUntil,
    }
    let maxPauseMs = Number.POSITIVE_INFINITY
    try {
      switch (await this.#acquire(acquisition)) {
        case 'acquired':
          this.#context.emit({ type: 'token-renewed', reason: 'expiring' })
          return
        case 'leased':
          maxPauseMs = Math.min(LEASED_AGAIN_MS, cached.windowMs / 10)
          break
        case 'store-failed':
          maxPauseMs = waitsForStoreUntil - this.#now()
      }
    } catch {
      // Its failure is an event.
    }
    this.#limits.pauseBackground(cached.servableForMs(clock), maxPauseMs)
  }

  /** Acquires a token and caches it, or says why no token may be requested. Call only in a run. */
  async #acquire(acquisition: Acquisition): Promise<Outcome> {
    this.#assertOpen()
    const { purpose, api, waitingSince, deadline } = acquisition
    const { lastFailure } = this.#limits
    const leftMs = deadline - this.#now()
    const isLate = leftMs < (1 - MAX_QUEUED_PART) * this.#options.timeoutMs
    if (isLate && lastFailure !== undefined && lastFailure.at >= waitingSince)
      throw this.#errorFor(lastFailure)
    const storeMsBefore = this.#storeMs
    const credential = new ClientCredential(this.#options, this.#context)
    const begun = await this.#begin(acquisition, credential)
    if (begun.kind === 'found') {
      this.#limits.quotasReported(begun.token.quotas)
      this.#accept(begun.token, 'store', waitingSince)
      return 'acquired'
    }
    if (begun.kind !== 'request') return begun.kind
    const requestedAt = this.#now()
    let requested: CachedToken | undefined
    try {
      const request = new TokenRequest(this.#options, {
        ...this.#context,
        credential,
        deadline: deadline + this.#storeMs - storeMsBefore,
        purpose,
        // A renewal leaves what a failed attempt reports as reserved for callers without a token.
        mayRetry: () => this.#servable() === undefined || this.#limits.mayRequest(purpose, api),
      })
      requested = await request.send()
      if (purpose === 'rejection') this.#limits.renewed(api, requestedAt)
      this.#accept(requested, 'endpoint', waitingSince)
      return 'acquired'
    } catch (error) {
      this.#assertOpen()
      if (isFrameworkError(error)) throw error
      throw this.#errorFor(this.#limits.failed(error, purpose, api))
    } finally {
      await begun.end(requested)
    }
  }

  /** Whether to use a token of the store, to request one, or neither. */
  async #begin(acquisition: Acquisition, credential: ClientCredential): Promise<Begun> {
    const { store } = this.#options
    if (store === undefined) {
      const mayRequest = this.#limits.mayRequest(acquisition.purpose, acquisition.api)
      return mayRequest ? { kind: 'request', end: async () => {} } : { kind: 'limited' }
    }
    const { SharedToken } = await loadSharedToken()
    this.#sharedToken ??= new SharedToken(store, this.#options, this.#context)
    return await this.#sharedToken.begin(acquisition, credential)
  }

  #accept(cached: CachedToken, source: 'endpoint' | 'store', waitingSince: number): void {
    this.#assertOpen()
    this.#cached = cached
    this.#context.secrets.keep('token', cached.token.value)
    this.#tokens += 1
    this.#limits.succeeded()
    this.#context.emit({
      type: 'token-acquired',
      source,
      durationMs: this.#now() - waitingSince,
      lifetimeMs: cached.lifetimeMs,
      remainsMs: cached.remainsMs(this.#options.clock),
      ...(source === 'endpoint' && cached.quotas.length > 0 ? { quota: cached.quotas } : undefined),
    })
  }

  /** Whether a run under way, or a look at the store, may yield a token although none may be requested. */
  get #mayGetTokenAnyway(): boolean {
    return this.#isStoreReadDue || (this.#runs.has() && !this.#sharedToken?.isDown)
  }

  /** How long (ms) runs have waited for the store so far. */
  get #storeMs(): number {
    return this.#sharedToken?.waitedMs ?? 0
  }

  /** Whether to read the store again, even if no token may be requested. */
  get #isStoreReadDue(): boolean {
    return this.#sharedToken?.isLookDue ?? false
  }

  /** For messages: its path might contain a secret by mistake. */
  get #endpoint(): string {
    return shownUrl(this.#options.endpoint, this.#context.secrets)
  }

  #now(): number {
    return this.#options.clock.monotonicMs()
  }

  #servableForMs(): number {
    return this.#cached?.servableForMs(this.#options.clock) ?? 0
  }

  /** The cached token, if it may be used. Unlike `currentToken()` this starts nothing. */
  #servable(): AccessToken | undefined {
    return this.#servableForMs() > 0 ? this.#cached?.token : undefined
  }

  #servableOtherThan(value: string): AccessToken | undefined {
    const token = this.#servable()
    return token?.value === value ? undefined : token
  }

  #assertOpen(): void {
    if (this.#closing.signal.aborted) throw new ProviderClosedError()
  }

  #assertNoCooldown(): void {
    const { lastFailure } = this.#limits
    if (lastFailure !== undefined && lastFailure.endsAt > this.#now())
      throw this.#errorFor(lastFailure, { isRepeated: true })
  }

  /** The error of a failed acquisition for a caller, with the rest of the cooldown. */
  #errorFor({ error, endsAt }: Failure, { isRepeated = false } = {}): unknown {
    const remainsMs = Math.max(0, endsAt - this.#now())
    const until = new Date(this.#options.clock.epochMs() + remainsMs).toISOString()
    const hasNote = isRepeated || (error instanceof TokenRequestError && error.status === 429)
    const note = ` The token endpoint is not asked again for ${Math.ceil(remainsMs)} ms, until ${until}.`
    return copyForCaller(error, remainsMs, hasNote ? note : '')
  }
}

/** Not loaded without a store: encryption takes time. */
const loadSharedToken = (): Promise<typeof import('./shared-token.ts')> => import('./shared-token.ts')
