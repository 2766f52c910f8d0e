/** What processes share by a store: the token, and when renewals for an API that refused it may come again. */
import * as z from 'zod/mini'
import type { Clock } from '../clock.ts'
import { hashOf, SealedStore } from '../store/sealed-store.ts'
import type { TokenStore } from '../store/token-store.ts'
import { type StoreWatch, WatchedStore } from '../store/watched-store.ts'
import type { RationState, RenewalRation } from './cooldown.ts'
import type { HeldToken } from './held-token.ts'
import type { SentGrant } from './token-request.ts'

const TOKEN = 'token'
const RATION_MS = 60 * 60_000

const tokenEntry = z.object({
  value: z.string(),
  scope: z.optional(z.string()),
  lifetimeMs: z.number().check(z.positive()),
})

const rationEntry = z.object({
  gapMs: z.number(),
  renewedAgoMs: z.array(z.number()),
})

/** A token found, and the key of the entry that it was in. */
export interface FoundGrant {
  readonly grant: SentGrant
  readonly key: string
}

/** Whose entries they are, and what else they go by. */
export interface SharedEntriesContext extends StoreWatch {
  /** What tells clients apart. */
  readonly client: readonly string[]
  /** The first one seals, all open. */
  readonly secrets: readonly string[]
}

/** The shared token and rations of one client. */
export class SharedEntries {
  readonly #store: SealedStore
  readonly #clock: Clock

  constructor(store: TokenStore, { client, secrets, ...watch }: SharedEntriesContext) {
    this.#store = new SealedStore(new WatchedStore(store, watch), hashOf(...client), secrets)
    this.#clock = watch.clock
  }

  /**
   * The tokens that are there, with what remains of their lives by the store's own account: the clocks of the
   * machines that wrote them may say anything.
   */
  async *tokens(): AsyncGenerator<FoundGrant> {
    for await (const { key, content, ttlMs, readAt } of this.#store.read(TOKEN, tokenEntry)) {
      const { value, scope, lifetimeMs } = content
      const livedMs = Math.max(0, lifetimeMs - ttlMs)
      const sentAt = { monotonicMs: readAt.monotonicMs - livedMs, epochMs: readAt.epochMs - livedMs }
      yield { grant: { value, scope, lifetimeMs, sentAt }, key }
    }
  }

  async writeToken({ token, lifetime, lifetimeMs }: HeldToken): Promise<void> {
    const { value, scope } = token
    await this.#store.write(TOKEN, { value, scope, lifetimeMs }, () => lifetime.remainsMs(this.#clock))
  }

  /** Takes the token of this key out. */
  async delete(key: string): Promise<void> {
    await this.#store.delete(key)
  }

  get leases(): boolean {
    return this.#store.leases
  }

  /** The right to be the only one who asks for a token, for `ttlMs`; undefined while another has it. */
  async lease(ttlMs: number): Promise<(() => Promise<void>) | undefined> {
    return await this.#store.lease(TOKEN, ttlMs)
  }

  /** Makes a ration as strict as that of the processes which renewed for this API before. */
  async readRation(api: string | undefined, ration: RenewalRation): Promise<void> {
    for await (const { content, ttlMs } of this.#store.read(rationOf(api), rationEntry)) {
      ration.adopt(aged(content, RATION_MS - ttlMs), this.#clock.monotonicMs())
    }
  }

  async writeRation(api: string | undefined, ration: RenewalRation): Promise<void> {
    await this.#store.write(rationOf(api), ration.state(this.#clock.monotonicMs()), () => RATION_MS)
  }
}

function rationOf(api: string | undefined): string {
  return `ration-${hashOf(api ?? '')}`
}

/** A state as it is some time after it was written. */
function aged({ gapMs, renewedAgoMs }: RationState, ms: number): RationState {
  return { gapMs, renewedAgoMs: renewedAgoMs.map((agoMs) => agoMs + Math.max(0, ms)) }
}
