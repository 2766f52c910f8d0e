/** The client secret, given or asked for. */
import type { Clock } from '../clock.ts'
import { TokenRequestError } from '../errors.ts'
import { LEAST_SECRET, redactedCause, UsedSecrets } from '../redact.ts'
import { within } from '../waiting.ts'

/** Makes the error for a secret that could not be had. */
export type SecretFailure = (what: string, cause?: Error) => Error

/** Until when (monotonic ms) a secret is waited for, and what ends the wait before. */
export interface SecretLimits {
  readonly endsAt: number
  readonly closed: AbortSignal
}

/** Why there is none. */
class NoSecret extends Error {
  readonly reason: Error | undefined

  constructor(what: string, reason?: Error) {
    super(what)
    this.reason = reason
  }
}

/** Where the secret for one token comes from. */
export class ClientSecret {
  readonly #used: UsedSecrets
  readonly #source: string | (() => string | Promise<string>)

  #ahead: Promise<string> | undefined
  #last: string | undefined

  /** `used` is told of every secret before it is used. */
  constructor(source: string | (() => string | Promise<string>), used: UsedSecrets) {
    this.#source = source
    this.#used = used
  }

  /** The one that was had last. */
  get last(): string | undefined {
    return this.#last
  }

  /** Whether another secret may be had by asking again. */
  get mayChange(): boolean {
    return typeof this.#source === 'function'
  }

  /**
   * The secret, where it comes before `endsAt` (monotonic ms) and `closed`.
   *
   * @throws what `failed` makes
   */
  async ask(clock: Clock, limits: SecretLimits, failed: SecretFailure): Promise<string> {
    const ahead = this.#ahead
    this.#ahead = undefined
    if (typeof this.#source === 'string') return this.#remember(this.#source)
    try {
      return await (ahead ?? this.#askFor(this.#source, clock, limits))
    } catch (error) {
      if (error instanceof NoSecret) throw failed(error.message, error.reason)
      throw error
    }
  }

  /** As `ask`, but undefined where it cannot be had; the next `ask` has the same answer, and asks nobody. */
  async askAhead(clock: Clock, limits: SecretLimits): Promise<string | undefined> {
    if (typeof this.#source === 'string') return this.#remember(this.#source)
    this.#ahead = this.#askFor(this.#source, clock, limits)
    return await this.#ahead.catch(() => undefined)
  }

  #askFor(source: () => string | Promise<string>, clock: Clock, limits: SecretLimits): Promise<string> {
    const ask = async (): Promise<string> => {
      let secret: unknown
      try {
        secret = await source()
      } catch (error) {
        throw new NoSecret('threw', redactedCause(error, this.#used))
      }
      if (typeof secret !== 'string' || secret === '') throw new NoSecret('yielded no secret')
      warnIfWeak(secret)
      return this.#remember(secret)
    }
    return within(clock, limits, ask, () => new NoSecret('did not answer in time'))
  }

  #remember(secret: string): string {
    this.#used.add(secret)
    this.#last = secret
    return secret
  }
}

const weak = new UsedSecrets()

/** Warns of a short secret, once for each. */
export function warnIfWeak(secret: string): void {
  if (secret.length >= LEAST_SECRET || !weak.add(secret)) return
  process.emitWarning(
    `A client secret of fewer than ${LEAST_SECRET} characters can be guessed, and text from servers that happens to ` +
      'contain it is hidden in errors and events. Ask the service for another one.',
    { code: 'MERCHANT_AUTH_WEAK_SECRET' },
  )
}

/** Whether the token endpoint refused the client: perhaps for a secret that was replaced since it was read. */
export function isRefusedSecret(error: unknown): boolean {
  return (
    error instanceof TokenRequestError &&
    (error.status === 401 || error.error === 'invalid_client' || error.error === 'access_denied')
  )
}
