/** What every test of this suite has seen: its secrets, and all that a user of the package could have logged. */

export const secrets = new Set<string>()
export const outcomes: unknown[] = []

/** Notes a secret, which from now on may appear in no outcome. */
export function noteSecret(secret: unknown): void {
  if (typeof secret === 'string' && secret.length > 3) secrets.add(secret)
}

/** Passes a promise on, with what it resolves or rejects with noted. */
export function noted<T>(promise: Promise<T>): Promise<T> {
  promise.then(
    (value) => outcomes.push(value),
    (error: unknown) => outcomes.push(error),
  )
  return promise
}

export function forget(): void {
  secrets.clear()
  outcomes.length = 0
}

/** Of many outcomes alike a few are enough: the search for secrets in thousands takes seconds. */
export function thinOut(most = 6): void {
  const every = Math.ceil(outcomes.length / most)
  outcomes.splice(0, outcomes.length, ...outcomes.filter((_, at) => at % every === 0))
}
