/** Several processes as one test has them: providers on one store, one token endpoint and one clock. */
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

  /** A process has asked for the token that is now in the store. */
  async begin(options: Partial<TokenProviderOptions> = {}): Promise<Process & { readonly token: string }> {
    const process = this.start(options)
    const { value } = await process.provider.getToken()
    await quiet()
    this.store.asked.length = 0
    process.events.length = 0
    return { ...process, token: value }
  }

  /** The token that another process gets, which begins now. */
  async tokenOf(options: Partial<TokenProviderOptions> = {}): Promise<string> {
    return (await this.start(options).provider.getToken()).value
  }

  /** The next answer of the token endpoint takes its time. */
  answerAfter(ms: number, answer = granted()): void {
    this.endpoint.answers.push(async (init) => {
      await this.clock.sleep(ms)
      return await answer(init)
    })
  }

  /** Lets time pass, and all that is done in it. */
  async pass(ms: number): Promise<void> {
    await quiet()
    for (let left = ms; left > 0; left -= STEP_MS) {
      await this.clock.advance(Math.min(left, STEP_MS))
      await quiet()
    }
  }

  /** As `pass`, at one stroke: for long times in which nobody waits. */
  async skip(ms: number): Promise<void> {
    await this.clock.advance(ms)
    await quiet()
  }

  /** How long (ms on the clock, to the next 10) a promise takes to settle; fails where that is over a minute. */
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

/** The clock of another machine: its hands stand elsewhere. */
export function elsewhere(clock: Clock, { monotonicMs = 0, epochMs = 0 }): Clock {
  return {
    monotonicMs: () => clock.monotonicMs() + monotonicMs,
    epochMs: () => clock.epochMs() + epochMs,
    sleep: (ms, signal) => clock.sleep(ms, signal),
  }
}

/** The events of a store that failed. */
export function failuresOf(events: readonly AuthEvent[]): Omit<StoreFailedEvent, 'type' | 'environment'>[] {
  return events
    .filter((event) => event.type === 'store-failed')
    .map(({ type: _, environment: __, ...rest }) => rest)
}

/** Where the tokens came from. */
export function sourcesOf(events: readonly AuthEvent[]): string[] {
  return events.flatMap((event) => (event.type === 'token-acquired' ? [event.source] : []))
}

// Encryption is done on other threads: how much of it is under way is counted here.
let encrypting = 0
const { subtle } = globalThis.crypto
for (const name of ['importKey', 'encrypt', 'decrypt'] as const) {
  const real = subtle[name].bind(subtle) as (...args: unknown[]) => Promise<unknown>
  const counted = async (...args: unknown[]): Promise<unknown> => {
    encrypting += 1
    try {
      return await real(...args)
    } finally {
      encrypting -= 1
    }
  }
  Object.defineProperty(subtle, name, { value: counted, configurable: true })
}

/** Lets everything run that is ready to, encryption too. */
export async function quiet(): Promise<void> {
  do await settled()
  while (encrypting > 0)
}
