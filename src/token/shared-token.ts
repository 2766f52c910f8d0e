/** The token that processes share through a store: look for it, wait for the lease, look again, request, write. */
import { createHash } from 'node:crypto'
import { clientOf, type ResolvedOptions } from '../options.ts'
import { shownUrl } from '../redact.ts'
import { type Entry, SafeStore } from '../store/safe-store.ts'
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
/** After a failed look, calls wait for no other one for this time: a store that hangs would hold up each of them. */
const LOOK_AFTER_FAILURE_MS = 30_000

const LIMIT_ENTRY_MS = 24 * 60 * 60_000
/** Longer than the pause itself, so that the next one is longer, whichever process begins it. */
const PAUSE_ENTRY_MS = 2 * 60 * 60_000
/** The shortest time to live: a store cannot delete. */
const NO_ENTRY_MS = 1

// Entries are encrypted, so only this package wrote them.
type TokenEntry = Pick<CachedToken, 'lifetimeMs' | 'quotas'> & Pick<AccessToken, 'value' | 'scope'>

/** Why a token is acquired. */
export interface Acquisition {
  readonly purpose: Purpose
  /** The base URL of the API that rejected a token. */
  readonly api?: string | undefined
  /** When (monotonic ms) it began. `timeoutMs` counts from there, without the wait for other processes. */
  readonly startedAt: number
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
  | { readonly kind: 'request'; readonly share: Share; readonly waitedMs: number }
  | { readonly kind: 'leased' | 'store-failed' | 'limited' }

/** Ends an acquisition that requested a token. Other processes learn the token, or the pause after a 429. */
export type Share = (token?: CachedToken) => void

/** One provider's access to the shared token. It makes one acquisition at a time. */
export class SharedToken {
  readonly #store: TokenStore
  readonly #options: ResolvedOptions
  readonly #context: ProviderContext
  #safe: { readonly firstKey: string; readonly store: SafeStore } | undefined
  /** When (monotonic ms) a call that may request no token looks for one again. */
  #nextLookAt = Number.NEGATIVE_INFINITY
  /** Until when (monotonic ms) calls do without the store, because a look failed. */
  #isDownUntil = Number.NEGATIVE_INFINITY
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

  /** Whether to look for another process's token, even if this one may request none. */
  get isLookDue(): boolean {
    return this.#now() >= this.#nextLookAt
  }

  /** Looks for the token, and waits for the right to request one. */
  async begin(acquisition: Acquisition, credential: ClientCredential): Promise<Begun> {
    const beginning = this.#begin(acquisition, credential)
    this.#beginning = beginning
    return await untilAborted(beginning, this.#context.closed)
  }

  async #begin(acquisition: Acquisition, credential: ClientCredential): Promise<Begun> {
    const from = this.#now()
    this.#nextLookAt = Number.POSITIVE_INFINITY // this one has to end first
    await this.#writing.catch(() => {}) // now the last token can be found; on Cloudflare Workers the write may be lost
    const wroteMs = this.#now() - from
    const isDown = this.#isDownFor(acquisition)
    const late = { ...acquisition, startedAt: acquisition.startedAt + wroteMs }
    const store = isDown ? undefined : await this.#open(late, credential)
    const session = new Session(store, { hasLookFailed: isDown })
    const lookedAt = this.#now()
    const begun = await this.#lookAndLease(session, acquisition)
    this.#noteLook(session)
    if (begun.kind !== 'ready' || this.#context.closed.aborted) {
      this.#ending = session.end()
      return begun.kind === 'ready' ? { kind: 'limited' } : begun
    }
    return {
      kind: 'request',
      waitedMs: wroteMs + this.#now() - lookedAt,
      share: (token) => this.#end(session, { acquisition, credential, token }),
    }
  }

  /** A look that is not waited for finds out whether the store is back. */
  #isDownFor({ purpose }: Acquisition): boolean {
    return purpose !== 'background' && this.#now() < this.#isDownUntil
  }

