/** The token that processes share through a store: look for it, wait for the lease, look again, request, write. */
import { createHash } from 'node:crypto'
import * as z from 'zod/mini'
import { clientOf, type ResolvedOptions } from '../options.ts'
import { type Entry, type Lease, type Place, SafeStore } from '../store/safe-store.ts'
import type { TokenStore } from '../store/token-store.ts'
import { untilAborted } from '../waiting.ts'
import { CachedToken, type RejectedTokens } from './access-token.ts'
import { mayRequest, type RequestLimits } from './rate-limit.ts'
import { attemptEndsAt, type ClientCredential, type ProviderContext } from './token-request.ts'

// A process that waits for another process's token sees it within 100 ms.
const LOOK_EVERY_MS = 50
/** Extra wait for the request of the next lease holder after one died. */
const MAX_GRACE_MS = 1_000
const LIMIT_ENTRY_MS = 24 * 60 * 60_000
const WRITTEN = Promise.resolve(true)

const tokenEntry = z.object({
  value: z.string(),
  scope: z.optional(z.string()),
  lifetimeMs: z.number().check(z.positive()),
  quotas: z.optional(
    z.array(
      z.object({
        scope: z.enum(['client', 'organization', 'other']),
        name: z.string(),
        limit: z.optional(z.number()),
        remaining: z.number(),
        resetsInMs: z.optional(z.number()),
      }),
    ),
  ),
})

const limitEntry = z.object({
  gapMs: z.number(),
  renewedAgoMs: z.array(z.number()),
})

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
  readonly rejected: RejectedTokens
}

/** One provider's access to the shared token. It has one turn at a time. */
export class SharedToken {
  readonly #store: TokenStore
  readonly #options: ResolvedOptions
  readonly #context: SharedTokenContext
  #safe: { readonly firstKey: string; readonly store: SafeStore } | undefined
  /** Settles after the last turn's write: true if the store still works. */
  #writing: Promise<boolean> = WRITTEN
  /** The last turn's write and the release of its lease. */
  #ending: Promise<unknown> = WRITTEN

  constructor(store: TokenStore, options: ResolvedOptions, context: SharedTokenContext) {
    this.#store = store
    this.#options = options
    this.#context = context
  }

