/** Simulates several processes in one test: providers that share a store, a token endpoint and a clock. */
import type { AuthEvent, Clock, StoreFailedEvent, TokenProvider, TokenProviderOptions } from 'merchant-auth'
import { ManualClock, settled } from '../support/clock.ts'
import { noteSecret } from '../support/recorded.ts'
import { granted, rig, ScriptedEndpoint } from '../token/harness.ts'
import { MemoryStore } from './memory-store.ts'

const STEP_MS = 10

export interface Process {
  readonly provider: TokenProvider
  readonly events: AuthEvent[]
}

export class Fleet {
  readonly clock = new ManualClock()
  readonly endpoint = new ScriptedEndpoint([])
  readonly store: MemoryStore

  constructor({ leases = true } = {}) {
    this.store = new MemoryStore(this.clock, { leases })
  }

  /** Starts a process. */
  start(options: Partial<TokenProviderOptions> = {}): Process {
    for (const key of options.encryptionKeys ?? []) noteSecret(key)
    const { provider, events } = rig([], {
      clock: this.clock,
      fetch: this.endpoint.fetch,
      store: this.store,
      ...options,
    })
    return { provider, events }
  }

  /** Starts a process and lets it acquire a token, which is in the store afterwards. */
  async begin(options: Partial<TokenProviderOptions> = {}): Promise<Process & { readonly token: string }> {
    const process = this.start(options)
    const { value } = await process.provider.getToken()
    await quiet()
    this.store.asked.length = 0
    process.events.length = 0
    return { ...process, token: value }
  }

  /** The token that a new process acquires. */
  async tokenOf(options: Partial<TokenProviderOptions> = {}): Promise<string> {
    return (await this.start(options).provider.getToken()).value
  }

  /** Delays the next answer of the token endpoint. */
  answerAfter(ms: number, answer = granted()): void {
    this.endpoint.answers.push(async (init) => {
      await this.clock.sleep(ms)
      return await answer(init)
    })
  }

  /** Advances the clock in small steps, and lets everything run after each. */
  async pass(ms: number): Promise<void> {
    await quiet()
    for (let left = ms; left > 0; left -= STEP_MS) {
      await this.clock.advance(Math.min(left, STEP_MS))
      await quiet()
    }
  }

  /** As `pass`, but in one step: for long times in which no call waits. */
  async skip(ms: number): Promise<void> {
    await this.clock.advance(ms)
    await quiet()
  }

  /** How long a promise takes to settle (ms on the clock, rounded up to 10); throws after a minute. */
  async tookMs(promise: Promise<unknown>): Promise<number> {
    const from = this.clock.monotonicMs()
    let done = false
    const end = (): void => {
      done = true
    }
    promise.then(end, end)
    await quiet()
    while (!done && this.clock.monotonicMs() - from < 60_000) await this.pass(STEP_MS)
    if (!done) throw new Error('took more than a minute')
    return this.clock.monotonicMs() - from
  }
}

/** The clock of another machine, which differs by these offsets. */
export function elsewhere(clock: Clock, { monotonicMs = 0, epochMs = 0 }): Clock {
  return {
    monotonicMs: () => clock.monotonicMs() + monotonicMs,
    epochMs: () => clock.epochMs() + epochMs,
    sleep: (ms, signal) => clock.sleep(ms, signal),
  }
}

/** The store-failed events, without their type and environment. */
export function failuresOf(events: readonly AuthEvent[]): Omit<StoreFailedEvent, 'type' | 'environment'>[] {
  return events
    .filter((event) => event.type === 'store-failed')
    .map(({ type: _, environment: __, ...rest }) => rest)
}

/** The sources of the token-acquired events. */
export function sourcesOf(events: readonly AuthEvent[]): string[] {
  return events.flatMap((event) => (event.type === 'token-acquired' ? [event.source] : []))
}

/** Lets everything run that is ready to run. */
export const quiet = settled
