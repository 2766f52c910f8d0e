/** Foreign text made fit to be shown: without secrets in whatever case, and without what could steer a terminal. */
import { HIDDEN, scrub } from '../secret.ts'
import { printable } from './terminal.ts'

/** Advice is longer than what is repeated of others. */
export const MOST_ADVICE = 1_000

/** The secrets that must not be shown. */
export class Hiding {
  readonly #secrets = new Set<string>()

  add(secret: string): void {
    if (secret !== '') this.#secrets.add(secret)
  }

  /** One line of it. Scrubbed before it is cut, so that no half of a secret remains. */
  shown(text: string, length?: number): string {
    return printable(this.#scrubbed(text), length)
  }

  #scrubbed(text: string): string {
    const scrubbed = scrub(text, this.#secrets)
    // Hosts are written in lower case, and with them what a server put there.
    const lower = scrubbed.toLowerCase()
    const inLower = [...this.#secrets].map((secret) => secret.toLowerCase())
    return scrub(lower, inLower) === lower ? scrubbed : HIDDEN
  }
}
