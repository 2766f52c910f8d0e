/** The token that processes share through a store: look for it, wait for the lease, look again, request, write. */
import { createHash } from 'node:crypto'
import { clientOf, type ResolvedOptions } from '../options.ts'
import { type Entry, SafeStore } from '../store/safe-store.ts'
import type { TokenStore } from '../store/token-store.ts'
import { untilAborted } from '../waiting.ts'
import { type AccessToken, CachedToken } from './access-token.ts'
import {
  type Cooldown,
  mayRequest,
  type RenewalHistory,
  type RequestLimits,
  type SharedPause,
} from './rate-limit.ts'
import { attemptEndsAt, type ClientCredential, type ProviderContext } from './token-request.ts'

// A process that waits for another process's token sees it within 100 ms.
const LOOK_EVERY_MS = 50
/** Extra wait for the request of the next lease holder after one died. */
const MAX_GRACE_MS = 1_000
const LIMIT_ENTRY_MS = 24 * 60 * 60_000

/** Longer than the pause itself, so that the next one is longer, whichever process begins it. */
const PAUSE_ENTRY_MS = 2 * 60 * 60_000

// Entries are encrypted, so only this package wrote them.
type TokenEntry = Pick<CachedToken, 'lifetimeMs' | 'quotas'> & Pick<AccessToken, 'value' | 'scope'>

/** Why, and under which limits, a token is acquired. */
export interface Acquisition extends RequestLimits {
  /** When (monotonic ms) it began. `timeoutMs` counts from there, without the wait for other processes. */
  readonly startedAt: number
  /** Whether it is a background renewal, which accepts another process's token only before its refresh window. */
  readonly background: boolean
  /** The value of the token that is to be replaced. */
  readonly replaces?: string | undefined
}

/** The parts of a provider that its shared token needs. */
export interface SharedTokenContext extends ProviderContext {
  /** The tokens that APIs rejected. */
  readonly rejected: { has(value: string): boolean }
  readonly cooldown: Cooldown
}

/** What an acquisition shares with other processes. */
export interface SharedResult {
  readonly requested?: CachedToken
  /** The pause after a 429, or its end. */
  readonly pause?: SharedPause | undefined
}

/** One provider's access to the shared token. It makes one acquisition at a time. */
export class SharedToken {
  readonly #store: TokenStore
  readonly #options: ResolvedOptions
  readonly #context: SharedTokenContext
  #safe: { readonly firstKey: string; readonly store: SafeStore } | undefined
  /** The token that was requested last after a look failed. */
  #late: CachedToken | undefined
  #writing: Promise<void> = Promise.resolve()
  /** The last acquisition's write and the release of its lease. */
  #ending: Promise<void> = Promise.resolve()

  constructor(store: TokenStore, options: ResolvedOptions, context: SharedTokenContext) {
    this.#store = store
    this.#options = options
    this.#context = context
  }

