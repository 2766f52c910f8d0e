/** Waits until nothing real is in flight: only then may simulated time move. */

const COUNTED = ['encrypt', 'decrypt', 'importKey'] as const
/** The store's own operations end by way of one `setImmediate` where they are late. */
const CALM_TURNS = 2

type Operation = (...args: unknown[]) => Promise<unknown>

/** Counts what WebCrypto has in hand: its results come from other threads, and not by microtasks alone. */
export class Quiet implements Disposable {
  #inFlight = 0

  constructor() {
    for (const name of COUNTED) {
      const operation = crypto.subtle[name].bind(crypto.subtle) as Operation
      const value: Operation = async (...args) => {
        this.#inFlight += 1
        try {
          return await operation(...args)
        } finally {
          this.#inFlight -= 1
        }
      }
      Object.defineProperty(crypto.subtle, name, { value, configurable: true })
    }
  }

  async settle(): Promise<void> {
    for (let calm = 0; calm < CALM_TURNS; calm = this.#inFlight === 0 ? calm + 1 : 0)
      await new Promise((resolve) => setImmediate(resolve))
  }

  [Symbol.dispose](): void {
    for (const name of COUNTED) Reflect.deleteProperty(crypto.subtle, name)
  }
}
