/** The client secret, given or asked for. */
import type { Clock } from '../clock.ts'
import { TokenRequestError } from '../errors.ts'
import { scrubbedCause, type UsedSecrets } from '../secret.ts'
import { within } from '../waiting.ts'

/** Makes the error for a secret that could not be had. */
export type SecretFailure = (what: string, cause?: Error) => Error

/** Where one client's secret comes from. */
export class ClientSecret {
  readonly #used: UsedSecrets
  readonly #source: string | (() => string | Promise<string>)

  /** `used` is told of every secret before it is used. */
  constructor(source: string | (() => string | Promise<string>), used: UsedSecrets) {
    this.#source = source
    this.#used = used
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
  async ask(
    clock: Clock,
    limits: { endsAt: number; closed: AbortSignal },
    failed: SecretFailure,
  ): Promise<string> {
    const source = this.#source
    if (typeof source === 'string') return this.#remember(source)
    const ask = async (): Promise<string> => {
      let secret: unknown
      try {
        secret = await source()
      } catch (error) {
        throw failed('threw', scrubbedCause(error, this.#used))
      }
      if (typeof secret !== 'string' || secret === '') throw failed('yielded no secret')
      return this.#remember(secret)
    }
    return await within(clock, limits, ask, () => failed('did not answer in time'))
  }

  #remember(secret: string): string {
    this.#used.add(secret)
    return secret
  }
}

/** Whether the token endpoint refused the client: perhaps for a secret that was replaced since it was read. */
export function isRefusedSecret(error: unknown): boolean {
  return (
    error instanceof TokenRequestError &&
    (error.status === 401 || error.error === 'invalid_client' || error.error === 'access_denied')
  )
}
