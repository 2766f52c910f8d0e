/** The token that processes share through a store: look for it, wait for the lease, look again, and write in the end. */
import { createHash } from 'node:crypto'
import * as z from 'zod/mini'
import { tokenEndpoint } from '../environments.ts'
import type { ResolvedOptions } from '../options.ts'
import { type Entry, type Lease, type Place, SafeStore } from '../store/safe-store.ts'
import type { TokenStore } from '../store/token-store.ts'
import { untilAborted } from '../waiting.ts'
import { type CachedToken, createCachedToken } from './access-token.ts'
import { mayRequest, type RequestLimits } from './rate-limit.ts'
import { attemptEndsAt, type ClientSecret, type ProviderContext } from './token-request.ts'

// A process that waits for another one's token sees it within 100 ms.
const LOOK_EVERY_MS = 50
/** For the token request of the process that acquires the lease when its holder has died. */
const MAX_GRACE_MS = 1_000
const LIMIT_ENTRY_MS = 60 * 60_000
const WRITTEN = Promise.resolve(true)

const tokenEntry = z.object({
  value: z.string(),
  scope: z.optional(z.string()),
  lifetimeMs: z.number().check(z.positive()),
})

const limitEntry = z.object({
  gapMs: z.number(),
  renewedAgoMs: z.array(z.number()),
})

/** What a token is acquired for. */
export interface Acquisition extends RequestLimits {
  /** When (monotonic ms) it began: `timeoutMs` counts from there, without the time spent waiting for other processes. */
  readonly startedAt: number
  /** Whether it is a background renewal, for which another process's token must not be due for renewal itself. */
  readonly background: boolean
  /** The value of the token that is to be replaced. */
  readonly replaces?: string | undefined
}

/** What a provider hands to its part in the shared token. */
export interface SharedTokenContext extends ProviderContext {
  /** The values of tokens that an API rejected: they are not accepted from the store again. */
  readonly rejected: readonly string[]
}

/** One provider's part in the shared token. It has one turn at a time. */
export class SharedToken {
  readonly #store: TokenStore
  readonly #options: ResolvedOptions
  readonly #context: SharedTokenContext
  #safe: { readonly firstKey: string; readonly store: SafeStore } | undefined
  /** Whether the store still works, when the last turn has written there. */
  #writing: Promise<boolean> = WRITTEN
  /** The last turn's writing, and the release of its lease. */
  #ending: Promise<unknown> = WRITTEN

  constructor(store: TokenStore, options: ResolvedOptions, context: SharedTokenContext) {
    this.#store = store
    this.#options = options
    this.#context = context
  }

