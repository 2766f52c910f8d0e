/** Checks the keys in Redis: which process held the lease when, and which token was stored. */
import * as scripts from '../support/simulated-redis.ts'
import { contentOf } from './encryption.ts'
import type { Issued, Ledger } from './ledger.ts'
import type { Command, Seen, Watcher } from './redis.ts'

/** Redis rounds to whole milliseconds. */
const ROUNDING_MS = 1

interface Lease {
  readonly owner: string
  readonly by: string
  readonly acquiredAt: number
  readonly endsAt: number
}

interface Entry {
  readonly token: Issued
  readonly since: number
  readonly endsAt: number
}

export class RedisReferee implements Watcher {
  /** Whether a lease expired or was lost with all other keys. */
  leaseWasLost = false
  #lease: Lease | undefined
  #entry: Entry | undefined
  #newest = 0
  /** How long (ms) the slowest read command of each process took to reach the server. */
  readonly #delays = new Map<string, number>()
  readonly #ledger: Ledger
  readonly #onLease: (by: string) => void

  constructor(ledger: Ledger, onLease: (by: string) => void) {
    this.#ledger = ledger
    this.#onLease = onLease
  }

  /** The process that holds the lease now. */
  get holder(): string | undefined {
    return this.#held?.by
  }

  executed(by: string, command: Command, result: unknown, after: { entry: Seen; lease: Seen }): void {
    const [entry = ''] = command.keys
    this.#ledger.note(`Redis: ${by} ${nameOf(command.script)} -> ${shown(result)}`)
    if (!isTokenKey(entry)) return
    if (command.script === scripts.READ) this.#noteDelay(by, this.#ledger.now - command.sentAt)
    this.#judgeLease(by, command, after.lease)
    this.#judgeEntry(by, after.entry)
  }

  /** Redis lost everything. */
  flushed(): void {
    this.leaseWasLost = true
    this.#lease = undefined
    this.#entry = undefined
  }

  /** Whether a token is stored that this process may use, whatever it has cached. */
  offers(by: string): boolean {
    const { token } = this.#entry ?? {}
    return (
      token !== undefined &&
      !this.#ledger.isRejected(token.value, by) &&
      this.#shownMs(by) > token.grant.windowMs
    )
  }

  /** The token in Redis that this process could have acquired instead of requesting another at `requestedAt` with the lease. */
  usable(by: string, requestedAt: number, hasNone = false): Issued | undefined {
    const [entry, lease] = [this.#entry, this.#lease]
    if (entry === undefined || lease?.by !== by || entry.since > lease.acquiredAt) return undefined
    const { token } = entry
    if (this.#ledger.isRejected(token.value, by)) return undefined
    const seenMs = this.#shownMs(by) + (this.#ledger.now - requestedAt)
    return seenMs > (hasNone ? 0 : token.grant.windowMs) + ROUNDING_MS ? token : undefined
  }

  /** How long (ms) the stored token may still be handed out, in the worst case as seen by this process. */
  #shownMs(by: string): number {
    if (this.#entry === undefined) return 0
    const { token, endsAt } = this.#entry
    const shorterMs = token.requestedAt + token.lifetimeMs - endsAt
    // A reader subtracts the time that its command took to reach the server.
    return this.#ledger.remainsMs(token) - shorterMs - (this.#delays.get(by) ?? 0)
  }

  #noteDelay(by: string, ms: number): void {
    this.#delays.set(by, Math.max(ms, this.#delays.get(by) ?? 0))
  }

  get #held(): Lease | undefined {
    return this.#lease !== undefined && this.#lease.endsAt > this.#ledger.now ? this.#lease : undefined
  }

  #judgeLease(by: string, { args }: Command, { value: owner, ttlMs }: Seen): void {
    const { now, options } = this.#ledger
    const before = this.#lease
    const ranOut = before !== undefined && before.endsAt <= now + ROUNDING_MS
    if (before !== undefined && before.owner !== owner) {
      const isItsOwn = args[2] === before.owner && by === before.by
      if (ranOut) this.leaseWasLost = true
      else if (isItsOwn) this.#ledger.note(`${by} acquires a lease again that it could not release`)
      else if (owner !== undefined) this.#ledger.problem('holder', `${by} took the lease of ${before.by}`)
      else if (args[0] !== before.owner)
        this.#ledger.problem('holder', `${by} released the lease of ${before.by}`)
    }
    const isLonger = before !== undefined && now + ttlMs > before.endsAt + ROUNDING_MS
    if (owner === undefined) this.#lease = undefined
    else if (before?.owner !== owner || (ranOut && isLonger)) {
      if (ttlMs > options.timeoutMs + ROUNDING_MS)
        this.#ledger.problem('holder', `${by} acquired it for ${ttlMs} ms`)
      this.#lease = { owner, by, acquiredAt: now, endsAt: now + ttlMs }
      this.#onLease(by)
    } else if (isLonger) this.#ledger.problem('holder', `${by} extended the lease of ${before.by}`)
  }

  #judgeEntry(by: string, { value: encrypted, ttlMs }: Seen): void {
    const { now } = this.#ledger
    const before = this.#entry
    const value = contentOf(encrypted)?.value
    const token = value === undefined ? undefined : this.#ledger.issued(value)
    const expired = before !== undefined && before.endsAt <= now + ROUNDING_MS
    if (token === undefined) {
      if (before !== undefined && !expired) this.#judgeRemoval(by, before.token)
      this.#entry = undefined
      return
    }
    const endsAt = now + ttlMs
    const same = before !== undefined && before.token === token
    if (same && Math.abs(before.endsAt - endsAt) <= ROUNDING_MS) return
    this.#judgeWrite(by, token, endsAt)
    this.#entry = { token, since: same ? before.since : now, endsAt }
  }

  #judgeRemoval(by: string, { value }: Issued): void {
    if (this.holder !== by) this.#ledger.problem('fence', `${by} deletes ${value} without the lease`)
    if (!this.#ledger.isRejected(value)) this.#ledger.problem('removal', `${by} deletes ${value}`)
  }

  #judgeWrite(by: string, token: Issued, endsAt: number): void {
    const { value, number, requestedAt, lifetimeMs } = token
    const problem = this.#ledger.problem.bind(this.#ledger)
    if (this.holder !== by) problem('fence', `${by} writes ${value} without the lease`)
    else if (requestedAt < (this.#lease?.acquiredAt ?? 0))
      problem('fence', `${by} writes ${value}, which it requested before it acquired the lease`)
    const usable = this.usable(by, requestedAt)
    if (usable !== undefined && usable !== token)
      problem('lifetime', `${by} writes ${value}, though ${usable.value} was there`)
    if (number < this.#newest) problem('order', `${by} writes ${value} after token-${this.#newest}`)
    this.#newest = Math.max(this.#newest, number)
    const beyondMs = endsAt - (requestedAt + lifetimeMs)
    if (beyondMs > ROUNDING_MS) problem('outlive', `${by} writes ${value} for ${beyondMs} ms too long`)
  }
}

export function isTokenKey(key: string): boolean {
  return key.includes('v1.token.')
}

function nameOf(script: string): string {
  return Object.entries(scripts).find(([, text]) => text === script)?.[0] ?? 'an unknown script'
}

/** With entries decrypted. */
function shown(result: unknown): string {
  return JSON.stringify(result, (_, value) => contentOf(value) ?? value)
}
