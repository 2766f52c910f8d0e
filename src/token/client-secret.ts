/** The client secret: a string, or what a function of the caller returns. */
import type { ResolvedOptions } from '../options.ts'
import { redactedCause } from '../redact.ts'
import { within } from '../waiting.ts'
import { warnIfWeak } from '../warnings.ts'
import type { ProviderContext } from './provider-context.ts'

/** No client secret could be obtained. The message completes "The clientSecret function …". */
export class NoSecret extends Error {}

/** The client secret for one token: a string, or the result of the function. */
export class ClientSecret {
  readonly #options: ResolvedOptions
  readonly #context: ProviderContext
  #ahead: Promise<string> | undefined
  #last: string | undefined

  constructor(options: ResolvedOptions, context: ProviderContext) {
    this.#options = options
    this.#context = context
  }

  /** The last one that was obtained. */
  get last(): string | undefined {
    return this.#last
  }

  /** Whether the function may return another secret. */
  get mayChange(): boolean {
    return typeof this.#options.clientSecret === 'function'
  }

  /**
   * The secret, if it is available before `endsAt` (monotonic ms).
   *
   * @throws {@link NoSecret}
   */
  ask(endsAt: number): Promise<string> {
    const asked = this.#ahead ?? this.#askNow(endsAt)
    this.#ahead = undefined
    return asked
  }

  /** Like `ask`, but resolves with undefined on failure. The next `ask` reuses the result. */
  async askAhead(endsAt: number): Promise<string | undefined> {
    this.#ahead = this.#askNow(endsAt)
    return await this.#ahead.catch(() => undefined)
  }

  async #askNow(endsAt: number): Promise<string> {
    const { clientSecret, clock } = this.#options
    const { closed, secrets } = this.#context
    if (typeof clientSecret === 'string') {
      this.#last = clientSecret
    } else {
      const ask = async (): Promise<unknown> => {
        try {
          return await clientSecret()
        } catch (error) {
          throw new NoSecret('threw', { cause: redactedCause(error, secrets) })
        }
      }
      const late = (): Error => new NoSecret('did not answer in time')
      const secret = await within(clock, { endsAt, closed }, ask, late)
      if (typeof secret !== 'string' || secret === '') throw new NoSecret('yielded no secret')
      warnIfWeak(secret)
      this.#last = secret
    }
    secrets.add(this.#last)
    return this.#last
  }
}
