/** The token that processes share through a store: look for it, wait for the lease, look again, request, write. */
import { createHash } from 'node:crypto'
import { clientOf, type ResolvedOptions } from '../options.ts'
import { shownUrl } from '../redact.ts'
import { type Entry, SafeStore, type SafeStoreContext } from '../store/safe-store.ts'
import type { TokenStore } from '../store/token-store.ts'
import { untilAborted } from '../waiting.ts'
import { type AccessToken, CachedToken } from './access-token.ts'
import type { ClientCredential } from './client-credential.ts'
import type { ProviderContext } from './context.ts'
import { attemptEndsAt } from './deadlines.ts'
import type { Purpose, RenewalHistory, SharedPause } from './rate-limit.ts'
import { refusedElsewhere } from './token-errors.ts'

// A process that waits for another process's token sees it within 100 ms.
const LOOK_EVERY_MS = 50
/** Extra wait for the request of the next lease holder after one died. */
const MAX_GRACE_MS = 1_000
/** How often the store is read while no token may be requested. */
const LOOK_AGAIN_MS = 1_000
/** After a failed look no call waits for another one for this time: a store that hangs would hold up each of them. */
const LOOK_AFTER_FAILURE_MS = 30_000

const RENEWALS_ENTRY_MS = 24 * 60 * 60_000
/** Longer than the pause itself, so that the next one is longer, whichever process begins it. */
const PAUSE_ENTRY_MS = 2 * 60 * 60_000
/** A store cannot delete: an entry without content replaces the pause, and lives longer than its write takes. */
const OVER_ENTRY_MS = 60_000

// Entries are encrypted, so only this package wrote them.
type TokenEntry = Pick<CachedToken, 'lifetimeMs' | 'quotas'> & Pick<AccessToken, 'value' | 'scope'>

/** Why a token is acquired. */
export interface Acquisition {
  readonly purpose: Purpose
  /** The base URL of the API that rejected a token. */
  readonly api?: string | undefined
  /** When (monotonic ms) the first of its callers began to wait. */
  readonly waitingSince: number
  /** When (monotonic ms) it must have ended; what it waits for the store comes on top. */
  readonly deadline: number
  /** The value of the token that is to be replaced. */
  readonly replaces?: string | undefined
  /** Until when (monotonic ms) it waits for a store that fails, rather than request a token without it. */
  readonly waitsForStoreUntil?: number | undefined
}

/**
 * What an acquisition may do: use the token that was `found`, or `request` one. Otherwise another process has the lease
 * (`leased`), the store fails and may be back soon (`store-failed`), or a limit forbids a request (`limited`).
 */
export type Begun =
  | { readonly kind: 'found'; readonly token: CachedToken }
  | { readonly kind: 'request'; readonly end: EndRequest }
  | { readonly kind: 'leased' | 'store-failed' | 'limited' }

/**
 * Shares the token, or else the pause after a 429, with other processes, and releases the lease. Resolves when the store has
 * been asked to write it: a program may end as soon as it has its token or an error, and a store can finish its writes then.
 */
export type EndRequest = (token?: CachedToken) => Promise<void>

/** The entries of the options' client in a store. Its token is the entry `token`. */
export function entriesOfClient(
  store: TokenStore,
  options: ResolvedOptions,
  context: Pick<SafeStoreContext, 'encryptionKeys' | 'emit'>,
): SafeStore {
  return new SafeStore(store, { ...context, client: hashOf(clientOf(options)), clock: options.clock })
}

/** One provider's access to the shared token. It makes one acquisition at a time. */
export class SharedToken {
  readonly #store: TokenStore
  readonly #options: ResolvedOptions
  readonly #context: ProviderContext
  #safe: { readonly firstKey: string; readonly store: SafeStore } | undefined
  /** How long (ms) acquisitions have waited for the store, and for other processes. */
  #waitedMs = 0
  /** When (monotonic ms) a call that may request no token looks for one again. */
  #nextLookAt = Number.NEGATIVE_INFINITY
  /** Until when (monotonic ms) calls do without the store, because a look failed. */
  #isDownUntil = Number.NEGATIVE_INFINITY
  /** Resolves when the store answers after a failed look. */
  #answering: Promise<void> = Promise.resolve()
  /** Whether other processes may know of a pause after a 429. */
  #isPauseShared = false
  /** The token that was requested last after a look failed. */
  #late: CachedToken | undefined
  #beginning: Promise<unknown> = Promise.resolve()
  #writing: Promise<void> = Promise.resolve()
  /** The last acquisition's write and the release of its lease. */
  #ending: Promise<void> = Promise.resolve()

  constructor(store: TokenStore, options: ResolvedOptions, context: ProviderContext) {
    this.#store = store
    this.#options = options
    this.#context = context
  }

