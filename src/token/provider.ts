/** The token provider: the cached token of one client, single flight, and the order of token requests. */
import { Mutex } from 'async-mutex'
import pMemoize from 'p-memoize'
import { type Destinations, destinationsOf } from '../destinations.ts'
import type { Api, Environment } from '../environments.ts'
import {
  ConfigurationError,
  copyForCaller,
  MerchantAuthError,
  ProviderClosedError,
  type TokenRequestError,
  TokenResponseError,
} from '../errors.ts'
import { createEmit, registerEmitter } from '../events.ts'
import { clientOf, type ResolvedOptions, resolveOptions, type TokenProviderOptions } from '../options.ts'
import { spentForMs } from '../quota.ts'
import { shownUrl, UsedSecrets } from '../redact.ts'
import type { TokenStore } from '../store/token-store.ts'
import { waitFor } from '../waiting.ts'
import { countProvider, uncountProvider, warnIfWeak } from '../warnings.ts'
import { type AccessToken, type CachedToken, RejectedTokens } from './access-token.ts'
import { backgroundPauseMs, Cooldown, mayRequest, Quotas, RenewalLimit } from './rate-limit.ts'
import type { Acquisition, SharedResult, SharedToken } from './shared-token.ts'
import {
  ClientCredential,
  expiredOnArrival,
  isFrameworkError,
  lostRequest,
  type ProviderContext,
  refusedElsewhere,
  requestToken,
} from './token-request.ts'

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
 *   clientId: process.env.CLIENT_ID ?? '',
 *   clientSecret: process.env.CLIENT_SECRET ?? '',
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
          reason: 'belongs on a server: anybody who opens the page could read it',
        },
      ],
      'ERR_BROWSER',
    )
  }
  return new ClientCredentialsProvider(resolveOptions(options))
}

// After a wait the token can be gone only if a clock jumped. This limits the retries.
const MAX_LOOKS = 3
/** How often the store is read again (ms) while no token may be requested. */
const LOOK_AGAIN_MS = 1_000

/** Ends the pause that other processes share. */
const NO_PAUSE = { gapMs: 0, remainsMs: 0, callersMs: 0 }

/** Why no token may be requested: another process requests one, the store may be back soon, or a limit. */
type Refusal = 'leased' | 'store-failed' | 'limited'

/** Single flight: calls with the same key share one run. One for all providers, because there may be thousands. */
const singleFlight = /* @__PURE__ */ pMemoize((_key: string, run: () => Promise<void>) => run(), {
  cache: false,
})

let providers = 0

/** Cloudflare Workers drop what a request started when that request ends. */
const mayLose = (): boolean => globalThis.navigator?.userAgent === 'Cloudflare-Workers'

/** Whether an error says that a run was dropped, rather than how it failed. */
function isLost(error: unknown): boolean {
  return mayLose() && !(error instanceof MerchantAuthError) && !isFrameworkError(error)
}

/** A run that calls with the same key share, and the signal of one of them. */
interface Shared {
  readonly key: string
  readonly run: () => Promise<void>
  readonly signal: AbortSignal | undefined
}

class ClientCredentialsProvider implements TokenProvider {
  readonly environment: Environment
  readonly #options: ResolvedOptions
  readonly #context: ProviderContext
  /** Only with a store. Loaded on first use, because encryption takes time to load. */
  #shared: SharedToken | undefined
  #sharedLookAt = Number.NEGATIVE_INFINITY
  readonly #destinations: Destinations
  readonly #closing = new AbortController()
  /** Serializes everything that may send a token request; each task first checks again whether it has to. */
  #endpointLock = new Mutex()
  /** The task that has the lock. */
  #task: Promise<void> = Promise.resolve()
  readonly #cooldown = new Cooldown()
  readonly #renewalLimits = new Map<string | undefined, RenewalLimit>()
  /** Part of the single-flight keys. */
  #id = ++providers
  readonly #rejected = new RejectedTokens()
  #cached: CachedToken | undefined
  /** The number of tokens cached so far. */
  #tokens = 0
  #lastFailure: unknown
  /** Whether a background renewal runs, or was lost while this token was cached. */
  #isRenewing = false
  /** When (monotonic ms) the next background renewal may be tried. */
  #nextRenewalAt = Number.NEGATIVE_INFINITY

  constructor(options: ResolvedOptions) {
    const { credential, encryptionKeys = [], environment, onEvent } = options
    const emit = createEmit(onEvent, environment.name)
    const secrets = new UsedSecrets()
    this.environment = environment
    this.#options = options
    this.#context = { emit, secrets, quotas: new Quotas(), closed: this.#closing.signal }
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
  }

