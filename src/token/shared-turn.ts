/** One turn at the token that processes share: look, wait for the lease, look again, and write in the end. */
import type { Clock } from '../clock.ts'
import { untilAborted } from '../waiting.ts'
import type { HeldToken } from './held-token.ts'
import type { SharedEntries } from './shared-entries.ts'
import type { SentGrant } from './token-request.ts'

// Whoever waits for another process's token sees it within 100 ms.
const LOOK_EVERY_MS = 50
/** For the token request of whoever takes the lease when its holder has died. */
const MOST_GRACE_MS = 1_000

/** What a turn goes by. */
export interface TurnContext {
  readonly clock: Clock
  readonly closed: AbortSignal
  /** How long (ms) one may hold the lease. */
  readonly leaseMs: number
  /** Whether an API refused this token: it should not be there any more. */
  isRefused(value: string): boolean
  /** A token found becomes one in hand, where it will do. */
  choose(found: SentGrant): HeldToken | undefined
}

/**
 * One process's turn. Without a store, and from the moment it fails, nothing is found and nothing waited for: the
 * turn is the process's own at once, and what it gets stays with it.
 */
export class SharedTurn {
  #entries: SharedEntries | undefined
  readonly #context: TurnContext
  #release: (() => Promise<void>) | undefined
  /** Where a refused token was seen last. */
  #refusedAt: string | undefined
  #removal: Promise<unknown> = Promise.resolve()

  constructor(entries: SharedEntries | undefined, context: TurnContext) {
    this.#entries = entries
    this.#context = context
  }

  /** A token in the store that will do. */
  look(): Promise<HeldToken | undefined> {
    const { isRefused, choose } = this.#context
    this.#refusedAt = undefined
    return this.attempt(async (entries) => {
      for await (const { grant, key } of entries.tokens()) {
        if (isRefused(grant.value)) this.#refusedAt = key
        const held = choose(grant)
        if (held !== undefined) return held
      }
      return undefined
    })
  }

  /**
   * Waits until it is this process's turn to ask for a token (undefined), or another has put one there. A holder
   * that died blocks for as long as the lease, and whoever has it next needs time, too. After that this process
   * asks all the same. Where nobody is in a hurry, `taken` says that another process has its turn.
   */
  async wait({ hurry }: { hurry: boolean }): Promise<HeldToken | 'taken' | undefined> {
    const { clock, closed, leaseMs } = this.#context
    const giveUpAt = clock.monotonicMs() + leaseMs + Math.min(leaseMs / 4, MOST_GRACE_MS)
    for (;;) {
      this.#release = await this.attempt((entries) => entries.lease(leaseMs))
      if (this.#release !== undefined) return await this.look()
      if (this.#entries?.leases && !hurry) return 'taken'
      if (!this.#entries?.leases || clock.monotonicMs() >= giveUpAt) return undefined
      await untilAborted(clock.sleep(LOOK_EVERY_MS, closed), closed)
      const held = await this.look()
      if (held !== undefined) return held
    }
  }

  /** Takes a refused token out, where it was seen a moment ago. Nobody need wait for that. */
  removeRefused(): void {
    const key = this.#refusedAt
    if (key !== undefined && this.#mayWrite) this.#removal = this.attempt((entries) => entries.delete(key))
  }

  /** Shares what came of the turn: a token, or that one was refused. Resolves with whether the store still works. */
  async write(write?: (entries: SharedEntries) => Promise<void>): Promise<boolean> {
    await this.#removal
    if (write !== undefined && this.#mayWrite) await this.attempt(write)
    else if (this.#refusedAt !== undefined && this.#release === undefined) await this.#clear()
    return this.#entries !== undefined
  }

  /** Lets the others have their turn. */
  async leave(): Promise<void> {
    await this.#release?.().catch(() => {}) // the lease ends by itself
  }

  /** Takes out a refused token that was to stay for lack of a lease, unless somebody is just replacing it. */
  async #clear(): Promise<void> {
    this.#release = await this.attempt((entries) => entries.lease(this.#context.leaseMs))
    if (this.#mayWrite) await this.look()
    this.removeRefused()
    await this.#removal
  }

  /** Does something with the store; yields undefined without one, and leaves it alone for the rest of the turn when it fails. */
  async attempt<T>(act: (entries: SharedEntries) => Promise<T>): Promise<T | undefined> {
    if (this.#entries === undefined) return undefined
    try {
      return await act(this.#entries)
    } catch {
      this.#entries = undefined // an event has told
      return undefined
    }
  }

  get #mayWrite(): boolean {
    return this.#release !== undefined || this.#entries?.leases === false
  }
}
