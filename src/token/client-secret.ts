/** The client secret, given or asked for, and the memory of those used last. */
import type { Clock } from '../clock.ts'
import { TokenRequestError } from '../errors.ts'
import { scrubbedCause } from '../secret.ts'
import { within } from './waiting.ts'

/** How many secrets are remembered, so that one which was replaced is not shown by a late message either. */
const MOST_SECRETS = 8

/** Makes the error for a secret that could not be had. */
export type SecretFailure = (what: string, cause?: Error) => Error

/** Where one client's secret comes from. */
export class ClientSecret {
  /** The secrets used last, to be taken out of whatever is said. */
  readonly used: Set<string> = new Set()
  readonly #source: string | (() => string | Promise<string>)

  constructor(source: string | (() => string | Promise<string>)) {
    this.#source = source
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
        throw failed('threw', scrubbedCause(error, this.used))
      }
      if (typeof secret !== 'string' || secret === '') throw failed('yielded no secret')
      return this.#remember(secret)
    }
    return await within(clock, limits, ask, () => failed('did not answer in time'))
  }

  #remember(secret: string): string {
    this.used.delete(secret)
    this.used.add(secret)
    for (const oldest of this.used) if (this.used.size > MOST_SECRETS) this.used.delete(oldest)
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
