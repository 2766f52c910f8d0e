/**
 * What the attachments of a provider are sending: a call may pass two of them, such as one on fetch, and one on the dispatcher
 * below it. A header that the first one set is not one of the caller's own.
 */
import type { TokenProvider } from '../token/provider.ts'

/** What all attachments of a provider share. */
interface Senders {
  /** All with calls under way, and some others. */
  readonly listed: Set<Sender>
  /** The header of the request interceptors, which do not see when a call ends. */
  intercepted?: string
}

/** So many attachments without calls under way stay listed, because listing one again at each call would cost too much. */
const MAX_LISTED = 8

const sendersOf = new WeakMap<TokenProvider, Senders>()

/** What one attachment is sending. */
export class Sender {
  readonly #senders: Senders
  /** The last two values of its header: around a renewal, calls with both are under way. */
  #values: readonly unknown[] = []
  #calls = 0
  #isListed = false

  constructor(tokens: TokenProvider) {
    this.#senders = sendersOf.get(tokens) ?? { listed: new Set() }
    sendersOf.set(tokens, this.#senders)
  }

  /** The header has another value from now on. */
  changed(value: string): void {
    this.#values = [value, this.#values[0]]
  }

  /** Called before a call is sent. */
  start(): void {
    this.#calls += 1
    if (!this.#isListed) this.#list()
  }

  /** Called when a call was sent, and its response has arrived, or it has failed. */
  end(): void {
    this.#calls -= 1
  }

  #list(): void {
    const { listed } = this.#senders
    if (listed.size >= MAX_LISTED)
      for (const other of listed) {
        if (other.#calls > 0) continue
        listed.delete(other)
        other.#isListed = false
      }
    listed.add(this)
    this.#isListed = true
  }

  /** A request interceptor has set a header of this value. */
  intercepted(value: string): void {
    this.#senders.intercepted = value
  }

  /** Whether another attachment of the provider is sending a header of this value. */
  isSentByOther(value: unknown): boolean {
    const { listed, intercepted } = this.#senders
    if (value === undefined) return false
    const isSending = (other: Sender): boolean =>
      other !== this && other.#calls > 0 && other.#values.includes(value)
    return value === intercepted || [...listed].some(isSending)
  }
}
