/** The token provider: the cached token of one client, single flight, and the order of token requests. */

import {
  ConfigurationError,
  copyForCaller,
  isFrameworkError,
  ProviderClosedError,
  TokenRequestError,
} from '../base/errors.ts'
import { inManual } from '../base/manual-link.ts'
import { shownUrl, UsedSecrets } from '../base/redact.ts'
import { throwIfAborted, waitFor } from '../base/waiting.ts'
import { type Destinations, destinationsOf } from '../environment/destinations.ts'
import type { Api, Environment } from '../environment/environment.ts'
import { createEmit } from '../events/emit.ts'
import type { RenewalSuppressedEvent, TokenRenewedEvent } from '../events/events.ts'
import { countProvider, uncountProvider, warnIfWeak } from '../events/warnings.ts'
import {
  clientOf,
  type ResolvedOptions,
  resolveOptions,
  type TokenProviderOptions,
} from '../options/options.ts'
import { type CallAnswer, registerProvider } from './attached-provider.ts'
import { KnownTokens } from './known-tokens.ts'
import type { Failure } from './limits/cooldown.ts'
import { type Hold, type Need, RequestLimits } from './limits/request-limits.ts'
import { type AccessToken, type CachedToken, RejectedTokens } from './request/access-token.ts'
import { ClientCredential } from './request/client-credential.ts'
import type { ProviderContext } from './request/context.ts'
import { ExpiredTokenError, lostRequest } from './request/token-errors.ts'
import { TokenRequest } from './request/token-request.ts'
import { Runs } from './runs.ts'
import { type Denial, LIMITED, type Permission, type SharedNeed, SharedToken } from './shared/shared-token.ts'

/** The call whose token an API rejected. @inline */
export interface RenewOptions {
  /** Ends the wait of this call only. */
  readonly signal?: AbortSignal | undefined
  /** The URL that was called. */
  readonly url?: string | URL | undefined
  /** The method of the call. */
  readonly method?: string | undefined
  /**
   * Set by attachments, which report how APIs answer: whether the call is repeated with the token that this resolves with.
   * @internal
   */
  readonly attachment?: { readonly canRepeat: boolean } | undefined
}

/** A call for a token. @inline */
export interface GetTokenOptions {
  /** Ends the wait of this call only. */
  readonly signal?: AbortSignal | undefined
  /**
   * Whether to resolve with a token that was requested after this call, whatever is cached or stored: for example, after the
   * service granted a permission.
   * @default false
   */
  readonly forceRefresh?: boolean | undefined
}

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
   * With `forceRefresh`, a token that was requested after this call. All calls that wait for such a request to begin share it,
   * and so do processes with a store, whose token it replaces. Meanwhile, and if it fails, the current token stays in use. No
   * rate limit of renewals and no reserved quota holds it back, so do not force one for each response of an API.
   *
   * @throws {@link TokenRequestError} if no token could be acquired, now or before the end of a cooldown (`retryAfterMs`)
   * @throws {@link TokenResponseError} if the response of the token endpoint is not a valid token response
   * @throws {@link ProviderClosedError} after `close()`
   * @throws the signal's reason
   * @example
   * const { value } = await tokens.getToken({ signal: AbortSignal.timeout(5_000) })
   */
  getToken(options?: GetTokenOptions): Promise<AccessToken>
  /**
   * A token other than the `rejected` one, for which an API returned 401: the current token if it is newer, otherwise a
   * renewed one. Concurrent calls share one renewal. Resolves with undefined where nothing is renewed: the rate limit of
   * renewals for the API of `url`, or a quota of the token endpoint, allows none at the moment (event
   * `renewal-suppressed`), `url` is not below `apiUrls`, or the token endpoint issued the rejected token again.
   *
   * If you call this yourself, every 401 counts as one about the token, because the provider does not see which calls succeed.
   * Attached clients report them: for their calls a single 401 may be about the call, and then renews nothing.
   *
   * @param rejected the token of the rejected call, or its value
   * @param options `url`: the URL that was called, which selects the API; `method`: of the call, for events; `signal`: ends
   *   the wait of this call only
   * @throws as `getToken` does
   */
  renewToken(rejected: AccessToken | string, options?: RenewOptions): Promise<AccessToken | undefined>
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

