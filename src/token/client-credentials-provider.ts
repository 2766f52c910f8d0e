/** The provider: who needs a token looks for one that will do, waits for the acquisition under way or begins one, looks again. */
import { MINUTE_MS } from '../base/clock.ts'
import { ConfigurationError, ProviderClosedError } from '../base/errors.ts'
import { inManual } from '../base/manual-link.ts'
import { shownUrl, UsedSecrets } from '../base/redact.ts'
import { throwIfAborted } from '../base/waiting.ts'
import { type Destinations, destinationsOf } from '../environment/destinations.ts'
import type { Api, Environment } from '../environment/environment.ts'
import { createEmit } from '../events/emit.ts'
import type { StoreFailedEvent, TokenRejectedEvent } from '../events/events.ts'
import { warnStoreFailed } from '../events/store-warning.ts'
import { countProvider, uncountProvider, warnIfWeak } from '../events/warnings.ts'
import {
  clientOf,
  type ResolvedOptions,
  resolveOptions,
  type TokenProviderOptions,
} from '../options/options.ts'
import { Acquirer, type WaitingNeed } from './acquirer.ts'
import {
  type RejectedCall as AttachedCall,
  type CallAnswer,
  type Replacement,
  registerProvider,
} from './attached-provider.ts'
import { KnownTokens } from './known-tokens.ts'
import { RequestLimits } from './limits/request-limits.ts'
import type { GetTokenOptions, RenewOptions, TokenProvider } from './provider.ts'
import {
  freeTokenFor,
  hasHelped,
  isAccepted,
  purposeOf,
  type Rejected,
  reasonNotToRenew,
  type Suppression,
} from './rejection.ts'
import { type AccessToken, RejectedTokens } from './request/access-token.ts'
import type { ProviderContext } from './request/context.ts'
import { ExpiredTokenError, lostRequest } from './request/token-errors.ts'
import { SharedToken } from './shared/shared-token.ts'
import { SingleFlight } from './single-flight.ts'

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
 * How many acquisitions a call waits for: the token can be gone if a clock jumped, and a forced call may have waited for a
 * request that was sent before it.
 */
export const MAX_ROUNDS = 3

/** How long (ms) an acquisition takes at most besides its request: its looks into the store, the lease and the write. */
const STORE_MS: number = MINUTE_MS

/** Which token a call wants, and what to acquire while there is none. */
interface Want {
  /** The token, if it is there. */
  find(): AccessToken | undefined
  /** What to acquire; undefined where nothing may be acquired for this call. */
  need(): WaitingNeed | undefined
}

/** A call whose token an API rejected. */
interface RejectedCall extends Rejected {
  /** What events say of it. */
  readonly shown: () => Omit<TokenRejectedEvent, 'type' | 'environment'>
}

