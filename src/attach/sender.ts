/**
 * What the attachments of a provider are sending: a call may pass two of them, such as one on fetch, and one on the dispatcher
 * below it. A header that the first one set is not one of the caller's own.
 */
import type { TokenProvider } from '../token/provider.ts'

/** What all attachments of a provider share. */
interface Senders {
  /** Those with calls under way. */
  readonly sending: Set<Sender>
  /** The header of the request interceptors, which do not see when a call ends. */
  intercepted?: string
}

const sendersOf = new WeakMap<TokenProvider, Senders>()

/** What one attachment is sending. */
export class Sender {
  readonly #senders: Senders
  /** The last two values of its header: around a renewal, calls with both are under way. */
  #values: readonly unknown[] = []
  #calls = 0

  constructor(tokens: TokenProvider) {
    this.#senders = sendersOf.get(tokens) ?? { sending: new Set() }
    sendersOf.set(tokens, this.#senders)
  }

  /** The header has another value from now on. */
  changed(value: string): void {
    this.#values = [value, this.#values[0]]
  }

  /** Runs a function that sends a call, until its promise settles. */
  async send<Outcome>(run: () => Promise<Outcome>): Promise<Outcome> {
    this.#start()
    try {
      return await run()
    } finally {
      this.#end()
    }
  }

  /** Runs a function that hands a call to a dispatcher. */
  dispatch<Outcome>(run: () => Outcome): Outcome {
    this.#start()
    try {
      return run()
    } finally {
      this.#end()
    }
  }

  #start(): void {
    this.#calls += 1
    if (this.#calls === 1) this.#senders.sending.add(this)
  }

  #end(): void {
    this.#calls -= 1
    if (this.#calls === 0) this.#senders.sending.delete(this)
  }

  /** A request interceptor has set a header of this value. */
  intercepted(value: string): void {
    this.#senders.intercepted = value
  }

  /** Whether another attachment of the provider is sending a header of this value. */
  isSentByOther(value: unknown): boolean {
    const { sending, intercepted } = this.#senders
    if (value === undefined) return false
    return (
      value === intercepted || [...sending].some((other) => other !== this && other.#values.includes(value))
    )
  }
}