  currentToken(): AccessToken | undefined {
    const cached = this.#cached
    if (cached === undefined) return undefined
    const servableForMs = cached.servableForMs(this.#options.clock)
    if (servableForMs <= 0) return undefined
    if (servableForMs <= cached.windowMs) this.#renewInBackground()
    return cached.token
  }

  async getToken({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<AccessToken> {
    for (let look = 0; look < MAX_LOOKS; look += 1) {
      this.#assertOpen()
      signal?.throwIfAborted()
      const token = this.currentToken()
      if (token !== undefined) return token
      if (!this.#lookIsDue) this.#assertNoCooldown()
      await this.#share({ key: '', run: () => this.#acquireFirst(), signal })
    }
    throw expiredOnArrival(this.#endpoint)
  }

  async renewToken(
    rejected: AccessToken | string,
    { signal, url }: { signal?: AbortSignal | undefined; url?: string | URL | undefined } = {},
  ): Promise<AccessToken | undefined> {
    signal?.throwIfAborted()
    const value = typeof rejected === 'string' ? rejected : rejected.value
    const newer = this.#otherThan(value)
    if (newer !== undefined) return newer
    const api = this.#destinations(String(url)).api
    if (url === undefined || api !== undefined) this.#rejected.add(value)
    if (this.#servable() === undefined) return await this.getToken({ signal })
    if (url !== undefined && api === undefined) return undefined // a 401 from a URL outside apiUrls does not mean that the token is invalid
    this.#context.emit({ type: 'token-rejected', ...(api && { api: api.label }) })
    this.#renewalLimit(api).rejected(this.#now())
    if (this.#endpointLock.isLocked() || this.#lookIsDue || this.#mayRenew(api)) {
      // The key contains the number of the token, because keys may be inspected and must not contain its value.
      await this.#share({ key: `${this.#tokens} ${api?.url}`, run: () => this.#replace(value, api), signal })
    }
    return this.#otherThan(value)
  }

  async close(): Promise<void> {
    this.#cached = undefined
    uncountProvider(this, clientOf(this.#options))
    this.#closing.abort(new ProviderClosedError())
    const idle = this.#inTurn(async () => await this.#shared?.settled())
    await waitFor(idle, { limitMs: this.#runLimitMs }).catch(() => {}) // it may be lost
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** How long (ms) callers wait for a run. With a store it also waits for another process's lease. */
  get #runLimitMs(): number | undefined {
    const { store, timeoutMs } = this.#options
    if (!mayLose()) return undefined // each of its steps has a limit
    return store ? 3 * timeoutMs + 10_000 : timeoutMs + 1_000
  }

  /**
   * Waits for the run of a key. On Cloudflare Workers a run may be lost with the request that started it: it never ends, and
   * in newer versions its promise rejects with an error of the runtime. Then its key, its lock and its write are no longer
   * waited for, and another run starts.
   */
  async #share({ key, run, signal }: Shared, isSecond = false): Promise<void> {
    const id = this.#id
    const lock = this.#endpointLock
    try {
      await waitFor(singleFlight(`${id} ${key}`, run), { signal, limitMs: this.#runLimitMs })
    } catch (error) {
      if (signal?.aborted || !isLost(error)) throw error
      if (this.#id === id) {
        this.#id = ++providers
        if (this.#endpointLock === lock) this.#endpointLock = new Mutex()
        this.#shared = undefined // its last write may be lost, too
      }
      if (isSecond) throw lostRequest(this.#endpoint)
      await this.#share({ key, run, signal }, true)
    }
  }

  /** Runs a task when no other one has the lock. One that was lost keeps it. */
  async #inTurn(task: () => Promise<void>): Promise<void> {
    while (mayLose() && this.#endpointLock.isLocked()) {
      const before = this.#task
      await before.catch((error: unknown) => {
        if (isLost(error) && this.#task === before) this.#endpointLock = new Mutex()
      })
    }
    this.#task = this.#endpointLock.runExclusive(task)
    await this.#task
  }

  /** Acquires a token for the callers that have none. */
  async #acquireFirst(): Promise<void> {
    const startedAt = this.#now()
    await this.#inTurn(async () => {
      if (this.#servable() !== undefined) return
      const notBefore = (): number => this.#cooldown.endsForCallersAt
      if ((await this.#acquire({ startedAt, background: false, notBefore })) !== 'acquired')
        this.#assertNoCooldown()
    })
  }

  /** Replaces a token that an API rejected. */
  async #replace(rejected: string, api: Api | undefined): Promise<void> {
    const startedAt = this.#now()
    await this.#inTurn(async () => {
      if (this.#otherThan(rejected) !== undefined) return
      const rejection = { api: api?.url, limit: this.#renewalLimit(api) }
      // The token may have expired in the meantime: then this is for callers without a token.
      const isValid = this.#servable() !== undefined
      const notBefore = (): number =>
        isValid
          ? Math.max(this.#cooldown.endsAt, this.#context.quotas.renewalsAt)
          : this.#cooldown.endsForCallersAt
      const acquisition = { startedAt, background: false, notBefore, replaces: rejected, rejection }
      if ((await this.#acquire(acquisition)) === 'acquired') {
        // The token endpoint may have issued the same token again.
        if (this.#otherThan(rejected) !== undefined)
          this.#context.emit({ type: 'token-renewed', reason: 'rejected' })
      } else if (this.#mayRenew(api)) this.#assertNoCooldown(this.#cooldown.endsAt)
    })
  }

  #renewInBackground(): void {
    if (this.#isRenewing || this.#now() < this.#nextRenewalAt) return
    if (this.#now() < this.#cooldown.endsForBackgroundAt) return
    this.#isRenewing = true
    this.#inTurn(() => this.#renewExpiring())
      .catch(() => {}) // closed
      .finally(() => {
        this.#isRenewing = false
      })
  }

  /** Replaces a token in its refresh window. If that fails, the current token stays in use. */
  async #renewExpiring(): Promise<void> {
    const { clock } = this.#options
    const cached = this.#cached
    if (cached === undefined || cached.servableForMs(clock) > cached.windowMs) return
    const startedAt = this.#now()
    if (startedAt < Math.max(this.#cooldown.endsForBackgroundAt, this.#nextRenewalAt)) return
    const notBefore = (): number =>
      Math.max(this.#cooldown.endsForBackgroundAt, this.#context.quotas.renewalsAt)
    let retryAfterMs = 0
    let latestMs = Number.POSITIVE_INFINITY
    try {
      const replaces = cached.token.value
      const outcome = await this.#acquire({ startedAt, background: true, notBefore, replaces })
      if (outcome === 'acquired') {
        this.#context.emit({ type: 'token-renewed', reason: 'expiring' })
        return
      }
      if (outcome === 'store-failed') latestMs = cached.servableForMs(clock) - cached.withoutStoreMs
      if (outcome === 'leased') latestMs = Math.min(LOOK_AGAIN_MS, cached.windowMs / 10)
    } catch {
      retryAfterMs = (this.#lastFailure as Partial<TokenRequestError> | undefined)?.retryAfterMs ?? 0
    }
    const pauseMs = Math.max(backgroundPauseMs(cached.servableForMs(clock)), retryAfterMs)
    this.#nextRenewalAt = this.#now() + Math.min(pauseMs, latestMs)
  }

  /** Acquires a token and caches it, or says why no token may be requested. Call only under the lock. */
  async #acquire(acquisition: Acquisition): Promise<'acquired' | Refusal> {
    this.#assertOpen()
    const { store, timeoutMs } = this.#options
    const { background, startedAt } = acquisition
    // A caller that waited for another caller's failed request has no time left for its own.
    if (this.#lastFailure !== undefined && this.#now() - startedAt > 0.75 * timeoutMs) throw this.#failure()
    const credential = new ClientCredential(this.#options, this.#context)
    const token = store && (await this.#sharedToken(store))
    const shared = await token?.begin(acquisition, credential)
    let result: SharedResult = {}
    try {
      if (shared?.found !== undefined) {
        this.#context.quotas.note(shared.found.quotas, this.#now())
        this.#accept(shared.found, 'store', startedAt)
        return 'acquired'
      }
      if (shared?.isPausedElsewhere) this.#lastFailure = refusedElsewhere(this.#endpoint)
      if (shared?.isLeased) return 'leased'
      if (!(shared?.mayRequest ?? mayRequest(acquisition, this.#now()))) return 'limited'
      if (background && shared?.storeFailed && this.#servableForMs > (this.#cached?.withoutStoreMs ?? 0))
        return 'store-failed'
      const waitedMs = shared?.waitedMs ?? 0
      const requested = await this.#request(acquisition, credential, startedAt + timeoutMs + waitedMs)
      // Other processes still remember the pause of an earlier 429.
      result = { requested, pause: this.#cooldown.pause(this.#now()) && NO_PAUSE }
      this.#accept(requested, 'endpoint', startedAt)
      return 'acquired'
    } catch (error) {
      this.#assertOpen()
      if (isFrameworkError(error)) throw error
      this.#lastFailure = error
      const { status = 0, retryAfterMs = 0, answer } = error as Partial<TokenRequestError>
      const leastMs = Math.max(retryAfterMs, spentForMs(answer?.quotas))
      this.#cooldown.failed(this.#now(), { status, retryAfterMs: leastMs, background })
      if (status === 429) result = { pause: this.#cooldown.pause(this.#now()) }
      throw this.#failure()
    } finally {
      if (shared !== undefined) token?.end(shared, result)
    }
  }

  async #request(
    { background, rejection }: Acquisition,
    credential: ClientCredential,
    deadline: number,
  ): Promise<CachedToken> {
    const requestedAt = this.#now()
    // A renewal leaves what is reserved for callers without a token.
    const mayRetry = (): boolean =>
      this.#servable() === undefined || this.#now() >= this.#context.quotas.renewalsAt
    try {
      const context = { ...this.#context, background, credential, deadline, mayRetry }
      const requested = await requestToken(this.#options, context)
      rejection?.limit.renewed(requestedAt)
      return requested
    } catch (error) {
      if (this.#servable() !== undefined && !isFrameworkError(error))
        rejection?.limit.failed(this.#now(), { refused: isRefusal(error) })
      throw error
    }
  }

  #accept(cached: CachedToken, source: 'endpoint' | 'store', startedAt: number): void {
    this.#assertOpen()
    this.#cached = cached
    this.#context.secrets.keep('token', cached.token.value)
    this.#tokens += 1
    this.#cooldown.succeeded()
    this.#nextRenewalAt = Number.NEGATIVE_INFINITY
    this.#isRenewing = false
    this.#lastFailure = undefined
    this.#context.emit({
      type: 'token-acquired',
      source,
      durationMs: this.#now() - startedAt,
      lifetimeMs: cached.lifetimeMs,
      remainsMs: cached.remainsMs(this.#options.clock),
      ...(source === 'endpoint' && cached.quotas.length > 0 ? { quota: cached.quotas } : undefined),
    })
  }

  async #sharedToken(store: TokenStore): Promise<SharedToken> {
    this.#sharedLookAt = this.#now()
    const context = { ...this.#context, rejected: this.#rejected, cooldown: this.#cooldown }
    this.#shared ??= new (await import('./shared-token.ts')).SharedToken(store, this.#options, context)
    return this.#shared
  }

  /** Whether to read the store again, even if no token may be requested. */
  get #lookIsDue(): boolean {
    return this.#options.store !== undefined && this.#now() - this.#sharedLookAt >= LOOK_AGAIN_MS
  }

  /** For messages: its path might contain a secret by mistake. */
  get #endpoint(): string {
    return shownUrl(this.#options.endpoint, this.#context.secrets)
  }

  #now(): number {
    return this.#options.clock.monotonicMs()
  }

  get #servableForMs(): number {
    return this.#cached?.servableForMs(this.#options.clock) ?? 0
  }

  #servable(): AccessToken | undefined {
    return this.#servableForMs > 0 ? this.#cached?.token : undefined
  }

  #otherThan(value: string): AccessToken | undefined {
    const token = this.currentToken()
    return token?.value === value ? undefined : token
  }

  #renewalLimit(api: Api | undefined): RenewalLimit {
    const limit = this.#renewalLimits.get(api?.url) ?? new RenewalLimit()
    this.#renewalLimits.set(api?.url, limit)
    return limit
  }

  #mayRenew(api: Api | undefined): boolean {
    const limit = this.#renewalLimit(api)
    // In the cooldown the caller gets the last failure.
    const isCooldown = this.#now() < this.#cooldown.endsAt
    const limitMs = isCooldown ? limit.tokensWaitMs(this.#now()) : limit.waitMs(this.#now())
    const quotaMs = this.#context.quotas.renewalsAt - this.#now()
    // A quota holds renewals back only until the token expires.
    const nextRenewalMs = Math.max(limitMs, Math.min(quotaMs, this.#servableForMs))
    if (nextRenewalMs <= 0) return true
    this.#context.emit({
      type: 'renewal-suppressed',
      nextRenewalMs,
      ...(api && { api: api.label }),
    })
    return false
  }

  #assertOpen(): void {
    if (this.#closing.signal.aborted) throw new ProviderClosedError()
  }

  #assertNoCooldown(endsAt = this.#cooldown.endsForCallersAt): void {
    if (endsAt > this.#now()) throw this.#failure(endsAt, true)
  }

  /** The last failure, with the rest of the cooldown. */
  #failure(endsAt = this.#cooldown.endsForCallersAt, isRepeated = false): unknown {
    const remainsMs = Math.max(0, endsAt - this.#now())
    const until = new Date(this.#options.clock.epochMs() + remainsMs).toISOString()
    const { status } = this.#lastFailure as Partial<TokenRequestError>
    const hasNote = remainsMs > 0 && (isRepeated || status === 429)
    const note = ` The token endpoint is not asked again for ${Math.ceil(remainsMs)} ms, until ${until}.`
    return copyForCaller(this.#lastFailure, remainsMs, hasNote ? note : '')
  }
}

/** Whether the token endpoint refused the request, or returned something else than a token. */
function isRefusal(error: unknown): boolean {
  const { status = 0 } = error as Partial<TokenRequestError>
  return error instanceof TokenResponseError || (status >= 300 && status < 500 && status !== 408)
}