  /** Resolves with a turn that found another process's token, may request one, or neither. */
  async begin(acquisition: Acquisition, credential: ClientCredential): Promise<Turn> {
    const { closed } = this.#context
    const from = this.#now()
    const works = await untilAborted(this.#writing, closed) // the last turn's write comes first
    const waitedMs = this.#now() - from
    const late = { ...acquisition, startedAt: acquisition.startedAt + waitedMs }
    const store = works ? await untilAborted(this.#open(late, credential), closed) : undefined
    const turn = new Turn(store, { ...this.#context, options: this.#options, acquisition, credential })
    turn.storeFailed = !works
    try {
      const lookedAt = this.#now()
      await untilAborted(turn.begin(), closed)
      turn.waitedMs = waitedMs + this.#now() - lookedAt
      return turn
    } catch (error) {
      this.end(turn)
      throw error
    }
  }

  /** Ends a turn and shares the requested token. Only the next turn waits for the write. */
  end(turn: Turn, requested?: CachedToken): void {
    // A token for a new secret is not shared with processes that have the old secret, which may have been revoked.
    const isShared = this.#options.encryptionKeys || turn.credential.last === this.#safe?.firstKey
    const writing = turn.write(isShared ? requested : undefined)
    this.#writing = writing
    this.#ending = writing.then(() => {
      this.#writing = WRITTEN
      return turn.release()
    })
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
      const { emit, secrets } = this.#context
      const client = hashOf(clientOf(this.#options))
      const store = new SafeStore(this.#store, { client, encryptionKeys: keys, clock, emit, secrets })
      this.#safe = { firstKey, store }
    }
    return this.#safe.store
  }

  #now(): number {
    return this.#options.clock.monotonicMs()
  }
}

interface TurnContext extends SharedTokenContext {
  readonly acquisition: Acquisition
  readonly credential: ClientCredential
  readonly options: ResolvedOptions
}

/**
 * One turn at the shared token. Without a store, or after it fails, the process proceeds immediately and alone.
 */
export class Turn {
  /** Another process's token. */
  found: CachedToken | undefined
  /** Whether this process may request one. */
  mayRequest = false
  /** Whether another process holds the lease, for which a background renewal does not wait. */
  isLeased = false
  /** Whether the store failed, so that the process goes on alone. */
  storeFailed = false
  /** How long (ms) the turn waited for other processes. */
  waitedMs = 0
  readonly credential: ClientCredential
  #store: SafeStore | undefined
  readonly #acquisition: Acquisition
  readonly #options: ResolvedOptions
  readonly #context: SharedTokenContext
  #lease: Lease | undefined
  /** Where the last look found a rejected token. */
  #rejectedAt: Place | undefined
  #beginning: Promise<unknown> = WRITTEN
  #removal: Promise<unknown> = WRITTEN

  constructor(store: SafeStore | undefined, context: TurnContext) {
    this.#store = store
    this.credential = context.credential
    this.#acquisition = context.acquisition
    this.#options = context.options
    this.#context = context
  }

  /** Resolves when `found` and `mayRequest` are final. */
  begin(): Promise<void> {
    const beginning = this.#begin()
    this.#beginning = beginning.catch(() => {})
    return beginning
  }

  async #begin(): Promise<void> {
    const { rejection } = this.#acquisition
    if ((await this.#look()) || !this.#isAllowed) return
    if (rejection !== undefined) {
      await this.#readLimit()
      // Another process that renewed meanwhile wrote the newer token before the limit.
      if (rejection.limit.waitMs(this.#now()) > 0 && (await this.#look())) return
      if (!this.#isAllowed) return
    }
    if (!(await this.#acquireLease())) return
    await this.#readLimit() // another process may have renewed while this one waited
    this.mayRequest = this.#isAllowed
    this.#removeRejected()
  }

  get #isAllowed(): boolean {
    return mayRequest(this.#acquisition, this.#now())
  }

  /** Looks for a usable token. */
  async #look(): Promise<boolean> {
    this.#rejectedAt = undefined
    this.found = await this.#attempt(async (store) => {
      for (const place of store.placesOf('token')) {
        const entry = await store.read(place, tokenEntry)
        if (entry === undefined) continue
        if (this.#context.rejected.has(entry.content.value)) this.#rejectedAt = place
        const cached = this.#usable(entry)
        if (cached !== undefined) return cached
      }
      return undefined
    })
    return this.found !== undefined
  }

  /** The remaining lifetime comes from the store's TTL, because the writer's clock may be wrong. */
  #usable({ content, ttlMs, readAt }: Entry<z.output<typeof tokenEntry>>): CachedToken | undefined {
    const { background, replaces } = this.#acquisition
    const { value, scope, lifetimeMs, quotas = [] } = content
    if (value === replaces || this.#context.rejected.has(value)) return undefined
    const livedMs = Math.max(0, lifetimeMs - ttlMs)
    const sentAt = { monotonicMs: readAt.monotonicMs - livedMs, epochMs: readAt.epochMs - livedMs }
    const aged = quotas.map((quota) => ({
      ...quota,
      resetsInMs: quota.resetsInMs && quota.resetsInMs - livedMs,
    }))
    const response = {
      value,
      scope,
      lifetimeMs,
      sentAt,
      quotas: aged.filter(({ resetsInMs = 1 }) => resetsInMs > 0),
    }
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
      this.#lease = await this.#attempt((store) => store.lease('token', this.#leaseMs))
      if (this.#lease !== undefined) return !(await this.#look())
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
      for (const place of store.placesOf(limitName(rejection.api))) {
        const entry = await store.read(place, limitEntry)
        if (entry === undefined) continue
        const { gapMs, renewedAgoMs } = entry.content
        const ageMs = Math.max(0, LIMIT_ENTRY_MS - entry.ttlMs)
        const history = { gapMs, renewedAgoMs: renewedAgoMs.map((agoMs) => agoMs + ageMs) }
        rejection.limit.adopt(history, this.#now())
      }
    })
  }

  /**
   * Where to delete a rejected token. It stays while it may not be renewed yet: processes that find none would each request
   * one, which the API would reject, too. A reserved quota is for those processes, unless another API may accept the token.
   */
  get #rejectedPlace(): Place | undefined {
    const { rejection, replaces = '' } = this.#acquisition
    if (rejection === undefined) return this.#rejectedAt
    const now = this.#now()
    const isLimited = rejection.limit.waitMs(now) > 0
    const isReserved = this.#context.quotas.renewalsAt > now
    const isUseless = this.#context.rejected.isByAll(replaces, this.#options.environment)
    return isLimited || (isReserved && !isUseless) ? undefined : this.#rejectedAt
  }

  /** Deletes a rejected token that the last look found. The turn does not wait for that. */
  #removeRejected(): void {
    const place = this.#rejectedPlace
    if (place !== undefined && this.#mayWrite)
      this.#removal = this.#attempt((store) => store.delete(place, this.#lease))
  }

  /** Writes the requested token, or deletes a rejected one. Resolves with whether the store still works. */
  async write(requested: CachedToken | undefined): Promise<boolean> {
    await this.#beginning
    await this.#removal
    if (requested !== undefined && this.#mayWrite)
      await this.#attempt((store) => this.#writeToken(store, requested))
    else if (this.#rejectedPlace !== undefined && this.#lease === undefined) await this.#clear()
    return !this.storeFailed
  }

  async #writeToken(store: SafeStore, cached: CachedToken): Promise<void> {
    const { clock } = this.#options
    const { rejection } = this.#acquisition
    const { value, scope } = cached.token
    await store.write('token', {
      content: { value, scope, lifetimeMs: cached.lifetimeMs, quotas: cached.quotas },
      ttlMs: () => cached.remainsMs(clock),
      lease: this.#lease,
    })
    if (rejection === undefined) return // after the token: see where the limit is read
    const content = rejection.limit.history(this.#now())
    await store.write(limitName(rejection.api), { content, ttlMs: () => LIMIT_ENTRY_MS })
  }

  /** Deletes a rejected token that could not be deleted without the lease, unless another process holds it. */
  async #clear(): Promise<void> {
    this.#lease = await this.#attempt((store) => store.lease('token', this.#leaseMs))
    if (this.#mayWrite) await this.#look()
    this.#removeRejected()
    await this.#removal
  }

  /** Releases the lease, for other processes. */
  async release(): Promise<void> {
    await this.#lease?.release().catch(() => {}) // the lease expires
  }

  /** Runs a store operation. After a failure, which emits an event, the turn continues without the store. */
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

  get #mayWrite(): boolean {
    return this.#lease !== undefined || this.#store?.hasLeases === false
  }

  /** A lease lasts as long as a token request may take. */
  get #leaseMs(): number {
    return Math.ceil(this.#options.timeoutMs)
  }

  #now(): number {
    return this.#options.clock.monotonicMs()
  }
}

function limitName(api: string | undefined): string {
  return `renewals-${hashOf(JSON.stringify([api ?? '']))}`
}

/** A hash for keys. */
function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