/**
 * How often a call looks for its token again after a wait: the token can be gone if a clock jumped, and a forced call may have
 * waited for a request that was sent before it.
 */
export const MAX_ROUNDS = 3

/** How an acquisition ended, if it did not fail: with a token, or why none was requested. */
type Outcome = 'acquired' | Denial['kind']

/** A need for a token, and when (monotonic ms) its first caller began to wait. */
interface WaitingNeed extends SharedNeed {
  readonly since: number
  /** Whether the API's acceptance of the next token will be reported: of a renewal for an attached call. */
  readonly isReported?: boolean
}

/** A call for a token that is requested after it. */
interface ForcedCall {
  /** When (monotonic ms) it was made: other processes' requests are compared with it. */
  readonly at: number
  /** How many requests this process had begun: the order of its own does not depend on a clock. */
  readonly requests: number
  /** The token that was current then. */
  readonly currentAtCall: CachedToken | undefined
}

/** A call whose token an API rejected. */
interface RejectedCall {
  /** The value of its token. */
  readonly token: string
  /** Undefined if the caller named no URL. */
  readonly api: Api | undefined
  readonly method: string | undefined
  readonly url: string | URL | undefined
  /** Somebody called `renewToken` for it, and reports nothing of the call that follows. */
  readonly isByHand: boolean
}

/** Why a rejected token is not renewed: the 401 is about the call, as far as is known; or a limit forbids it. */
type Suppression = Hold | { readonly reason: 'accepted'; readonly until?: undefined }

class ClientCredentialsProvider implements TokenProvider {
  readonly environment: Environment
  readonly #options: ResolvedOptions
  readonly #context: ProviderContext
  readonly #limits: RequestLimits
  readonly #destinations: Destinations
  readonly #closing = new AbortController()
  readonly #tokens: KnownTokens
  /**
   * Everything that may send a token request: one run at a time, in order; calls with the same key share one. A run that somebody
   * waits for first checks again whether it has to.
   */
  readonly #runs: Runs
  /** Only with a store. */
  readonly #sharedToken: SharedToken | undefined
  /** How many token requests have begun. */
  #requests = 0
  /** The number of the request that a token came from. A token of the store has none. */
  readonly #requestOf = new WeakMap<CachedToken, number>()