  #noteLook({ store, hasFailed }: Session): void {
    const now = this.#now()
    if (hasFailed) this.#isDownUntil = now + LOOK_AFTER_FAILURE_MS
    else if (store !== undefined) this.#isDownUntil = Number.NEGATIVE_INFINITY
    this.#nextLookAt = Math.max(now + LOOK_AGAIN_MS, this.#isDownUntil)
  }

  /**
   * The entries that this process can decrypt; undefined without a key. The function for the credential is called only if a token
   * may be requested, too.
   */
  async #open(acquisition: Acquisition, credential: ClientCredential): Promise<SafeStore | undefined> {
    const { clock, encryptionKeys, timeoutMs } = this.#options
    const { purpose, startedAt } = acquisition
    if (credential.mayChange && !this.#mayRequest(acquisition)) return this.#safe?.store
    const attempt = { attempt: 1, background: purpose === 'background', deadline: startedAt + timeoutMs }
    const first = (): Promise<string> => credential.first(attemptEndsAt(this.#options, attempt))
    const keys = encryptionKeys ?? [await first().catch(() => '')] // the attempt fails with the same error
    const [firstKey] = keys
    if (!firstKey) return this.#safe?.store
    if (this.#safe?.firstKey !== firstKey) {
      const client = hashOf(clientOf(this.#options))
      const { emit } = this.#context
      const store = new SafeStore(this.#store, { client, encryptionKeys: keys, clock, emit })
      this.#safe = { firstKey, store }
    }
    return this.#safe.store
  }

  /** Resolves with `ready` if this process may request a token. Without a store, or after it fails, it goes on at once. */
  async #lookAndLease(
    session: Session,
    acquisition: Acquisition,
  ): Promise<Begun | { readonly kind: 'ready' }> {
    const { purpose, waitsForStoreUntil = Number.NEGATIVE_INFINITY } = acquisition
    const found = await this.#find(session, acquisition)
    if (found !== undefined) return found
    session.hasLookFailed ||= session.hasFailed
    if (!this.#mayRequest(acquisition)) return { kind: 'limited' }
    if (purpose === 'rejection') {
      await this.#adoptRenewals(session, acquisition)
      // Another process that renewed meanwhile wrote the newer token before its history.
      if (!this.#mayRequest(acquisition))
        return (await this.#find(session, acquisition)) ?? { kind: 'limited' }
    }
    const other = await this.#waitForLease(session, acquisition)
    if (other !== undefined) return other
    // Another process may have renewed, or been refused, while this one waited.
    if (purpose === 'rejection') await this.#adoptRenewals(session, acquisition)
    await this.#adoptPause(session)
    if (!this.#mayRequest(acquisition)) return { kind: 'limited' }
    if (session.hasFailed && this.#now() < waitsForStoreUntil) return { kind: 'store-failed' }
    return { kind: 'ready' }
  }

  #mayRequest({ purpose, api }: Acquisition): boolean {
    return this.#context.limits.mayRequest(purpose, api)
  }

  /** Looks for a usable token. */
  async #find(session: Session, acquisition: Acquisition): Promise<Begun | undefined> {
    const token = await session.attempt(async (store) => {
      for await (const entry of store.read<TokenEntry>('token')) {
        const cached = this.#usable(entry, acquisition)
        if (cached !== undefined) return cached
      }
      return undefined
    })
    return token && { kind: 'found', token }
  }

  /** The remaining lifetime comes from the store's TTL, because the writer's clock may be wrong. */
  #usable({ content, ttlMs, readAt }: Entry<TokenEntry>, acquisition: Acquisition): CachedToken | undefined {
    const { purpose, replaces } = acquisition
    const { value, scope, lifetimeMs, quotas } = content
    if (value === replaces || this.#context.rejected.has(value)) return undefined
    const livedMs = Math.max(0, lifetimeMs - ttlMs)
    const sentAt = { monotonicMs: readAt.monotonicMs - livedMs, epochMs: readAt.epochMs - livedMs }
    const aged = quotas
      .map((quota) => ({ ...quota, resetsInMs: quota.resetsInMs && quota.resetsInMs - livedMs }))
      .filter(({ resetsInMs = 1 }) => resetsInMs > 0)
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
      if (session.releaseLease !== undefined) return await this.#find(session, acquisition)
      if (!session.store?.hasLeases) return undefined
      if (acquisition.purpose === 'background') return { kind: 'leased' }
      if (this.#now() >= giveUpAt) return undefined
      await untilAborted(clock.sleep(LOOK_EVERY_MS, closed), closed)
      const found = await this.#find(session, acquisition)
      if (found !== undefined) return found
    }
  }

  /** Counts the renewals of the processes that renewed for this API before. */
  async #adoptRenewals(session: Session, { api }: Acquisition): Promise<void> {
    await session.attempt(async (store) => {
      for await (const { content, ttlMs } of store.read<RenewalHistory>(renewalsName(api))) {
        const { gapMs, renewedAgoMs } = content
        const ageMs = Math.max(0, LIMIT_ENTRY_MS - ttlMs)
        const history = { gapMs, renewedAgoMs: renewedAgoMs.map((agoMs) => agoMs + ageMs) }
        this.#context.limits.adoptRenewals(api, history)
      }
    })
  }

  /** Continues the pause that a 429 began in another process. */
  async #adoptPause(session: Session): Promise<void> {
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

  /** Ends an acquisition: shares its result, then releases its lease. Only the next acquisition waits for the write. */
  #end(session: Session, { acquisition, credential, token }: Ended): void {
    // A token for a new secret is not shared with processes that have the old secret, which may have been revoked.
    const isForAll = this.#options.encryptionKeys || credential.latest === this.#safe?.firstKey
    // Without the lease another process may write, too.
    const mayWrite = session.releaseLease !== undefined || session.store?.hasLeases === false
    if (mayWrite) {
      const isPauseOver = token !== undefined && this.#isPauseShared
      this.#writing = this.#write(session, acquisition, { token: isForAll ? token : undefined, isPauseOver })
    }
    this.#ending = this.#writing.then(() => session.end())
    if (session.hasLookFailed && isForAll && token !== undefined) this.#writeLate(token)
  }

  async #write(
    session: Session,
    acquisition: Acquisition,
    { token, isPauseOver }: { readonly token: CachedToken | undefined; readonly isPauseOver: boolean },
  ): Promise<void> {
    const pause = this.#context.limits.sharedPause
    if (token !== undefined) await session.attempt((store) => this.#writeToken(store, acquisition, token))
    if (pause !== undefined)
      await session.attempt((store) => store.write('pause', { content: pause, ttlMs: () => PAUSE_ENTRY_MS }))
    else if (isPauseOver)
      await session.attempt((store) => store.write('pause', { content: null, ttlMs: () => NO_ENTRY_MS }))
    this.#isPauseShared = pause !== undefined || (this.#isPauseShared && !isPauseOver)
  }

  async #writeToken(store: SafeStore, { purpose, api }: Acquisition, token: CachedToken): Promise<void> {
    await store.write('token', tokenEntryOf(token, this.#options))
    if (purpose !== 'rejection') return
    // After the token: see where the history is read.
    const content = this.#context.limits.renewalHistory(api)
    await store.write(renewalsName(api), { content, ttlMs: () => LIMIT_ENTRY_MS })
  }

  /**
   * Shares a token that was requested after the look failed, as soon as the store answers: a connection that is slow at a
   * cold start is open then.
   */
  #writeLate(token: CachedToken): void {
    const store = this.#safe?.store
    this.#late = token
    store
      ?.answers()
      .then(async () => {
        if (this.#late === token && !this.#context.closed.aborted)
          await store.write('token', tokenEntryOf(token, this.#options))
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
