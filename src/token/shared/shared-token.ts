/**
 * The token and the limits that processes share through a store, in one entry: look for it, wait for the lease, look again,
 * request, write.
 */

import { nodeCrypto } from '../../base/builtin-modules.ts'
import { HOUR_MS, SECOND_MS } from '../../base/clock.ts'
import { shownUrl } from '../../base/redact.ts'
import { untilAborted } from '../../base/waiting.ts'
import { clientOf, type ResolvedOptions } from '../../options/options.ts'
import type { TokenStore } from '../../store/token-store.ts'
import type { Need, SharedLimits } from '../limits/request-limits.ts'
import { type AccessToken, CachedToken } from '../request/access-token.ts'
import type { ClientCredential } from '../request/client-credential.ts'
import type { ProviderContext } from '../request/context.ts'
import { refusedElsewhere } from '../request/token-errors.ts'
import { EncryptedStore, type EncryptedStoreContext, type Entry, type Release } from './encrypted-store.ts'

/** How often a process that waits for another one's token looks for it: with the reading itself, it sees it within 100 ms. */
export const LOOK_EVERY_MS = 50
/** How long a lease lasts beyond the token request: a look before it, and the write after it. */
const LEASE_BEYOND_REQUEST_MS = 2 * SECOND_MS
/** Extra wait for the request of the next lease holder after one died. */
const GRACE_MS = SECOND_MS
/** How often a call waits for a look that may yield nothing: while no token may be requested, and while the store fails. */
export const LOOK_AGAIN_MS: number = 30 * SECOND_MS
/**
 * An entry lives as long as its token, and at least for so long: by then the longest limits in it are over, the 8 times 40 min
 * of a renewal bucket and the 4 h of doubt (renewals.ts).
 */
const MIN_ENTRY_MS = 6 * HOUR_MS

/** What processes share. Durations are those at the moment of writing. */
export interface SharedEntry {
  /** The time to live that was written. The age of the entry is this minus the time to live that is left. */
  readonly ttlMs: number
  readonly token?: SharedTokenEntry | undefined
  readonly limits: SharedLimits
}

/** The token in an entry. */
export interface SharedTokenEntry
  extends Pick<CachedToken, 'lifetimeMs' | 'quotas'>,
    Pick<AccessToken, 'value' | 'scope'> {
  readonly remainsMs: number
}

/** A need for a token, in the eyes of the store. */
export interface SharedNeed extends Need {
  /** The value of the token that is to be replaced. */
  readonly replacesValue?: string | undefined
  /** Only a token will do whose request was sent at this moment (monotonic ms) or later. */
  readonly sentSince?: number | undefined
  /** Until when (monotonic ms) it waits for a store that fails, rather than request a token without it. */
  readonly waitsForStoreUntil?: number | undefined
}

/** What an acquisition may do: use the token that was `found` in the store, or `request` one. */
export type Permission =
  | { readonly kind: 'found'; readonly token: CachedToken }
  | { readonly kind: 'request'; readonly finish: FinishRequest }
  | Denial

/**
 * Why an acquisition may do neither:
 *
 * - `limited`: a limit forbids a token request, or another process has the lease, for which the background does not wait
 * - `store-failed`: the store fails and may be back soon; the background waits for it until the last quarter of its window
 */
export interface Denial {
  readonly kind: 'limited' | 'store-failed'
}

export const LIMITED: Denial = { kind: 'limited' }
const STORE_FAILED: Denial = { kind: 'store-failed' }

/**
 * Shares the token, or else the limits after a failure, with other processes, and releases the lease. Resolves when that is
 * done; while the store fails, at once.
 */
export type FinishRequest = (token: CachedToken | undefined) => Promise<void>

/** An entry of the options' client in a store: that of its token, by default. */
export function entryOfClient(
  store: TokenStore,
  options: ResolvedOptions,
  context: Omit<EncryptedStoreContext, 'name' | 'client' | 'clock'> & { readonly name?: string },
): EncryptedStore<SharedEntry> {
  return new EncryptedStore(store, {
    name: 'token',
    ...context,
    client: hashOf(clientOf(options)),
    clock: options.clock,
  })
}

/** One acquisition: what it is for, what it has seen of the entry, and the lease that it holds. */
interface Claim {
  readonly need: SharedNeed
  readonly credential: ClientCredential
  /** Ends it. */
  readonly signal: AbortSignal
  /** A write after a failure must not erase the token of the entry. Undefined if it was not read. */
  seen?: { readonly token: CachedToken | undefined } | undefined
  release?: Release | undefined
}

