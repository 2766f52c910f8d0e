/** Sealing in the model: at once and under the schedule's hand, or the real one, waited for. */

import { createHash } from 'node:crypto'
import type { SealingKey } from '../../src/store/sealing.ts'

type Sealing = Pick<SealingKey, 'id' | 'seal' | 'open'>

export const sealing = {
  /** Whether to seal as in production. */
  real: false,
  /** How many operations of the real one run, in threads of their own. */
  running: 0,
  /** What comes between a content and its sealed form. */
  before: async (_content: unknown): Promise<void> => {},
  /** What was sealed, by its sealed form. */
  contents: new Map<string, unknown>(),
}

/** Still bound to its name and key. */
class QuickSealing implements Sealing {
  readonly id: string

  constructor(secret: string, salt: string) {
    this.id = createHash('sha256').update(`${secret} ${salt}`).digest('base64url')
  }

  async seal(name: string, content: unknown): Promise<string> {
    return JSON.stringify([this.id, name, content])
  }

  async open(name: string, sealed: string): Promise<unknown> {
    const [id, sealedName, content] = JSON.parse(sealed)
    return id === this.id && sealedName === name ? content : undefined
  }
}

/** What stands in for `SealingKey`. */
export function watchedSealing(Real: typeof SealingKey): new (secret: string, salt: string) => Sealing {
  return class implements Sealing {
    readonly id: string
    readonly #sealing: Sealing

    constructor(secret: string, salt: string) {
      this.#sealing = sealing.real ? new Real(secret, salt) : new QuickSealing(secret, salt)
      this.id = this.#sealing.id
    }

    async seal(name: string, content: unknown): Promise<string> {
      await sealing.before(content)
      const sealed = await counted(this.#sealing.seal(name, content))
      sealing.contents.set(sealed, content)
      return sealed
    }

    open(name: string, sealed: string): Promise<unknown> {
      return counted(this.#sealing.open(name, sealed))
    }
  }
}

async function counted<T>(operation: Promise<T>): Promise<T> {
  sealing.running += 1
  try {
    return await operation
  } finally {
    sealing.running -= 1
  }
}
