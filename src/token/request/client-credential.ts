/** The client's credential: a secret, or what a function of the caller returns for each attempt. */
import { networkFailureOf } from '../../advice/network.ts'
import { CredentialFileError, isFrameworkError } from '../../base/errors.ts'
import { redactedCause } from '../../base/redact.ts'
import { within } from '../../base/waiting.ts'
import { warnIfWeak } from '../../events/warnings.ts'
import type { ResolvedOptions } from '../../options/options.ts'
import type { AcquisitionContext } from './context.ts'

/**
 * The credential for one acquisition. The first one may be needed twice: for the key of the store's entries, and for the
 * first attempt. Each further attempt asks for its own.
 */
export class ClientCredential {
  readonly #options: ResolvedOptions
  readonly #context: AcquisitionContext
  #first: Promise<string> | undefined
  #latest: string | undefined
  /** Whether the function did not return in time: then it is not asked again. */
  isLate = false

  constructor(options: ResolvedOptions, context: AcquisitionContext) {
    this.#options = options
    this.#context = context
  }

  /** Whether a function returns it, which may return another one next time. */
  get mayChange(): boolean {
    return typeof this.#options.credential.value === 'function'
  }

  /** The one that was obtained last: the token, if there is one, was issued for it. */
  get latest(): string | undefined {
    return this.#latest
  }

  /**
   * The first one: every call returns the same one.
   *
   * @param endsAt when (monotonic ms of the limit clock) the function must have returned it
   * @throws an error whose message completes "The … function …"
   */
  first(endsAt: number): Promise<string> {
    this.#first ??= this.another(endsAt)
    return this.#first
  }

  /** The one for a further attempt; otherwise as `first`. */
  async another(endsAt: number): Promise<string> {
    const { option, value } = this.#options.credential
    const latest = typeof value === 'string' ? value : await this.#call(value, endsAt)
    if (option === 'clientSecret' && this.mayChange) warnIfWeak(latest)
    this.#context.secrets.add(latest)
    this.#latest = latest
    return latest
  }

  async #call(credential: () => string | Promise<string>, endsAt: number): Promise<string> {
    const { secrets, signal } = this.#context
    const ask = async (): Promise<unknown> => {
      try {
        return await credential()
      } catch (error) {
        if (isFrameworkError(error)) throw error
        const cause = redactedCause(error, secrets)
        // The text of any other error may contain a secret that is not known yet: of those, the code alone.
        const { code = '' } = networkFailureOf(cause, { isLoopback: false })
        const why = error instanceof CredentialFileError ? error.message : /^\w*$/.test(code) ? code : ''
        throw new Error(why === '' ? 'threw' : `threw (${why})`, { cause })
      }
    }
    const late = (): Error => {
      this.isLate = true
      return new Error('did not answer in time')
    }
    const returned = (await within(this.#options.limitClock, { endsAt, closed: signal }, ask, late)) ?? ''
    if (typeof returned !== 'string') throw new Error('returned no string')
    // Files end with line breaks, and a JWT has none.
    const value = this.#options.credential.option === 'clientAssertion' ? returned.trim() : returned
    if (value === '') throw new Error('returned nothing')
    return value
  }
}