class ClientCredentialsProvider implements TokenProvider {
  readonly environment: Environment
  readonly #options: ResolvedOptions
  readonly #context: ProviderContext
  readonly #limits: RequestLimits
  readonly #destinations: Destinations
  readonly #tokens: KnownTokens
  /** Only with a store. */
  readonly #sharedToken: SharedToken | undefined
  readonly #acquirer: Acquirer
  readonly #acquisition: SingleFlight<WaitingNeed>
  #isClosed = false

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
    const secrets = new UsedSecrets()
    const unheard = store && ((event: StoreFailedEvent) => warnStoreFailed(store, event))
    const emit = createEmit(onEvent, environment.name, unheard)
    this.environment = environment
    this.#options = options
    this.#limits = new RequestLimits(clock)
    this.#tokens = new KnownTokens(clock)
    this.#context = { emit, secrets, limits: this.#limits, rejected: new RejectedTokens() }
    this.#destinations = destinationsOf(environment)
    this.#sharedToken = store && new SharedToken(store, options, this.#context)
    this.#acquirer = new Acquirer(options, this.#context, this.#tokens, this.#sharedToken)
    this.#acquisition = new SingleFlight({
      clock: limitClock,
      longestMs: timeoutMs + (store ? STORE_MS : 0),
      acquire: (need, signal) => this.#acquirer.acquire(need, signal),
    })
    registerProvider(this, {
      emit,
      secrets,
      answered: (answer) => this.#answered(answer),
      replacementFor: (call) => this.#replacementFor(call),
    })
    for (const key of encryptionKeys) secrets.keep(key, key)
    if (typeof credential.value === 'string') {
      secrets.keep('credential', credential.value)
      warnIfWeak(credential.value)
    }
    // Providers that share a store also share its token.
    if (store === undefined) countProvider(this, clientOf(options), this.#endpoint)
  }

  currentToken(): AccessToken | undefined {
    const { newer } = this.#tokens
    // It was rejected while the one before was accepted: it is tried again after the pause that began then.
    if (newer !== undefined && (this.#limits.isBackgroundDue || this.#tokens.servable === undefined))
      this.#tokens.use(newer.token)
    const { current } = this.#tokens
    if (current === undefined) return undefined
    const servableForMs = current.servableForMs(this.#options.clock)
    if (servableForMs <= 0) return undefined
    if (servableForMs <= current.windowMs) this.#renewInBackground()
    return current.token
  }

  async getToken({ signal, forceRefresh = false }: GetTokenOptions = {}): Promise<AccessToken> {
    const token = await this.#waitFor(forceRefresh ? this.#wantedByForce() : this.#wanted(), signal)
    return token ?? this.#noToken()
  }

  /** Any token that may be used. */
  #wanted(): Want {
    const since = this.#now()
    return {
      find: () => this.currentToken(),
      need: () => {
        // During a cooldown another process may have got a token.
        if (!this.#isLookDue) this.#assertNoCooldown()
        return { purpose: 'caller', since }
      },
    }
  }

  /** A token that is requested after this moment. Other processes' requests are compared by the clock. */
  #wantedByForce(): Want {
    const since = this.#now()
    const { requests } = this.#acquirer
    const { current: before } = this.#tokens
    return {
      find: () => {
        const known = this.#tokens.newer ?? this.#tokens.current
        if (known === undefined || known === before) return undefined
        const origin = this.#tokens.originOf(known.token)
        const isLater = origin === undefined ? known.sentAt.monotonicMs >= since : origin.request > requests
        return isLater && known.servableForMs(this.#options.clock) > 0 ? known.token : undefined
      },
      need: () => {
        this.#assertNoCooldown()
        return {
          purpose: 'forced',
          replacesValue: this.#tokens.current?.token.value,
          sentSince: since,
          since,
        }
      },
    }
  }

  /**
   * A token other than those that an API rejected a call with; any one, if the current one expires meanwhile. `suppressed` is
   * called where the 401 renews nothing.
   */
  #wantedInsteadOf(call: RejectedCall, suppressed: (why: Suppression) => void): Want {
    const { api, rejected } = call
    const { count } = this.#tokens
    const since = this.#now()
    return {
      find: () => this.#servableOtherThan(rejected),
      need: () => {
        const { current, servable } = this.#tokens
        const why =
          servable === undefined || this.#isRenewingFor(api)
            ? undefined
            : reasonNotToRenew(call, this.#tokens, this.#limits)
        if (why !== undefined) suppressed(why)
        if (this.#tokens.count > count) return undefined // the token endpoint has issued a rejected token again
        // A limit that forbids a renewal may be over for another process, whose token is in the store.
        const mayLook = this.#isLookDue || this.#acquisition.underWay?.purpose === 'look'
        if (why !== undefined && !(why.isHeld && mayLook)) return undefined
        // While no renewal is allowed the token stays in use, so it may come from the store again.
        if (why === undefined) for (const token of rejected) this.#context.rejected.add(token)
        if (servable === undefined) return this.#wanted().need()
        const purpose = why === undefined ? purposeOf(call) : 'look'
        // The store may still have an older token than this one, for example after a write that failed.
        const sentSince = current?.sentAt.monotonicMs
        return { purpose, api, replacesValue: servable.value, sentSince, since }
      },
    }
  }

  /** The loop. Resolves with undefined where nothing may be acquired for this call, or nothing that was acquired will do. */
  async #waitFor(want: Want, signal: AbortSignal | undefined): Promise<AccessToken | undefined> {
    let wasLost = false
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      this.#assertOpen()
      throwIfAborted(signal)
      const found = want.find()
      if (found !== undefined) return found
      const need = want.need()
      if (need === undefined) return undefined
      const { purpose } = this.#acquisition.underWay ?? this.#acquisition.begin(need)
      let isLost = false
      try {
        isLost = (await this.#acquisition.ended(signal)) === 'lost'
      } catch (error) {
        // Nobody who waits asked for a background renewal: its failure uses up no attempt of theirs.
        if (purpose !== 'background' || signal?.aborted || this.#isClosed) throw error
      }
      if (isLost && wasLost) throw lostRequest(this.#endpoint)
      wasLost ||= isLost
    }
    return want.find()
  }

  /** Replaces a token in its refresh window. If that fails, the current token stays in use. */
  #renewInBackground(): void {
    const { current } = this.#tokens
    const { clock } = this.#options
    if (current === undefined || !this.#limits.mayRequest({ purpose: 'background' })) return
    if (this.#acquisition.underWay !== undefined) return
    const since = this.#now()
    this.#acquisition.begin({
      purpose: 'background',
      replacesValue: current.token.value,
      sentSince: current.sentAt.monotonicMs,
      waitsForStoreUntil: since + current.servableForMs(clock) - current.despiteStoreFailureMs,
      since,
    })
  }

  async renewToken(
    rejected: AccessToken | string,
    { signal, url, method }: RenewOptions = {},
  ): Promise<AccessToken | undefined> {
    this.#assertOpen()
    throwIfAborted(signal)
    const value = typeof rejected === 'string' ? rejected : rejected.value
    const { newer, servable } = this.#tokens
    // An attached call gets the newer token by freeTokenFor, and reports whether it works. Who renews by hand does not.
    if (newer !== undefined && (servable === undefined || value === servable.value))
      this.#tokens.use(newer.token)
    const call = this.#callOf([value], { url, method, isByHand: true })
    const other = this.#servableOtherThan([value])
    if (other !== undefined) return other
    // The 401 of a URL that is below no API says nothing about this token.
    if (url !== undefined && call.api === undefined) return undefined
    this.#emitRejected(call)
    return await this.#renew(call, signal)
  }

  /** A token to repeat a rejected call of an attachment with. */
  async #replacementFor({
    rejected: tokens,
    canRepeat,
    signal,
    ...target
  }: AttachedCall): Promise<Replacement | undefined> {
    this.#assertOpen()
    throwIfAborted(signal)
    const rejected = tokens.map(({ value }) => value)
    const call = this.#callOf(rejected, { ...target, isByHand: false })
    const { api } = call
    this.#emitRejected(call)
    const [first = ''] = rejected
    const isFirst = rejected.length === 1
    const free = isFirst && freeTokenFor({ api, rejected: first, canRepeat }, this.#tokens, this.#limits)
    if (free) {
      if (!canRepeat) this.#use(free)
      return { token: free, isFree: true }
    }
    const isOfCurrent = rejected.includes(String(this.#tokens.servable?.value))
    if (isOfCurrent && !this.#isRenewingFor(api)) this.#limits.recordFor(api).countRejection(this.#now())
    const token = await this.#renew(call, signal)
    return token && { token, isFree: this.#tokens.originOf(token)?.api !== api }
  }

  /** Waits for a token other than the rejected ones; undefined where there is none. */
  async #renew(call: RejectedCall, signal: AbortSignal | undefined): Promise<AccessToken | undefined> {
    let why: Suppression | undefined
    const want = this.#wantedInsteadOf(call, (reason) => {
      why = reason
    })
    const token = await this.#waitFor(want, signal)
    if (token !== undefined) return token
    if (this.#tokens.servable === undefined) return this.#noToken()
    if (why !== undefined) this.#emitSuppressed(call, why)
    this.#assertNoCooldown()
    return undefined
  }

  /** An attachment reports how an API answered a call. */
  #answered(answer: CallAnswer): void {
    const { api, token, rejected } = answer
    if (api === undefined) return
    const wasAccepted = isAccepted(answer)
    // First the token that works becomes the current one, so that its acceptance counts as that of the current token.
    if (wasAccepted && rejected !== undefined && rejected.value === this.#tokens.current?.token.value)
      this.#use(token)
    const record = this.#limits.recordFor(api.url)
    const helped = hasHelped(answer, this.#tokens)
    if (helped) record.helped(this.#now())
    // A path that returned 401 to the other token checks tokens: even its 404 means that it accepts this one.
    if (wasAccepted || helped) record.accepted(token.value, this.#tokens.current?.token.value)
  }

  /** Uses this one of the tokens from now on. The newest one is tried again after a pause. */
  #use(token: AccessToken): void {
    const isBefore = token === this.#tokens.before?.token
    this.#tokens.use(token)
    if (isBefore) this.#limits.pauseBackground(this.#tokens.servableForMs)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#tokens.clear()
    uncountProvider(this, clientOf(this.#options))
    await this.#acquisition.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #callOf(
    rejected: readonly string[],
    { url, method, isByHand }: Pick<RenewOptions, 'url' | 'method'> & { readonly isByHand: boolean },
  ): RejectedCall {
    const api: Api | undefined = url === undefined ? undefined : this.#destinations(String(url)).api
    return {
      rejected,
      isByHand,
      api: api?.url,
      shown: () => ({ api: api?.label, method, url: url && shownUrl(url, this.#context.secrets) }),
    }
  }

  /** A 401 for a token that is no longer in use says nothing new. */
  #emitRejected({ rejected, shown }: RejectedCall): void {
    if (rejected.at(-1) === this.#tokens.servable?.value)
      this.#context.emit(() => ({ type: 'token-rejected', ...shown() }))
  }

  #emitSuppressed({ shown }: RejectedCall, { reason, until }: Suppression): void {
    // A limit holds renewals back only until the token expires.
    const nextRenewalMs = until && Math.min(until - this.#now(), this.#tokens.servableForMs)
    this.#context.emit(() => ({ type: 'renewal-suppressed', reason, nextRenewalMs, ...shown() }))
  }

  /** Whether a renewal for this API is under way. */
  #isRenewingFor(api: string | undefined): boolean {
    const { underWay } = this.#acquisition
    return underWay?.purpose === 'rejected' && underWay.api === api
  }

  /** For messages: its path might contain a secret by mistake. */
  get #endpoint(): string {
    return shownUrl(this.#options.endpoint, this.#context.secrets)
  }

  get #isLookDue(): boolean {
    return this.#sharedToken?.isLookDue ?? false
  }

  #now(): number {
    return this.#options.clock.monotonicMs()
  }

  #servableOtherThan(rejected: readonly string[]): AccessToken | undefined {
    const { servable } = this.#tokens
    return servable && rejected.includes(servable.value) ? undefined : servable
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new ProviderClosedError()
  }

  #assertNoCooldown(): void {
    const { lastFailure } = this.#limits
    if (lastFailure !== undefined && lastFailure.endsAt > this.#now())
      throw this.#acquirer.errorFor(lastFailure, { isRepeated: true })
  }

  #noToken(): never {
    this.#assertNoCooldown()
    throw new ExpiredTokenError(this.#endpoint)
  }
}