/** One provider's access to the shared entry. It makes one acquisition at a time. */
export class SharedToken {
  readonly #store: TokenStore
  readonly #options: ResolvedOptions
  readonly #context: ProviderContext
  #opened: { readonly firstKey: string; readonly store: EncryptedStore<SharedEntry> } | undefined
  /** When (monotonic ms) the last look began. */
  #lookedAt = Number.NEGATIVE_INFINITY
  /** Whether the last operation failed. */
  #isFailing = false

  constructor(store: TokenStore, options: ResolvedOptions, context: ProviderContext) {
    this.#store = store
    this.#options = options
    this.#context = context
  }

  /** Whether a call looks into the store although it may yield nothing. */
  get isLookDue(): boolean {
    return this.#now() >= this.#lookedAt + LOOK_AGAIN_MS
  }

  /** Looks for the token, and waits for the right to request one. */
  async permit(need: SharedNeed, credential: ClientCredential, signal: AbortSignal): Promise<Permission> {
    const { limits } = this.#context
    const claim: Claim = { need, credential, signal }
    // Nobody waits for the background, so it finds out whether the store is back.
    const mayLook = !this.#isFailing || this.isLookDue || need.purpose === 'background'
    const store = mayLook ? await this.#open(claim) : undefined
    if (store !== undefined) {
      this.#lookedAt = this.#now()
      const found = await this.#look(store, claim)
      if (found !== undefined) return { kind: 'found', token: found }
      const mayWait = store.hasLeases && !this.#isFailing && limits.mayRequest(need)
      const other = mayWait ? await this.#waitForLease(store, claim) : undefined
      if (other !== undefined) return other
    }
    const mayRequest = limits.mayRequest(need)
    if (mayRequest && !this.#isWaitingForStore(need))
      return { kind: 'request', finish: (token) => this.#finish(claim, token) }
    await this.#release(claim)
    return mayRequest ? STORE_FAILED : LIMITED
  }

  get #leaseMs(): number {
    return Math.ceil(this.#options.timeoutMs) + LEASE_BEYOND_REQUEST_MS
  }

  #isWaitingForStore({ waitsForStoreUntil = Number.NEGATIVE_INFINITY }: SharedNeed): boolean {
    return this.#isFailing && this.#now() < waitsForStoreUntil
  }

  /**
   * The entry that this process can decrypt; undefined without a key. While no token may be requested, that of the last key:
   * the function for the credential is not called.
   */
  async #open({ need, credential }: Claim): Promise<EncryptedStore<SharedEntry> | undefined> {
    const { encryptionKeys, limitClock, timeoutMs } = this.#options
    if (encryptionKeys !== undefined) return this.#entryFor(encryptionKeys)
    if (!this.#context.limits.mayRequest(need)) return this.#opened?.store
    const endsAt = limitClock.monotonicMs() + timeoutMs
    const secret = await credential.first(endsAt).catch(() => '') // the attempt fails with the same error
    return secret === '' ? this.#opened?.store : this.#entryFor([secret])
  }

  #entryFor(encryptionKeys: readonly string[]): EncryptedStore<SharedEntry> {
    const firstKey = encryptionKeys[0] as string
    if (this.#opened?.firstKey !== firstKey) {
      const { emit } = this.#context
      this.#opened = {
        firstKey,
        store: entryOfClient(this.#store, this.#options, { encryptionKeys, emit }),
      }
    }
    return this.#opened.store
  }

  /** Reads the entry: adopts its limits, and returns its token if that can be used. */
  async #look(store: EncryptedStore<SharedEntry>, claim: Claim): Promise<CachedToken | undefined> {
    const { need, signal } = claim
    const { limits, secrets } = this.#context
    let seen: CachedToken | undefined
    claim.seen = undefined
    const error = (): unknown => refusedElsewhere(shownUrl(this.#options.endpoint, secrets))
    try {
      for await (const entry of store.read(signal)) {
        const ageMs = ageOf(entry)
        const token = this.#tokenIn(entry, ageMs)
        seen ??= token
        const isFound = token !== undefined && this.#isUsable(token, need)
        // First the token resets the cooldown; then a 429 that came after it, which the limits contain, begins another one.
        if (isFound) limits.succeeded()
        limits.adopt(entry.content.limits, { writtenAt: entry.readAt.monotonicMs - ageMs, error })
        if (isFound) {
          this.#isFailing = false
          return token
        }
      }
      this.#isFailing = false
      claim.seen = { token: seen }
    } catch {
      this.#isFailing ||= !signal.aborted
    }
    return undefined
  }

  /** The remaining lifetime comes from the store's time to live, because the writer's clock may be wrong. */
  #tokenIn({ content, readAt }: Entry<SharedEntry>, ageMs: number): CachedToken | undefined {
    if (content.token === undefined) return undefined
    const { value, scope, lifetimeMs, remainsMs, quotas } = content.token
    const livedMs = lifetimeMs - remainsMs + ageMs
    const sentAt = { monotonicMs: readAt.monotonicMs - livedMs, epochMs: readAt.epochMs - livedMs }
    const aged = quotas.map((quota) => ({
      ...quota,
      resetsInMs: quota.resetsInMs && quota.resetsInMs - livedMs,
    }))
    return new CachedToken(
      { value, scope, lifetimeMs, sentAt, quotas: aged },
      this.#options,
      this.#context.secrets,
    )
  }