  /** Resolves with an acquisition that found another process's token, may request one, or neither. */
  async begin(acquisition: Acquisition, credential: ClientCredential): Promise<SharedAcquisition> {
    const { closed } = this.#context
    const from = this.#now()
    const written = this.#writing.catch(() => {}) // on Cloudflare Workers it may be lost with its request
    await untilAborted(written, closed) // the last token can be found
    const wroteMs = this.#now() - from
    const late = { ...acquisition, startedAt: acquisition.startedAt + wroteMs }
    const store = await untilAborted(this.#open(late, credential), closed)
    const context = { ...this.#context, options: this.#options, acquisition, credential }
    const shared = new SharedAcquisition(store, context)
    try {
      const lookedAt = this.#now()
      await untilAborted(shared.begin(), closed)
      shared.waitedMs = wroteMs + this.#now() - lookedAt
      return shared
    } catch (error) {
      this.end(shared)
      throw error
    }
  }

  /** Ends an acquisition and shares its result. Only the next acquisition waits for the write. */
  end(shared: SharedAcquisition, result: SharedResult = {}): void {
    // A token for a new secret is not shared with processes that have the old secret, which may have been revoked.
    const isShared = this.#options.encryptionKeys || shared.credential.last === this.#safe?.firstKey
    this.#writing = shared.write(isShared ? result : { pause: result.pause })
    this.#ending = this.#writing.then(() => shared.release())
    if (shared.lookFailed && isShared && result.requested !== undefined) this.#writeLate(result.requested)
  }

  /** Shares a token that was requested after the look failed, as soon as the store answers: a slow connection is open then. */
  #writeLate(cached: CachedToken): void {
    const store = this.#safe?.store
    this.#late = cached
    store
      ?.answers()
      .then(async () => {
        if (this.#late === cached && !this.#context.closed.aborted)
          await store.write('token', tokenEntryOf(cached, this.#options))
      })
      .catch(() => {}) // the store is down
  }

  /** Resolves when everything is written or the store has failed. */
  async settled(): Promise<void> {
    await this.#ending
  }

  /**
   * The entries that this process can decrypt; undefined without a key. The function for the credential is called only if a token
   * may be requested, too.
   */
  async #open(acquisition: Acquisition, credential: ClientCredential): Promise<SafeStore | undefined> {
    const { clock, encryptionKeys, timeoutMs } = this.#options
    const { background, startedAt } = acquisition
    if (credential.mayChange && !mayRequest(acquisition, this.#now())) return this.#safe?.store
    const deadline = startedAt + timeoutMs
    const endsAt = attemptEndsAt(this.#options, { attempt: 1, background, deadline })
    const keys = encryptionKeys ?? [(await credential.askAhead(endsAt)) ?? '']
    const firstKey = keys[0]
    if (!firstKey) return this.#safe?.store
    if (this.#safe?.firstKey !== firstKey) {
      const client = hashOf(clientOf(this.#options))
      const { emit } = this.#context
      const store = new SafeStore(this.#store, { client, encryptionKeys: keys, clock, emit })
      this.#safe = { firstKey, store }
    }
    return this.#safe.store
  }

  #now(): number {
    return this.#options.clock.monotonicMs()
  }
}

interface SharedAcquisitionContext extends SharedTokenContext {
  readonly acquisition: Acquisition
  readonly credential: ClientCredential
  readonly options: ResolvedOptions
}

/** One acquisition of the shared token. Without a store, or after it fails, it proceeds immediately. */
export class SharedAcquisition {
  /** Another process's token. */
  found: CachedToken | undefined
  /** Whether this process may request one. */
  mayRequest = false
  /** Whether another process holds the lease, for which a background renewal does not wait. */
  isLeased = false
  /** Whether the store failed, so that the process continues without it. */
  storeFailed = false
  /** Whether it failed already in the first look. */
  lookFailed = false
  /** Whether the token endpoint refused another process, which began a pause for all. */
  isPausedElsewhere = false
  /** How long (ms) it waited for other processes. */
  waitedMs = 0
  readonly credential: ClientCredential
  #store: SafeStore | undefined
  readonly #acquisition: Acquisition
  readonly #options: ResolvedOptions
  readonly #context: SharedTokenContext
  #releaseLease: (() => Promise<void>) | undefined
  #beginning: Promise<void> = Promise.resolve()

  constructor(store: SafeStore | undefined, context: SharedAcquisitionContext) {
    this.#store = store
    this.credential = context.credential
    this.#acquisition = context.acquisition
    this.#options = context.options
    this.#context = context
  }

  /** Resolves when `found` and `mayRequest` are final. */
  begin(): Promise<void> {
    this.#beginning = this.#begin()
    return this.#beginning
  }

  async #begin(): Promise<void> {
    const { rejection } = this.#acquisition
    const isFound = await this.#look()
    this.lookFailed = this.storeFailed
    if (isFound || !this.#isAllowed) return
    if (rejection !== undefined) {
      await this.#readLimit()
      // Another process that renewed meanwhile wrote the newer token before the limit.
      if (rejection.limit.waitMs(this.#now()) > 0 && (await this.#look())) return
      if (!this.#isAllowed) return
    }
    if (!(await this.#acquireLease())) return
    // Another process may have renewed, or been refused, while this one waited.
    await this.#readLimit()
    await this.#readPause()
    this.mayRequest = this.#isAllowed
  }

  get #isAllowed(): boolean {
    return mayRequest(this.#acquisition, this.#now())
  }

  /** Looks for a usable token. */
  async #look(): Promise<boolean> {
    this.found = await this.#attempt(async (store) => {
      for await (const entry of store.read<TokenEntry>('token')) {
        const cached = this.#usable(entry)
        if (cached !== undefined) return cached
      }
      return undefined
    })
    return this.found !== undefined
  }

  /** The remaining lifetime comes from the store's TTL, because the writer's clock may be wrong. */
  #usable({ content, ttlMs, readAt }: Entry<TokenEntry>): CachedToken | undefined {
    const { background, replaces } = this.#acquisition
    const { value, scope, lifetimeMs, quotas } = content
    if (value === replaces || this.#context.rejected.has(value)) return undefined
    const livedMs = Math.max(0, lifetimeMs - ttlMs)
    const sentAt = { monotonicMs: readAt.monotonicMs - livedMs, epochMs: readAt.epochMs - livedMs }
    const aged = quotas
      .map((quota) => ({ ...quota, resetsInMs: quota.resetsInMs && quota.resetsInMs - livedMs }))
      .filter(({ resetsInMs = 1 }) => resetsInMs > 0)
    const response = { value, scope, lifetimeMs, sentAt, quotas: aged }
    const cached = new CachedToken(response, this.#options, this.#context.secrets)
    const leastMs = background ? cached.windowMs : 0
    return cached.servableForMs(this.#options.clock) > leastMs ? cached : undefined
  }

  /**
   * Waits until this process may request a token; false if another process wrote one. A holder that died blocks for as
   * long as its lease, and the next holder needs time, too. After that this process requests one without the lease. A
   * background renewal does not wait for other processes.
   */
  async #acquireLease(): Promise<boolean> {
    const { clock } = this.#options
    const { closed } = this.#context
    const giveUpAt = this.#now() + this.#leaseMs + Math.min(this.#leaseMs / 4, MAX_GRACE_MS)
    for (;;) {
      this.#releaseLease = await this.#attempt((store) => store.lease('token', this.#leaseMs))
      if (this.#releaseLease !== undefined) return !(await this.#look())
      if (!this.#store?.hasLeases) return true
      if (this.#acquisition.background) {
        this.isLeased = true
        return false
      }
      if (this.#now() >= giveUpAt) return true
      await untilAborted(clock.sleep(LOOK_EVERY_MS, closed), closed)
      if (await this.#look()) return false
    }
  }

  /** Merges the limits of the processes that renewed for this API before. */
  async #readLimit(): Promise<void> {
    const { rejection } = this.#acquisition
    if (rejection === undefined) return
    await this.#attempt(async (store) => {
      for await (const { content, ttlMs } of store.read<RenewalHistory>(limitName(rejection.api))) {
        const { gapMs, renewedAgoMs } = content
        const ageMs = Math.max(0, LIMIT_ENTRY_MS - ttlMs)
        const history = { gapMs, renewedAgoMs: renewedAgoMs.map((agoMs) => agoMs + ageMs) }
        rejection.limit.adopt(history, this.#now())
      }
    })
  }

  /** Continues the pause that a 429 began in another process. */
  async #readPause(): Promise<void> {
    await this.#attempt(async (store) => {
      for await (const { content, ttlMs } of store.read<SharedPause>('pause')) {
        const { gapMs, remainsMs, callersMs } = content
        const ageMs = Math.max(0, PAUSE_ENTRY_MS - ttlMs)
        const pause = { gapMs, remainsMs: remainsMs - ageMs, callersMs: callersMs - ageMs }
        const wasAllowed = this.#isAllowed
        this.#context.cooldown.adopt(pause, this.#now())
        if (wasAllowed && !this.#isAllowed) this.isPausedElsewhere = true
      }
    })
  }

  /** Writes the result, if this process holds the lease or the store has none. */
  async write({ requested, pause }: SharedResult): Promise<void> {
    await this.#beginning.catch(() => {})
    if (this.#releaseLease === undefined && this.#store?.hasLeases) return
    if (requested !== undefined) await this.#attempt((store) => this.#writeToken(store, requested))
    if (pause !== undefined) {
      const entryMs = pause.gapMs === 0 ? 1 : PAUSE_ENTRY_MS // a store cannot delete
      await this.#attempt((store) => store.write('pause', { content: pause, ttlMs: () => entryMs }))
    }
  }

  async #writeToken(store: SafeStore, cached: CachedToken): Promise<void> {
    const { rejection } = this.#acquisition
    await store.write('token', tokenEntryOf(cached, this.#options))
    if (rejection === undefined) return // after the token: see where the limit is read
    const content = rejection.limit.history(this.#now())
    await store.write(limitName(rejection.api), { content, ttlMs: () => LIMIT_ENTRY_MS })
  }

  /** Releases the lease, for other processes. */
  async release(): Promise<void> {
    await this.#releaseLease?.().catch(() => {}) // the lease expires
  }

  /** Runs a store operation. After a failure, which emits an event, the acquisition continues without the store. */
  async #attempt<T>(act: (store: SafeStore) => Promise<T>): Promise<T | undefined> {
    if (this.#store === undefined) return undefined
    try {
      return await act(this.#store)
    } catch {
      this.#store = undefined
      this.storeFailed = true
      return undefined
    }
  }

  /** A lease lasts as long as a token request may take. */
  get #leaseMs(): number {
    return Math.ceil(this.#options.timeoutMs)
  }

  #now(): number {
    return this.#options.clock.monotonicMs()
  }
}

function tokenEntryOf(
  cached: CachedToken,
  { clock }: ResolvedOptions,
): { content: TokenEntry; ttlMs: () => number } {
  const { lifetimeMs, quotas, token } = cached
  const { value, scope } = token
  return { content: { value, scope, lifetimeMs, quotas }, ttlMs: () => cached.remainsMs(clock) }
}

function limitName(api: string | undefined): string {
  return `renewals-${hashOf(JSON.stringify([api ?? '']))}`
}

/** A hash for keys. */
function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
