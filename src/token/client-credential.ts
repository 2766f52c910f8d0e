/** What proves the client's identity to the token endpoint: a secret, or an assertion that a function of the caller returns. */
import type { ResolvedOptions } from '../options.ts'
import { redactedCause } from '../redact.ts'
import { within } from '../waiting.ts'
import { warnIfWeak } from '../warnings.ts'
import type { ProviderContext } from './provider-context.ts'

/** The function of the caller returned no credential. The message completes "The … function …". */
export class NoCredential extends Error {}

/** The credential for one token: a string, or the result of the function. */
export class ClientCredential {
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

  /** Whether the function may return another one. */
  get mayChange(): boolean {
    return typeof this.#options.credential.value === 'function'
  }

  /**
   * The credential, if it is available before `endsAt` (monotonic ms).
   *
   * @throws {@link NoCredential}
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
    const { credential } = this.#options
    const { value } = credential
    this.#last = typeof value === 'string' ? value : await this.#call(value, endsAt)
    if (credential.option === 'clientSecret') warnIfWeak(this.#last)
    this.#context.secrets.add(this.#last)
    return this.#last
  }

  async #call(credential: () => string | Promise<string>, endsAt: number): Promise<string> {
    const { closed, secrets } = this.#context
    const ask = async (): Promise<unknown> => {
      try {
        return await credential()
      } catch (error) {
        throw new NoCredential('threw', { cause: redactedCause(error, secrets) })
      }
    }
    const late = (): Error => new NoCredential('did not answer in time')
    const returned = (await within(this.#options.clock, { endsAt, closed }, ask, late)) ?? ''
    if (typeof returned !== 'string') throw new NoCredential('returned no string')
    // Files end with line breaks, and a JWT has none.
    const value = this.#options.credential.option === 'clientAssertion' ? returned.trim() : returned
    if (value === '') throw new NoCredential('returned nothing')
    return value
  }
}
