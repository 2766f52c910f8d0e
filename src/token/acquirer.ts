/** Acquires a token, for whatever need: finds it in the store, or requests it, and records what came of it. */
import { copyForCaller, isFrameworkError, TokenRequestError } from '../base/errors.ts'
import type { TokenRenewedEvent } from '../events/events.ts'
import type { ResolvedOptions } from '../options/options.ts'
import type { KnownTokens, Origin } from './known-tokens.ts'
import type { Failure } from './limits/cooldown.ts'
import type { Purpose } from './limits/request-limits.ts'
import type { CachedToken } from './request/access-token.ts'
import { ClientCredential } from './request/client-credential.ts'
import type { AcquisitionContext, ProviderContext } from './request/context.ts'
import { TokenRequest } from './request/token-request.ts'
import { LIMITED, type Permission, type SharedNeed, type SharedToken } from './shared/shared-token.ts'

/** A need for a token, and when (monotonic ms) the first caller began to wait for it. */
export interface WaitingNeed extends SharedNeed {
  readonly since: number
}

/** Where a token replaces one that may still be used, why. */
const RENEWED_BECAUSE: Partial<Record<Purpose, TokenRenewedEvent['reason']>> = {
  forced: 'forced',
  rejected: 'rejected',
  'by-hand': 'rejected',
  look: 'rejected',
  background: 'expiring',
}

export class Acquirer {
  readonly #options: ResolvedOptions
  readonly #context: ProviderContext
  readonly #tokens: KnownTokens
  /** Only with a store. */
  readonly #sharedToken: SharedToken | undefined
  #requests = 0

  constructor(
    options: ResolvedOptions,
    context: ProviderContext,
    tokens: KnownTokens,
    sharedToken: SharedToken | undefined,
  ) {
    this.#options = options
    this.#context = context
    this.#tokens = tokens
    this.#sharedToken = sharedToken
  }

  /** How many token requests have begun. */
  get requests(): number {
    return this.#requests
  }

  /** Acquires a token, unless a limit forbids it. Throws what its request throws, with the cooldown that follows. */
  async acquire(need: WaitingNeed, signal: AbortSignal): Promise<void> {
    const { limits } = this.#context
    const context = { ...this.#context, signal }
    const credential = new ClientCredential(this.#options, context)
    const permission = await this.#permit(need, credential, signal)
    if (permission.kind === 'found') {
      // The look in the store has reset the cooldown. A token request reports its quotas itself, also if it fails.
      limits.quotasReported(permission.token.quotas)
      if (need.api !== undefined) limits.recordFor(need.api).endRow()
      this.#accept(permission.token, need, { signal })
    } else if (permission.kind === 'request') {
      let token: CachedToken | undefined
      try {
        token = await this.#request(need, credential, context)
      } finally {
        await permission.finish(token)
      }
    } else if (need.purpose === 'background') {
      limits.pauseBackground(this.#tokens.servableForMs)
      if (permission.kind === 'store-failed' && need.waitsForStoreUntil !== undefined)
        limits.endBackgroundPauseBy(need.waitsForStoreUntil)
    }
  }

  /** Whether to use a token of the store, to request one, or neither. */
  async #permit(need: WaitingNeed, credential: ClientCredential, signal: AbortSignal): Promise<Permission> {
    if (this.#sharedToken !== undefined) return await this.#sharedToken.permit(need, credential, signal)
    return this.#context.limits.mayRequest(need) ? { kind: 'request', finish: async () => {} } : LIMITED
  }

  async #request(
    need: WaitingNeed,
    credential: ClientCredential,
    context: AcquisitionContext,
  ): Promise<CachedToken> {
    const { purpose, api } = need
    const { limits, signal } = context
    const sentAt = this.#options.clock.monotonicMs()
    this.#requests += 1
    const origin = { request: this.#requests, api: purpose === 'rejected' ? api : undefined }
    try {
      const request = new TokenRequest(this.#options, {
        ...context,
        credential,
        purpose,
        // If a failed attempt reports that a quota is nearly spent, a renewal leaves the rest to callers without a token.
        mayRetry: () => this.#tokens.servable === undefined || limits.holdOn(need) === undefined,
      })
      const token = await request.send()
      limits.succeeded()
      // Before it is shared: other processes have to know that this API is in doubt.
      if (purpose === 'rejected') limits.recordFor(api).renewed(sentAt)
      if (purpose === 'by-hand') limits.recordFor(api).drew(sentAt)
      this.#accept(token, need, { signal, origin })
      return token
    } catch (error) {
      signal.throwIfAborted()
      if (isFrameworkError(error)) {
        if (purpose === 'background') limits.pauseBackground(this.#tokens.servableForMs)
        throw error
      }
      throw this.errorFor(limits.failed(error, need, this.#tokens.servableForMs))
    }
  }

  /** `origin`: the request that it came from; undefined if the store had it. */
  #accept(
    cached: CachedToken,
    { purpose, since }: WaitingNeed,
    { signal, origin }: { readonly signal: AbortSignal; readonly origin?: Origin },
  ): void {
    signal.throwIfAborted() // in the same moment: a closed provider has no token
    const { emit, limits, secrets } = this.#context
    const { clock } = this.#options
    const { token, quotas } = cached
    const replaced = this.#tokens.servable
    this.#tokens.acquired(cached, origin, (known) => limits.anyHasAccepted(known?.token.value))
    secrets.keep('token', token.value)
    emit({
      type: 'token-acquired',
      source: origin === undefined ? 'store' : 'endpoint',
      durationMs: clock.monotonicMs() - since,
      lifetimeMs: cached.lifetimeMs,
      remainsMs: cached.remainsMs(clock),
      quota: origin !== undefined && quotas.length > 0 ? quotas : undefined,
    })
    const reason = RENEWED_BECAUSE[purpose]
    // The token endpoint may have issued the same token again.
    if (reason !== undefined && replaced !== undefined && replaced.value !== token.value)
      emit({ type: 'token-renewed', reason })
  }

  /** The error of a failed acquisition for a caller, with the rest of the cooldown. */
  errorFor({ error, endsAt }: Failure, { isRepeated = false } = {}): unknown {
    const { clock } = this.#options
    const remainsMs = Math.max(0, endsAt - clock.monotonicMs())
    const until = new Date(clock.epochMs() + remainsMs).toISOString()
    const hasNote = isRepeated || (error instanceof TokenRequestError && error.status === 429)
    const note = ` The token endpoint is not asked again for ${Math.ceil(remainsMs)} ms, until ${until}.`
    return copyForCaller(error, remainsMs, hasNote ? note : '')
  }
}