  /** How long (ms) acquisitions have waited for the store, and for other processes: `timeoutMs` does not count it. */
  get waitedMs(): number {
    return this.#waitedMs
  }

  /** Whether to look for another process's token, even if this one may request none. */
  get isLookDue(): boolean {
    return this.#now() >= this.#nextLookAt && !this.isDown
  }

  /** Whether calls do without the store, because it has not answered since a look failed. */
  get isDown(): boolean {
    return this.#now() < this.#isDownUntil
  }

  /** Looks for the token, and waits for the right to request one. */
  async begin(acquisition: Acquisition, credential: ClientCredential): Promise<Begun> {
    const beginning = this.#begin(acquisition, credential)
    this.#beginning = beginning
    try {
      return await untilAborted(beginning, this.#context.closed)
    } catch (error) {
      this.#beginning = beginning.then(async (begun) => {
        if (begun.kind === 'request') await begun.end()
      })
      throw error
    }
  }

  async #begin(acquisition: Acquisition, credential: ClientCredential): Promise<Begun> {
    const { waitedMs } = this
    this.#nextLookAt = Number.POSITIVE_INFINITY // this one has to end first
    // Now the last token can be found. On Cloudflare Workers the write may be lost.
    await this.#counted(this.#writing.catch(() => {}))
    // A look that no call waits for finds out whether the store is back.
    const isSkipped = this.isDown && acquisition.purpose !== 'background'
    const deadline = acquisition.deadline + this.waitedMs - waitedMs
    const store = isSkipped ? undefined : await this.#open({ ...acquisition, deadline }, credential)
    const session = new Session(store, { hasLookFailed: isSkipped })
    const begun = await this.#counted(this.#lookAndLease(session, acquisition))
    this.#nextLookAt = this.#now() + LOOK_AGAIN_MS
    if (begun !== 'ready') {
      if (begun.kind === 'found') this.#late = undefined
      this.#ending = session.end()
      return begun
    }
    return { kind: 'request', end: (token) => this.#end(session, { acquisition, credential, token }) }
  }

  async #counted<T>(waiting: Promise<T>): Promise<T> {
    const from = this.#now()
    const result = await waiting
    this.#waitedMs += this.#now() - from
    return result
  }

  /** A look succeeded, or failed: then calls do without the store until it answers, or for 30 s. */
  #noteLook(store: SafeStore, { hasFailed }: { readonly hasFailed: boolean }): void {
    this.#isDownUntil = hasFailed ? this.#now() + LOOK_AFTER_FAILURE_MS : Number.NEGATIVE_INFINITY
    if (!hasFailed) return
    this.#answering = store.answers()
    this.#answering.then(
      () => {
        this.#isDownUntil = Number.NEGATIVE_INFINITY
      },
      () => {
        // It fails at once, which holds up no call.
        this.#isDownUntil = Math.min(this.#isDownUntil, this.#now() + LOOK_AGAIN_MS)
      },
    )
  }

  /**
   * The entries that this process can decrypt; undefined without a key. While no token may be requested, those of the last
   * key: the function for the credential is not called.
   */
  async #open(acquisition: Acquisition, credential: ClientCredential): Promise<SafeStore | undefined> {
    const { encryptionKeys } = this.#options
    if (!this.#mayRequest(acquisition)) return this.#safe?.store
    const { purpose, deadline } = acquisition
    const first = (): Promise<string> =>
      credential.first(attemptEndsAt(this.#options, { attempt: 1, purpose, deadline }))
    const keys = encryptionKeys ?? [await first().catch(() => '')] // the attempt fails with the same error
    const [firstKey] = keys
    if (!firstKey) return this.#safe?.store
    if (this.#safe?.firstKey !== firstKey) {
      const { emit } = this.#context
      const store = entriesOfClient(this.#store, this.#options, { encryptionKeys: keys, emit })
      this.#safe = { firstKey, store }
    }
    return this.#safe.store
  }

  /** `ready`: this process may request a token. Without a store, or after it fails, it goes on at once. */
  async #lookAndLease(session: Session, acquisition: Acquisition): Promise<Begun | 'ready'> {
    const { purpose, waitsForStoreUntil = Number.NEGATIVE_INFINITY } = acquisition
    const { store } = session
    const token = await this.#find(session, acquisition)
    if (store !== undefined) this.#noteLook(store, session)
    session.hasLookFailed ||= session.hasFailed
    if (token !== undefined) return { kind: 'found', token }
    if (!this.#mayRequest(acquisition)) return { kind: 'limited' }
    if (purpose === 'rejection') {
      await this.#adoptRenewals(session, acquisition)
      if (!this.#mayRequest(acquisition)) {
        // Another process that renewed meanwhile wrote the newer token before its history.
        const newer = await this.#find(session, acquisition)
        return newer === undefined ? { kind: 'limited' } : { kind: 'found', token: newer }
      }
    }
    const other = await this.#waitForLease(session, acquisition)
    if (other !== undefined) return other
    // Another process may have renewed, or been refused, while this one waited.
    if (purpose === 'rejection') await this.#adoptRenewals(session, acquisition)
    await this.#adoptPause(session)
    if (!this.#mayRequest(acquisition)) return { kind: 'limited' }
    if (session.hasFailed && this.#now() < waitsForStoreUntil) return { kind: 'store-failed' }
    return 'ready'
  }

  #mayRequest({ purpose, api }: Acquisition): boolean {
    return this.#context.limits.mayRequest(purpose, api)
  }

  /** Looks for a usable token. */
  async #find(session: Session, acquisition: Acquisition): Promise<CachedToken | undefined> {
    return await session.attempt(async (store) => {
      for await (const entry of store.read<TokenEntry>('token')) {
        const cached = this.#usable(entry, acquisition)
        if (cached !== undefined) return cached
      }
      return undefined
    })
  }

  /** The remaining lifetime comes from the store's TTL, because the writer's clock may be wrong. */
  #usable({ content, ttlMs, readAt }: Entry<TokenEntry>, acquisition: Acquisition): CachedToken | undefined {
    const { purpose, replaces } = acquisition
    const { value, scope, lifetimeMs, quotas } = content
    if (value === replaces || this.#context.rejected.has(value)) return undefined
    const livedMs = Math.max(0, lifetimeMs - ttlMs)
    const sentAt = { monotonicMs: readAt.monotonicMs - livedMs, epochMs: readAt.epochMs - livedMs }
    const aged = quotas.map((quota) => ({
      ...quota,
      resetsInMs: quota.resetsInMs && quota.resetsInMs - livedMs,
    }))
    const response = { value, scope, lifetimeMs, sentAt, quotas: aged }
    const cached = new CachedToken(response, this.#options, this.#context.secrets)
    const leastMs = purpose === 'background' ? cached.windowMs : 0 // otherwise it would be renewed at once
    return cached.servableForMs(this.#options.clock) > leastMs ? cached : undefined
  }

  /**
   * Waits until this process may request a token; resolves with undefined then. A holder that died blocks for as long as
   * its lease, and the next holder needs time, too. After that this process requests one without the lease. A background
   * renewal does not wait for other processes.
   */
  async #waitForLease(session: Session, acquisition: Acquisition): Promise<Begun | undefined> {
    const { clock, timeoutMs } = this.#options
    const { closed } = this.#context
    const leaseMs = Math.ceil(timeoutMs) // a token request takes no longer
    const giveUpAt = this.#now() + leaseMs + Math.min(leaseMs / 4, MAX_GRACE_MS)
    for (;;) {
      session.releaseLease = await session.attempt((store) => store.lease('token', leaseMs))
      const hasLease = session.releaseLease !== undefined
      if (!hasLease) {
        if (!session.store?.hasLeases) return undefined
        if (acquisition.purpose === 'background') return { kind: 'leased' }
        if (this.#now() >= giveUpAt) return undefined
        await untilAborted(clock.sleep(LOOK_EVERY_MS, closed), closed)
      }
      const token = await this.#find(session, acquisition)
      if (token !== undefined) return { kind: 'found', token }
      if (hasLease) return undefined
    }
  }

  /** Counts the renewals of the processes that renewed for this API before. */
  async #adoptRenewals(session: Session, { api }: Acquisition): Promise<void> {
    await session.attempt(async (store) => {
      for await (const { content, ttlMs } of store.read<RenewalHistory>(renewalsName(api))) {
        const { gapMs, renewedAgoMs } = content
        const ageMs = Math.max(0, RENEWALS_ENTRY_MS - ttlMs)
        const history = { gapMs, renewedAgoMs: renewedAgoMs.map((agoMs) => agoMs + ageMs) }
        this.#context.limits.adoptRenewals(api, history)
      }
    })
  }

  /** Continues the pause that a 429 began in another process. */
  async #adoptPause(session: Session): Promise<void> {
    this.#isPauseShared = false
    const error = (): unknown => refusedElsewhere(shownUrl(this.#options.endpoint, this.#context.secrets))
    await session.attempt(async (store) => {
      for await (const { content, ttlMs } of store.read<SharedPause | null>('pause')) {
        if (content === null) continue // it is over
        const ageMs = Math.max(0, PAUSE_ENTRY_MS - ttlMs)
        this.#context.limits.adoptPause({ ...content, remainsMs: content.remainsMs - ageMs }, error)
        this.#isPauseShared = true
      }
    })
  }

  /**
   * Ends an acquisition: shares its result, then releases its lease. Only the next acquisition waits for the end of the
   * write.
   */
  async #end(session: Session, { acquisition, credential, token }: Ended): Promise<void> {
    // A token for a new secret is not shared with processes that have the old secret, which may have been revoked.
    const isShareable =
      this.#options.encryptionKeys !== undefined || credential.latest === this.#safe?.firstKey
    const shareable = isShareable ? token : undefined
    if (token !== undefined) this.#late = undefined
    // Without the lease another process may write, too.
    const mayWrite = session.releaseLease !== undefined || session.store?.hasLeases === false
    const begun = Promise.withResolvers<void>()
    if (mayWrite) {
      const isPauseOver = token !== undefined && this.#isPauseShared
      const onBegun = begun.resolve
      this.#writing = this.#write(session, acquisition, { token: shareable, isPauseOver, onBegun })
    }
    this.#ending = this.#writing.then(() => session.end())
    if (session.hasLookFailed && shareable !== undefined) this.#writeLate(shareable)
    if (mayWrite) await Promise.race([begun.promise, this.#writing])
  }

  async #write(
    session: Session,
    acquisition: Acquisition,
    {
      token,
      isPauseOver,
      onBegun,
    }: {
      readonly token: CachedToken | undefined
      readonly isPauseOver: boolean
      readonly onBegun: () => void
    },
  ): Promise<void> {
    const pause = this.#context.limits.sharedPause
    let ending: Promise<void> | undefined
    if (isPauseOver) {
      const begun = Promise.withResolvers<void>()
      ending = session.attempt((store) =>
        store.write('pause', { content: null, ttlMs: () => OVER_ENTRY_MS }, begun.resolve),
      )
      await Promise.race([begun.promise, ending]) // a program may end as soon as it has the token
    }
    if (token !== undefined)
      await session.attempt(async (store) => {
        await store.write('token', tokenEntryOf(token, this.#options), onBegun)
        if (acquisition.purpose === 'rejection') await this.#writeRenewals(store, acquisition)
      })
    if (pause !== undefined)
      await session.attempt((store) =>
        store.write('pause', { content: pause, ttlMs: () => PAUSE_ENTRY_MS }, onBegun),
      )
    await ending
  }

  /** After the token: see where the history is read. */
  async #writeRenewals(store: SafeStore, { api }: Acquisition): Promise<void> {
    const content = this.#context.limits.renewalHistory(api)
    await store.write(renewalsName(api), { content, ttlMs: () => RENEWALS_ENTRY_MS })
  }

  /** Shares a token that was requested after the look failed, as soon as the store answers. */
  #writeLate(token: CachedToken): void {
    const store = this.#safe?.store
    this.#late = token
    this.#answering
      .then(async () => {
        const { closed, rejected } = this.#context
        if (this.#late === token && !closed.aborted && !rejected.has(token.token.value))
          await store?.write('token', tokenEntryOf(token, this.#options))
      })
      .catch(() => {}) // the store is down
  }

  /** Resolves when everything is written or the store has failed. */
  async settled(): Promise<void> {
    await this.#beginning.catch(() => {})
    await this.#ending
  }

  #now(): number {
    return this.#options.clock.monotonicMs()
  }
}

/** An acquisition that ended; `token`: with one that was requested. */
interface Ended {
  readonly acquisition: Acquisition
  readonly credential: ClientCredential
  readonly token: CachedToken | undefined
}

/** The store during one acquisition, which continues without it after an operation fails. */
class Session {
  store: SafeStore | undefined
  hasFailed = false
  /** Whether its first look failed, or was left out because the store is down. */
  hasLookFailed: boolean
  releaseLease: (() => Promise<void>) | undefined

  constructor(store: SafeStore | undefined, { hasLookFailed }: { readonly hasLookFailed: boolean }) {
    this.store = store
    this.hasLookFailed = hasLookFailed
  }

  /** Runs an operation; resolves with undefined if it fails, which emits an event. */
  async attempt<T>(act: (store: SafeStore) => Promise<T>): Promise<T | undefined> {
    if (this.store === undefined) return undefined
    try {
      return await act(this.store)
    } catch {
      this.store = undefined
      this.hasFailed = true
      return undefined
    }
  }

  /** Releases the lease, for other processes. */
  async end(): Promise<void> {
    await this.releaseLease?.().catch(() => {}) // the lease expires
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

function renewalsName(api: string | undefined): string {
  return `renewals-${hashOf(JSON.stringify([api ?? '']))}`
}

/** A hash for keys. */
function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
