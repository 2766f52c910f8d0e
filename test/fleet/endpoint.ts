/** The token endpoint of a fleet: it issues in turn as it is told, and its answers travel. */
import type { Answer } from '../races/actions.ts'
import type { Ledger } from './ledger.ts'
import type { Later } from './steps.ts'

const HEALTHY_SECONDS = 1_000

/** What became of a request, as far as it concerns whoever sent it. */
export type Fate = 'token' | 'fault' | undefined

/** One process's way to the token endpoint. */
export interface Asking {
  readonly name: string
  /** Something happens to the process. */
  readonly arrives: Later
  begins(): void
  ends(fate: Fate): void
}

export class FleetEndpoint {
  /** How many requests it got. */
  requests = 0
  readonly #answers: Answer[]
  readonly #ledger: Ledger
  readonly #later: Later

  constructor(answers: readonly Answer[], ledger: Ledger, later: Later) {
    this.#answers = [...answers]
    this.#ledger = ledger
    this.#later = later
  }

  /** From now on every request gets a token. */
  heal(): void {
    this.#answers.length = 0
  }

  /** The `fetch` of one process. */
  fetchOf(asking: Asking): typeof fetch {
    return (_, init = {}) => {
      const signal = init.signal as AbortSignal
      const answer = this.#answers.shift() ?? { kind: 'token', lifetimeSeconds: HEALTHY_SECONDS }
      const requestedAt = this.#ledger.now
      this.requests += 1
      this.#ledger.tell(`${asking.name} asks for a token`)
      asking.begins()
      return new Promise((resolve, reject) => {
        let ended = false
        const end = (fate: Fate): void => {
          if (!ended) asking.ends(fate)
          ended = true
        }
        signal.addEventListener('abort', () => {
          end(undefined)
          reject(signal.reason)
        })
        this.#answer(asking, answer, requestedAt).then((response) => {
          if (signal.aborted) return
          end(response?.ok ? 'token' : 'fault')
          if (response === undefined) reject(new TypeError('fetch failed'))
          else resolve(response)
        })
      })
    }
  }

  /** The answer as it arrives; undefined where the connection broke. Its time begins when the request was sent. */
  async #answer(asking: Asking, answer: Answer, requestedAt: number): Promise<Response | undefined> {
    if (answer.kind === 'hang') return new Promise(() => {})
    await this.#later(`the token endpoint answers ${asking.name}: ${JSON.stringify(answer)}`)
    const response = this.#responseTo(asking, answer, requestedAt)
    if (answer.kind === 'deaf') return new Promise(() => {}) // issued, and lost on its way
    await asking.arrives(`the token endpoint's answer reaches ${asking.name}`)
    return response
  }

  #responseTo({ name }: Asking, answer: Answer, requestedAt: number): Response | undefined {
    if (answer.kind === 'status') return new Response('{}', { status: answer.status })
    if (answer.kind !== 'token' && answer.kind !== 'deaf') return undefined
    const seconds = answer.kind === 'token' ? answer.lifetimeSeconds : HEALTHY_SECONDS
    const { value } = this.#ledger.issue(name, requestedAt, seconds * 1_000)
    this.#ledger.tell(`the token endpoint issues ${value} to ${name}`)
    return Response.json({ access_token: value, expires_in: seconds, token_type: 'Bearer' })
  }
}