  /** Waits for this process's turn. It ends with another process's token, or with the right to request one, or with neither. */
  async begin(acquisition: Acquisition, clientSecret: ClientSecret): Promise<Turn> {
    const { closed } = this.#context
    const from = this.#now()
    const works = await untilAborted(this.#writing, closed) // what the last turn writes comes first
    const waitedMs = this.#now() - from
    const late = { ...acquisition, startedAt: acquisition.startedAt + waitedMs }
    const store = works ? await untilAborted(this.#open(late, clientSecret), closed) : undefined
    const turn = new Turn(store, { ...this.#context, options: this.#options, acquisition, clientSecret })
    try {
      const lookedAt = this.#now()
      await untilAborted(turn.begun, closed)
      turn.waitedMs = waitedMs + this.#now() - lookedAt
      return turn
    } catch (error) {
      this.end(turn)
      throw error
    }
  }

  /** Ends a turn: what was requested in it is there for the others. Only the next turn waits for that. */
  end(turn: Turn, requested?: CachedToken): void {
    // A token for a new secret is not for processes with the old one: it may have been replaced for a reason.
    const isShared = this.#options.encryptionKeys || turn.clientSecret.last === this.#safe?.firstKey
    const writing = turn.write(isShared ? requested : undefined)
    this.#writing = writing
    this.#ending = writing.then(() => {
      if (this.#writing === writing) this.#writing = WRITTEN
      return turn.release()
    })
  }

  /** Resolves when everything is written, or the store has failed. */
  async settled(): Promise<void> {
    await this.#ending
  }

  /**
   * What this process can read in the store; undefined where there is no key. A clientSecret function is asked for one
   * only where the token endpoint may be asked, too.
   */
  async #open(acquisition: Acquisition, clientSecret: ClientSecret): Promise<SafeStore | undefined> {
    const { clock, environment, clientId, encryptionKeys, timeoutMs } = this.#options
    const { background, startedAt } = acquisition
    if (!encryptionKeys && clientSecret.mayChange && !mayRequest(acquisition, this.#now()))
      return this.#safe?.store
    const deadline = startedAt + timeoutMs
    const endsAt = attemptEndsAt(this.#options, { attempt: 1, background, deadline })
    const keys = encryptionKeys ?? [(await clientSecret.askAhead(endsAt)) ?? '']
    const firstKey = keys[0]
    if (!firstKey) return this.#safe?.store
    if (this.#safe?.firstKey !== firstKey) {
      const { emit, secrets } = this.#context
      const client = hashOf(tokenEndpoint(environment), clientId, environment.audience)
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
  readonly clientSecret: ClientSecret
  readonly options: ResolvedOptions
}

/**
 * One turn at the shared token. Without a store, and from the moment it fails, nothing is found and nothing waited for:
 * the turn is the process's own at once, and what it requests stays with it.
 */
export class Turn {
  /** Another process's token. */
  found: CachedToken | undefined
  /** Whether this process may request one. */
  mayRequest = false
  /** How long (ms) it waited for other processes. */
  waitedMs = 0
  readonly clientSecret: ClientSecret
  /** Resolves when it has come to that. */
  readonly begun: Promise<void>
  #store: SafeStore | undefined
  readonly #acquisition: Acquisition
  readonly #options: ResolvedOptions
  readonly #context: SharedTokenContext
  #lease: Lease | undefined
  /** Where the last look saw a rejected token. */
  #rejectedAt: Place | undefined
  #removal: Promise<unknown> = WRITTEN

  constructor(store: SafeStore | undefined, context: TurnContext) {
    this.#store = store
    this.clientSecret = context.clientSecret
    this.#acquisition = context.acquisition
    this.#options = context.options
    this.#context = context
    this.begun = this.#begin()
  }

  async #begin(): Promise<void> {
    const { rejection } = this.#acquisition
    if ((await this.#look()) || !this.#isAllowed) return
    if (rejection !== undefined) {
      await this.#readLimit()
      // A process that renewed meanwhile had written a newer token before the limit.
      if (rejection.limit.waitMs(this.#now()) > 0 && (await this.#look())) return
      if (!this.#isAllowed) return
    }
    if (!(await this.#acquireLease())) return
    this.#removeRejected()
    await this.#readLimit() // another process may have renewed while this one waited
    this.mayRequest = this.#isAllowed
  }

  get #isAllowed(): boolean {
    return mayRequest(this.#acquisition, this.#now())
  }

  /** Looks for a token that will do. */
  async #look(): Promise<boolean> {
    this.#rejectedAt = undefined
    this.found = await this.#attempt(async (store) => {
      for (const place of store.placesOf('token')) {
        const entry = await store.read(place, tokenEntry)
        if (entry === undefined) continue
        if (this.#context.rejected.includes(entry.content.value)) this.#rejectedAt = place
        const cached = this.#usable(entry)
        if (cached !== undefined) return cached
      }
      return undefined
    })
    return this.found !== undefined
  }

  /** What remains of its lifetime goes by the store's account: the clocks of the machine that wrote it may say anything. */
  #usable({ content, ttlMs, readAt }: Entry<z.output<typeof tokenEntry>>): CachedToken | undefined {
    const { background, replaces } = this.#acquisition
    const { value, scope, lifetimeMs } = content
    if (value === replaces || this.#context.rejected.includes(value)) return undefined
    const livedMs = Math.max(0, lifetimeMs - ttlMs)
    const sentAt = { monotonicMs: readAt.monotonicMs - livedMs, epochMs: readAt.epochMs - livedMs }
    const response = { value, scope, lifetimeMs, sentAt }
    const cached = createCachedToken(response, this.#options, this.#context.secrets)
    const leastMs = background ? cached.lifetime.windowMs : 0
    return cached.lifetime.servableForMs(this.#options.clock) > leastMs ? cached : undefined
  }

  /**
   * Waits until this process is to request a token; false where another has written one. A holder that died blocks for
   * as long as the lease, and the next one needs time, too. After that this process requests one all the same. A
   * background renewal waits for no other process.
   */
  async #acquireLease(): Promise<boolean> {
    const { clock } = this.#options
    const { closed } = this.#context
    const giveUpAt = this.#now() + this.#leaseMs + Math.min(this.#leaseMs / 4, MAX_GRACE_MS)
    for (;;) {
      this.#lease = await this.#attempt((store) => store.lease('token', this.#leaseMs))
      if (this.#lease !== undefined) return !(await this.#look())
      if (!this.#store?.hasLeases) return true
      if (this.#acquisition.background) return false
      if (this.#now() >= giveUpAt) return true
      await untilAborted(clock.sleep(LOOK_EVERY_MS, closed), closed)
      if (await this.#look()) return false
    }
  }

  /** Makes the limit as strict as that of the processes which renewed for this API before. */
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

  /** Removes a rejected token that the last look saw. The turn does not wait for that. */
  #removeRejected(): void {
    const place = this.#rejectedAt
    if (place !== undefined && this.#mayWrite)
      this.#removal = this.#attempt((store) => store.delete(place, this.#lease))
  }

  /** Writes the token that was requested, or removes a rejected one. Resolves with whether the store still works. */
  async write(requested: CachedToken | undefined): Promise<boolean> {
    await this.begun.catch(() => {})
    await this.#removal
    if (requested !== undefined && this.#mayWrite)
      await this.#attempt((store) => this.#writeToken(store, requested))
    else if (this.#rejectedAt !== undefined && this.#lease === undefined) await this.#clear()
    return this.#store !== undefined
  }

  async #writeToken(store: SafeStore, { token, lifetime, lifetimeMs }: CachedToken): Promise<void> {
    const { clock } = this.#options
    const { rejection } = this.#acquisition
    const { value, scope } = token
    await store.write('token', {
      content: { value, scope, lifetimeMs },
      ttlMs: () => lifetime.remainsMs(clock),
      lease: this.#lease,
    })
    if (rejection === undefined) return // after the token: see where the limit is read
    const content = rejection.limit.history(this.#now())
    await store.write(limitName(rejection.api), { content, ttlMs: () => LIMIT_ENTRY_MS })
  }

  /** Removes a rejected token that was left for lack of a lease, unless another process is just replacing it. */
  async #clear(): Promise<void> {
    this.#lease = await this.#attempt((store) => store.lease('token', this.#leaseMs))
    if (this.#mayWrite) await this.#look()
    this.#removeRejected()
    await this.#removal
  }

  /** Lets other processes have their turn. */
  async release(): Promise<void> {
    await this.#lease?.release().catch(() => {}) // the lease ends by itself
  }

  /** Does something with the store; after a failure, of which an event says more, the turn goes on without it. */
  async #attempt<T>(act: (store: SafeStore) => Promise<T>): Promise<T | undefined> {
    if (this.#store === undefined) return undefined
    try {
      return await act(this.#store)
    } catch {
      this.#store = undefined
      return undefined
    }
  }

  get #mayWrite(): boolean {
    return this.#lease !== undefined || this.#store?.hasLeases === false
  }

  /** A process may hold the lease for as long as a token request may take. */
  get #leaseMs(): number {
    return Math.ceil(this.#options.timeoutMs)
  }

  #now(): number {
    return this.#options.clock.monotonicMs()
  }
}

function limitName(api: string | undefined): string {
  return `ration-${hashOf(api ?? '')}`
}

/** A hash, as it stands in keys. */
function hashOf(...parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url')
}