  constructor(options: ResolvedOptions) {
    const {
      clock,
      credential,
      encryptionKeys = [],
      environment,
      limitClock,
      onEvent,
      store,
      timeoutMs,
    } = options
    const emit = createEmit(onEvent, environment.name, store)
    const secrets = new UsedSecrets()
    const closed = this.#closing.signal
    this.environment = environment
    this.#options = options
    this.#limits = new RequestLimits(clock)
    this.#tokens = new KnownTokens(clock)
    this.#runs = new Runs(limitClock, {
      firstStepMs: timeoutMs,
      closed,
      lost: () => lostRequest(this.#endpoint),
    })
    const beginStep = (ms: number): void => this.#runs.beginStep(ms)
    const rejected = new RejectedTokens()
    this.#context = { emit, secrets, limits: this.#limits, rejected, closed, beginStep }
    this.#destinations = destinationsOf(environment)
    this.#sharedToken = store && new SharedToken(store, options, this.#context)
    registerProvider(this, {
      emit,
      secrets,
      isReportedTo: true,
      answered: (call) => this.#answered(call),
    })
    for (const key of encryptionKeys) secrets.keep(key, key)
    if (typeof credential.value === 'string') {
      secrets.keep('credential', credential.value)
      warnIfWeak(credential.value)
    }
    // Providers that share a store also share its token.
    if (store === undefined) countProvider(this, clientOf(options), shownUrl(options.endpoint, secrets))
  }

  currentToken(): AccessToken | undefined {
    const { newer } = this.#tokens
    // A newer token that an API did not know yet (see #useAlternative) is tried again after the pause that began then.
    if (newer !== undefined && (this.#limits.isBackgroundDue || this.#servable() === undefined))
      this.#tokens.tryNewer()
    const { current } = this.#tokens
    if (current === undefined) return undefined
    const servableForMs = current.servableForMs(this.#options.clock)
    if (servableForMs <= 0) return undefined
    if (servableForMs <= current.windowMs) this.#startBackgroundRenewal()
    return current.token
  }

  async getToken({ signal, forceRefresh = false }: GetTokenOptions = {}): Promise<AccessToken> {
    if (forceRefresh) return await this.#getForced(signal)
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      this.#assertOpen()
      throwIfAborted(signal)
      const token = this.currentToken()
      if (token !== undefined) return token
      // During a cooldown another process may have got a token.
      if (!this.#sharedToken?.isLookDue) this.#assertNoCooldown()
      const since = this.#now()
      await this.#runs.join('caller', () => this.#acquireForCaller(since), signal)
    }
    throw new ExpiredTokenError(this.#endpoint)
  }

  async #getForced(signal: AbortSignal | undefined): Promise<AccessToken> {
    const call: ForcedCall = {
      at: this.#now(),
      requests: this.#requests,
      currentAtCall: this.#tokens.current,
    }
    // A call may join a run whose request was sent before it, or that finds the token of such a request in the store.
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      this.#assertOpen()
      throwIfAborted(signal)
      this.#assertNoCooldown()
      await this.#runs.join('forced', () => this.#replaceForced(call), signal)
      const token = this.#tokenRequestedAfter(call)
      if (token !== undefined) return token
    }
    throw new ExpiredTokenError(this.#endpoint)
  }

  async renewToken(
    rejected: AccessToken | string,
    { signal, url, method, attachment }: RenewOptions = {},
  ): Promise<AccessToken | undefined> {
    this.#assertOpen()
    throwIfAborted(signal)
    const value = typeof rejected === 'string' ? rejected : rejected.value
    // An attachment gets the newer token by #alternativeFor. A client that renews by itself has no such way: switch now.
    const isByHand = attachment === undefined
    const isOfCurrent = value === this.#tokens.current?.token.value
    if ((isByHand && isOfCurrent) || this.#servable() === undefined) this.#tokens.tryNewer()
    const other = this.#servableOtherThan(value)
    if (other !== undefined) return other
    const api = url === undefined ? undefined : this.#destinations(String(url)).api
    // The 401 of a URL that is below no API says nothing about this token.
    if (url !== undefined && api === undefined) return undefined
    if (this.#servable() === undefined) {
      this.#context.rejected.add(value)
      return otherThan(value, await this.getToken({ signal }))
    }
    const call: RejectedCall = { token: value, api, method, url, isByHand }
    const key = this.#keyOf(call)
    this.#context.emit(() => ({ type: 'token-rejected', ...this.#eventFieldsOf(call) }))
    if (!this.#runs.has(key)) {
      const alternative = attachment?.canRepeat ? this.#alternativeFor(call) : undefined
      if (alternative !== undefined) return alternative
      const isSuspect = this.#limits.recordFor(api?.url).countRejection(this.#now())
      // Where nobody reports which calls the API accepts, each 401 counts as one about the token.
      const suppression = this.#suppressionOf(call, { isSuspect: isSuspect || isByHand })
      if (suppression !== undefined) {
        this.#emitSuppressed(call, suppression)
        this.#assertNoCooldown()
        return undefined
      }
    }
    const since = this.#now()
    await this.#runs.join(key, () => this.#replaceRejected(call, since), signal)
    this.#reportHold(call, key)
    return this.#servableOtherThan(value)
  }

  async close(): Promise<void> {
    this.#tokens.clear()
    uncountProvider(this, clientOf(this.#options))
    this.#closing.abort(new ProviderClosedError())
    await waitFor(this.#runs.settled(), undefined) // keeps the process alive
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /**
   * Another token that a rejected call may be repeated with, without a token request: a newer one that waits to be tried again,
   * or else the previous token, if this API has accepted no call with the current one.
   */
  #alternativeFor({ token, api }: RejectedCall): AccessToken | undefined {
    const { before, newer } = this.#tokens
    const isAccepted = this.#limits.hasAccepted(api?.url, token)
    return newer?.token ?? (isAccepted ? undefined : before?.token)
  }

  /** Why a rejected token is not renewed now; undefined if it is. `isSuspect`: whether the token may be invalid. */
  #suppressionOf(
    { api }: RejectedCall,
    { isSuspect }: { readonly isSuspect: boolean },
  ): Suppression | undefined {
    if (!isSuspect) return { reason: 'accepted' }
    // A limit that forbids a renewal may be over for another process, whose token is in the store.
    if (this.#sharedToken?.isLookDue) return undefined
    return this.#limits.holdOn({ purpose: 'rejected', api: api?.url })
  }

  /** An attachment reports how an API answered a call. */
  #answered({ url, method, token, status, isRejection, rejected }: CallAnswer): void {
    const { api } = this.#destinations(url)
    if (api === undefined) return
    const isAccepted = (status >= 200 && status < 300) || status === 304 // the 200 of a conditional request
    const isOfCurrent = rejected !== undefined && rejected.value === this.#tokens.current?.token.value
    // First the token that works becomes the current one, so that its acceptance counts as that of the current token.
    if (isOfCurrent && isAccepted) this.#useAlternative(token)
    if (isAccepted) this.#limits.recordFor(api.url).accepted(token.value, this.#tokens.current?.token.value)
    if (rejected === undefined) return
    if (!isOfCurrent) this.#repeatedAfterRenewal(api, { token, rejected, status, isRejection })
    else if (isRejection && this.#servable() !== undefined)
      this.#rejectedBoth({ token: rejected.value, api, method, url, isByHand: false })
  }

  /** A call was repeated with a token that was acquired after the rejected one. */
  #repeatedAfterRenewal(
    api: Api,
    {
      token,
      rejected,
      status,
      isRejection,
    }: Pick<CallAnswer, 'token' | 'status' | 'isRejection'> & {
      readonly rejected: object
    },
  ): void {
    const isTokenAccepted = !isRejection && status < 500 // a 5xx says nothing about the token
    const isNewer = this.#tokens.isNewer(token, rejected)
    // A newer token waits because an API does not know it yet, so this call was accepted with an older one: the doubt goes on.
    if (!isTokenAccepted || !isNewer || this.#tokens.newer !== undefined) return
    const record = this.#limits.recordFor(api.url)
    const wasInDoubt = record.isInDoubt
    record.helped(this.#now())
    // The path returned 401 to the other token, so it checks tokens: even a 404 means that it accepts this one.
    record.accepted(token.value, this.#tokens.current?.token.value)
    // The entry in the store still has the doubt, which processes that start later would adopt.
    const shared = this.#sharedToken
    if (wasInDoubt && shared !== undefined) this.#runs.start('limits', () => shared.shareLimits())
  }

  /** A call that was rejected with the current token was accepted with the newer one that waits, or with the one before. */
  #useAlternative({ value }: { readonly value: string }): void {
    const { before, newer } = this.#tokens
    if (value === newer?.token.value) this.#tokens.tryNewer()
    else if (value === before?.token.value) {
      this.#tokens.restoreBefore()
      this.#limits.pauseBackground(this.#servableForMs())
    }
  }

  /** An API rejected the current token and another one for the same call, which is not repeated again. */
  #rejectedBoth(call: RejectedCall): void {
    const { api } = call
    const record = this.#limits.recordFor(api?.url)
    record.beginDoubt(this.#now())
    const since = this.#now()
    const suppression = this.#suppressionOf(call, { isSuspect: record.countRejection(since) })
    if (suppression !== undefined) this.#emitSuppressed(call, suppression)
    else {
      const key = this.#keyOf(call)
      this.#runs.start(
        key,
        () => this.#replaceRejected(call, since),
        () => this.#reportHold(call, key),
      )
    }
  }

  /**
   * The key of a renewal: one for each API and each acquired token, so that 401s for a later token begin a new run.
   */
  #keyOf({ api }: RejectedCall): string {
    return `rejection ${this.#tokens.count} ${api?.url}`
  }

  /** Acquires a token for the callers that have none. */
  async #acquireForCaller(since: number): Promise<void> {
    if (this.#servable() !== undefined) return
    if ((await this.#acquire({ purpose: 'caller', since })) !== 'acquired') this.#assertNoCooldown()
  }

  /** Acquires a token that is requested after a call for one. If that fails, the current token stays in use. */
  async #replaceForced(call: ForcedCall): Promise<void> {
    if (this.#tokenRequestedAfter(call) !== undefined) return
    const servable = this.#servable()
    const { at } = call
    const outcome = await this.#acquire({
      purpose: 'forced',
      replacesValue: this.#tokens.current?.token.value,
      sentSince: at,
      since: at,
    })
    if (outcome !== 'acquired') this.#assertNoCooldown()
    else if (servable !== undefined) this.#emitRenewed('forced', servable.value)
  }

  /** A token that was requested after a call for such a token: the current one, or a newer one that an API does not know yet. */
  #tokenRequestedAfter({ at, requests, currentAtCall }: ForcedCall): AccessToken | undefined {
    const isLater = (known: CachedToken): boolean => {
      const request = this.#requestOf.get(known)
      return request === undefined ? known.sentAt.monotonicMs >= at : request > requests
    }
    const { current, newer } = this.#tokens
    const known = newer ?? current
    if (known === undefined || known === currentAtCall || !isLater(known)) return undefined
    return known.servableForMs(this.#options.clock) > 0 ? known.token : undefined
  }

  /** Replaces a token that an API rejected. */
  async #replaceRejected(call: RejectedCall, since: number): Promise<void> {
    const { token, api, isByHand } = call
    if (this.#servableOtherThan(token) !== undefined) return
    if (this.#servable() === undefined) return await this.#acquireForCaller(since) // it has expired in the meantime
    const need: Need = { purpose: 'rejected', api: api?.url }
    // While a limit forbids a renewal the token stays in use, so it may come from the store again.
    if (this.#limits.mayRequest(need)) this.#context.rejected.add(token)
    // The store may still have an older token than this one, for example after a write that failed.
    const sentSince = this.#tokens.current?.sentAt.monotonicMs
    const outcome = await this.#acquire({
      ...need,
      replacesValue: token,
      sentSince,
      since,
      isReported: !isByHand,
    })
    if (outcome === 'acquired') this.#emitRenewed('rejected', token)
  }

  /** Says of each call that waited for a renewal, the run with this key, which limit held that back. */
  #reportHold(call: RejectedCall, key: string): void {
    // The token endpoint may have issued the same token again. Without a token, the next call requests one.
    if (this.#keyOf(call) !== key || this.#servable()?.value !== call.token) return
    const hold = this.#limits.holdOn({ purpose: 'rejected', api: call.api?.url })
    if (hold === undefined) return
    this.#emitSuppressed(call, hold)
    this.#assertNoCooldown()
  }

  #emitRenewed(reason: TokenRenewedEvent['reason'], replaced: string): void {
    // The token endpoint may have issued the same token again.
    if (this.#servableOtherThan(replaced) !== undefined) this.#context.emit({ type: 'token-renewed', reason })
  }

  /** Says why a rejected token is not renewed now. */
  #emitSuppressed(call: RejectedCall, { reason, until }: Suppression): void {
    // A limit holds renewals back only until the token expires.
    const nextRenewalMs = until && Math.min(until - this.#now(), this.#servableForMs())
    this.#context.emit(() => ({
      type: 'renewal-suppressed',
      reason,
      ...(nextRenewalMs !== undefined && { nextRenewalMs }),
      ...this.#eventFieldsOf(call),
    }))
  }

  #startBackgroundRenewal(): void {
    // Behind another run, this one would renew the token that the other run has just acquired: it does not check again. A newer
    // token that waits has begun the background pause.
    if (this.#runs.has()) return
    if (this.#limits.mayRequest({ purpose: 'background' }))
      this.#runs.start('background', () => this.#renewExpiring())
  }

  /** Replaces a token in its refresh window. If that fails, the current token stays in use. */
  async #renewExpiring(): Promise<void> {
    const { clock } = this.#options
    const { current } = this.#tokens
    if (current === undefined) return // closed
    const since = this.#now()
    const waitsForStoreUntil = since + current.servableForMs(clock) - current.despiteStoreFailureMs
    const outcome = await this.#acquire({
      purpose: 'background',
      replacesValue: current.token.value,
      sentSince: current.sentAt.monotonicMs,
      waitsForStoreUntil,
      since,
    })
    if (outcome === 'acquired') this.#emitRenewed('expiring', current.token.value)
    else this.#limits.pauseBackground(current.servableForMs(clock))
    if (outcome === 'store-failed') this.#limits.endBackgroundPauseBy(waitsForStoreUntil)
  }

  /** Acquires a token and caches it, or says why no token may be requested. Call only in a run. */
  async #acquire(need: WaitingNeed): Promise<Outcome> {
    const { purpose, api, since, isReported = true } = need
    const credential = new ClientCredential(this.#options, this.#context)
    const permission = await this.#permit(need, credential)
    if (permission.kind === 'found') {
      // The look in the store has reset the cooldown. A token request reports its quotas itself, also if it fails.
      this.#limits.quotasReported(permission.token.quotas)
      if (purpose === 'rejected')
        this.#limits.recordFor(api).renewed(this.#now(), { isRequested: false, isReported })
      this.#accept(permission.token, 'store', since)
      return 'acquired'
    }
    if (permission.kind !== 'request') return permission.kind
    const requestedAt = this.#now()
    this.#requests += 1
    const number = this.#requests
    let requested: CachedToken | undefined
    try {
      const request = new TokenRequest(this.#options, {
        ...this.#context,
        credential,
        purpose,
        // If a failed attempt reports that a quota is nearly spent, a renewal leaves the rest to callers without a token.
        mayRetry: () => this.#servable() === undefined || this.#limits.mayRequest(need),
      })
      requested = await request.send()
      this.#requestOf.set(requested, number)
      this.#limits.succeeded()
      // Before it is shared: other processes have to know that this API is in doubt.
      if (purpose === 'rejected')
        this.#limits.recordFor(api).renewed(requestedAt, { isRequested: true, isReported })
      this.#accept(requested, 'endpoint', since)
      return 'acquired'
    } catch (error) {
      if (isFrameworkError(error)) {
        if (purpose === 'background') this.#limits.pauseBackground(this.#servableForMs())
        throw error
      }
      throw this.#errorFor(this.#limits.failed(error, need, this.#servableForMs()))
    } finally {
      await permission.finish(requested)
    }
  }

  /** Whether to use a token of the store, to request one, or neither. */
  async #permit(need: SharedNeed, credential: ClientCredential): Promise<Permission> {
    if (this.#sharedToken !== undefined) return await this.#sharedToken.permit(need, credential)
    return this.#limits.mayRequest(need) ? { kind: 'request', finish: async () => {} } : LIMITED
  }

  #accept(cached: CachedToken, source: 'endpoint' | 'store', since: number): void {
    this.#assertOpen()
    this.#tokens.acquired(cached, (known) => this.#limits.anyHasAccepted(known?.token.value))
    this.#context.secrets.keep('token', cached.token.value)
    this.#context.emit({
      type: 'token-acquired',
      source,
      durationMs: this.#now() - since,
      lifetimeMs: cached.lifetimeMs,
      remainsMs: cached.remainsMs(this.#options.clock),
      ...(source === 'endpoint' && cached.quotas.length > 0 ? { quota: cached.quotas } : undefined),
    })
  }

  /** What events say of a rejected call. */
  #eventFieldsOf({ api, method, url }: RejectedCall): Pick<RenewalSuppressedEvent, 'api' | 'method' | 'url'> {
    return {
      ...(api && { api: api.label }),
      ...(method && { method }),
      ...(url && { url: shownUrl(url, this.#context.secrets) }),
    }
  }

  /** For messages: its path might contain a secret by mistake. */
  get #endpoint(): string {
    return shownUrl(this.#options.endpoint, this.#context.secrets)
  }

  #now(): number {
    return this.#options.clock.monotonicMs()
  }

  #servableForMs(): number {
    return this.#tokens.current?.servableForMs(this.#options.clock) ?? 0
  }

  /** The cached token, if it may be used. Unlike `currentToken()` this starts nothing. */
  #servable(): AccessToken | undefined {
    return this.#servableForMs() > 0 ? this.#tokens.current?.token : undefined
  }

  #servableOtherThan(value: string): AccessToken | undefined {
    return otherThan(value, this.#servable())
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

function otherThan(value: string, token: AccessToken | undefined): AccessToken | undefined {
  return token?.value === value ? undefined : token
}
