/** What the functions in the options call to acquire a token: through whatever client, it gets no token and waits for none. */
import { AsyncLocalStorage } from 'node:async_hooks'

/** The async context of a function of the options. */
interface Context {
  isOver: boolean
}

/** The calls of one provider's functions: `fetch`, `clientSecret` and `clientAssertion`. */
export class OwnCalls {
  readonly #contexts = new AsyncLocalStorage<Context>()
  #running = 0

  /** Runs a function of the options. */
  async run<R>(act: () => R | PromiseLike<R>): Promise<R> {
    const context = { isOver: false }
    this.#running += 1
    try {
      return await this.#contexts.run(context, async () => await act())
    } finally {
      context.isOver = true // what the function has started and not ended, such as a queue of jobs, stays in its context
      this.#running -= 1
      if (this.#running === 0) this.#disable()
    }
  }

  /** Whether this is called by such a function, before it has ended. */
  get isInside(): boolean {
    return this.#contexts.getStore()?.isOver === false
  }

  /** In Node.js 22, every promise of the process takes three times as long while a storage is in use. */
  #disable(): void {
    try {
      this.#contexts.disable()
    } catch {
      // Cloudflare Workers do not have it.
    }
  }
}