  #isUsable(
    cached: CachedToken,
    { purpose, replacesValue, sentSince = Number.NEGATIVE_INFINITY }: SharedNeed,
  ): boolean {
    const { value } = cached.token
    if (value === replacesValue || this.#context.rejected.has(value)) return false
    if (cached.sentAt.monotonicMs < sentSince) return false
    const leastMs = purpose === 'background' ? cached.windowMs : 0 // otherwise it would be renewed at once
    return cached.servableForMs(this.#options.clock) > leastMs
  }

  /**
   * Waits until this process may request a token; resolves with undefined then. A holder that died blocks for as long as
   * its lease, and the next holder needs time, too. After that this process requests one without the lease. A background
   * renewal does not wait for other processes.
   */
  async #waitForLease(store: EncryptedStore<SharedEntry>, claim: Claim): Promise<Permission | undefined> {
    const { limitClock } = this.#options
    const { limits } = this.#context
    const { need, signal } = claim
    const giveUpAt = limitClock.monotonicMs() + this.#leaseMs + GRACE_MS
    for (;;) {
      try {
        claim.release = await store.lease(this.#leaseMs, signal)
      } catch {
        this.#isFailing ||= !signal.aborted
        return undefined
      }
      const hasLease = claim.release !== undefined
      if (!hasLease) {
        if (need.purpose === 'background') return LIMITED
        if (limitClock.monotonicMs() >= giveUpAt) return undefined
        await untilAborted(limitClock.sleep(LOOK_EVERY_MS, signal), signal)
      }
      // Another process may have renewed, or been refused, while this one waited.
      const found = await this.#look(store, claim)
      const isOver = found !== undefined || !limits.mayRequest(need)
      if (isOver) await this.#release(claim)
      if (found !== undefined) return { kind: 'found', token: found }
      if (isOver) return LIMITED
      if (hasLease || this.#isFailing) return undefined
    }
  }

  /**
   * Ends an acquisition: writes its token, or after a failure its limits beside the token that the last look saw, and releases
   * its lease. While the store fails, a token is written all the same, because later processes need it; nobody waits for that.
   */
  async #finish(claim: Claim, token: CachedToken | undefined): Promise<void> {
    const isFailing = this.#isFailing
    const ended = this.#share(claim, token).then(() => this.#release(claim))
    if (!isFailing) await ended
  }

  async #share({ credential, need, seen, signal }: Claim, token: CachedToken | undefined): Promise<void> {
    if (signal.aborted) return
    const hasLimits = need.purpose === 'rejected' || this.#context.limits.shared.cooldown !== undefined
    if (token !== undefined) {
      // After the secret was rotated, processes that have the new one look under its key.
      const keys = this.#options.encryptionKeys ?? [credential.latest as string]
      await this.#write(this.#entryFor(keys), token, signal)
    } else if (seen !== undefined && this.#opened !== undefined && hasLimits)
      await this.#write(this.#opened.store, seen.token, signal)
  }

  async #write(
    store: EncryptedStore<SharedEntry>,
    cached: CachedToken | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { lifetimeMs = 0, quotas = [], token } = cached ?? {}
    const create = (): { content: SharedEntry; ttlMs: number } => {
      const remainsMs = cached?.remainsMs(this.#options.clock) ?? 0
      const ttlMs = Math.floor(Math.max(remainsMs, MIN_ENTRY_MS))
      const shared = token && { value: token.value, scope: token.scope, lifetimeMs, remainsMs, quotas }
      return { content: { ttlMs, token: shared, limits: this.#context.limits.shared }, ttlMs }
    }
    this.#isFailing = await store.write(create, signal).then(
      () => false,
      () => !signal.aborted,
    )
  }

  /** While another operation of the store hangs, none begins: then the lease is not released, and expires. */
  async #release({ release }: Claim): Promise<void> {
    await release?.().catch(() => {})
  }

  #now(): number {
    return this.#options.clock.monotonicMs()
  }
}

/** How long ago (ms) an entry was written, by the store's clock. */
export function ageOf({ content, ttlMs }: Entry<SharedEntry>): number {
  return Math.max(0, content.ttlMs - ttlMs)
}

/** A hash for keys. */
function hashOf(text: string): string {
  return nodeCrypto().createHash('sha256').update(text).digest('base64url')
}
