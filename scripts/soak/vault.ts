/** Where providers have their client secret from: at times it is behind the service, and at times in trouble itself. */
import type { Place, Trouble } from './evidence.ts'
import type { Ledger } from './ledger.ts'

export type VaultTrouble = 'throws' | 'empty' | 'hangs'

export class Vault {
  /** What a provider gets as `clientSecret`. */
  readonly source: string | (() => Promise<string>)
  readonly secrets: string[]
  readonly #ledger: Ledger
  readonly #place: Place
  #secret: string
  #rotation: Trouble | undefined
  #trouble: { readonly how: VaultTrouble; readonly noted: Trouble } | undefined
  #release: (() => void) | undefined
  #released: Promise<void> = Promise.resolve()

  /** @param asked whether the secret is a function's, and so may be replaced */
  constructor(ledger: Ledger, place: Place, asked: boolean) {
    this.#ledger = ledger
    this.#place = place
    this.#secret = ledger.at(place).clientSecret
    this.secrets = [this.#secret]
    this.source = asked ? () => this.#ask() : this.#secret
  }

  get mayRotate(): boolean {
    return typeof this.source === 'function' && this.#rotation === undefined
  }

  get mayFail(): boolean {
    return typeof this.source === 'function' && this.#trouble === undefined
  }

  /** Lets the service take another secret. Returns what tells this vault of it. */
  rotate(secret: string): () => void {
    const rotation = this.#ledger.trouble('rotation', { place: this.#place, to: Number.POSITIVE_INFINITY })
    this.#rotation = rotation
    this.secrets.push(secret)
    if (this.secrets.length > 20) this.secrets.splice(1, 1)
    this.#ledger.at(this.#place).acceptSecrets(secret)
    return () => {
      if (this.#rotation !== rotation) return
      this.#secret = secret
      this.#rotation = undefined
      this.#ledger.over(rotation)
    }
  }

  /** Lets it fail. Returns what ends that. */
  fail(how: VaultTrouble): () => void {
    const noted = this.#ledger.trouble('vault', { place: this.#place, to: Number.POSITIVE_INFINITY })
    const trouble = { how, noted }
    this.#trouble = trouble
    this.#released = new Promise((resolve) => {
      this.#release = resolve
    })
    return () => {
      if (this.#trouble !== trouble) return
      this.#trouble = undefined
      this.#ledger.over(noted)
      this.#release?.()
    }
  }

  async #ask(): Promise<string> {
    const trouble = this.#trouble
    if (trouble === undefined) return this.#secret
    if (trouble.how === 'throws') throw new Error('The vault is sealed')
    if (trouble.how === 'empty') return ''
    await this.#released
    return this.#secret
  }
}
