/** Steps that a schedule releases, and that can be paused or ended. */
import type { Later } from '../model/endpoint.ts'

export class Steps {
  readonly #later: Later
  #paused: (() => void)[] = []
  #state: 'go' | 'paused' | 'over' = 'go'
  #pending = 0

  constructor(later: Later) {
    this.#later = later
  }

  /** Whether no step is pending. */
  get idle(): boolean {
    return this.#pending === 0
  }

  get isPaused(): boolean {
    return this.#state === 'paused'
  }

  get areOver(): boolean {
    return this.#state === 'over'
  }

  /** Resolves when the schedule says so and the steps are not paused. */
  readonly later: Later = (label, takesMs) =>
    new Promise((resolve) => {
      this.#pending += 1
      this.#later(label, takesMs).then(() => this.#arrive(label, resolve))
    })

  /** Resolves at once, or when the steps are no longer paused. */
  ready(label: string): Promise<void> {
    if (this.#state === 'go') return Promise.resolve()
    return new Promise((resolve) => {
      this.#pending += 1
      this.#arrive(label, resolve)
    })
  }

  pause(): void {
    if (this.#state === 'go') this.#state = 'paused'
  }

  resume(): void {
    if (this.#state !== 'paused') return
    this.#state = 'go'
    for (const take of this.#paused.splice(0)) take()
  }

  /** Prevents every further step. */
  end(): void {
    this.#state = 'over'
  }

  #arrive(label: string, resolve: () => void): void {
    if (this.#state === 'over') return
    if (this.#state === 'paused') {
      this.#paused.push(() => this.#later(label).then(() => this.#arrive(label, resolve)))
      return
    }
    this.#pending -= 1
    resolve()
  }
}
