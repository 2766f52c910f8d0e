/** Records the secrets of each test, and everything that a user of the package could have logged. */
import { subscribe } from 'node:diagnostics_channel'

export const secrets = new Set<string>()
export const outcomes: unknown[] = []

// Here rather than in setup.ts, which runs for every file: this runs once for all files that share the module.
subscribe('merchant-auth', (event) => outcomes.push(event))

/** Notes a secret, which must not appear in any outcome. */
export function noteSecret(secret: unknown): void {
  if (typeof secret === 'string' && secret.length > 3) secrets.add(secret)
}

/** Returns the same promise, and notes what it resolves or rejects with. */
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

/** Keeps a few of many similar outcomes: searching thousands for secrets takes seconds. */
export function thinOut(most = 6): void {
  const every = Math.ceil(outcomes.length / most)
  outcomes.splice(0, outcomes.length, ...outcomes.filter((_, at) => at % every === 0))
}
