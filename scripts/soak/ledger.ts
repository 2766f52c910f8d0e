/** Keeps what happened as long as it may be needed to explain a failure: requests, faults, troubles. */
import type { Fault, Sandbox, SandboxEnvironment, SandboxRequest, SandboxTarget } from 'merchant-auth/testing'
import type { Arrival, EndedCall, Evidence, Place, Story, TokenTry, Trouble } from './evidence.ts'

/** The header that names a call, and the one that names a token request. */
export const CALL_HEADER = 'x-soak-call'
export const TOKEN_TRY_HEADER = 'x-soak-token-request'

export const PLACES: readonly Place[] = ['production', 'test']

/** No call lives as long as this: what is older explains nothing any more. */
const KEPT_MS = 90_000

export class Ledger {
  readonly faultsMet: Map<string, number> = new Map()
  /** When the last fault was met, or the last trouble ended that was made: this machine may stand still at any time. */
  lastTroubleAt = 0
  readonly #sandbox: Sandbox
  readonly #faults = new Map<string, { readonly fault: Fault; readonly at: number }>()
  readonly #calls = new Map<string, Arrival[]>()
  readonly #tries = new Map<string, TokenTry>()
  readonly #troubleCounts = new Map<Trouble['kind'], number>()
  #troubles: Trouble[] = []
  #lastId = 0

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox
  }

  at(place: Place): SandboxEnvironment {
    return this.#sandbox[place]
  }

  /** How often each kind of trouble was made. */
  get troubleCounts(): ReadonlyMap<string, number> {
    return this.#troubleCounts
  }

  /** Orders a fault, and remembers it by its id. */
  fail(place: Place, target: SandboxTarget, fault: Fault, times = 1): void {
    const id = this.at(place).fail(target, fault, { times })
    this.#faults.set(`${place}/${id}`, { fault, at: times === 1 ? Date.now() : Number.POSITIVE_INFINITY })
  }

  /** Notes a trouble. One with an end goes on until `over`. */
  trouble(kind: Trouble['kind'], details: Partial<Trouble> = {}): Trouble {
    this.#lastId += 1
    const now = Date.now()
    const trouble = { id: `${kind}-${this.#lastId}`, kind, from: now, to: now, ...details }
    this.#troubles.push(trouble)
    this.#troubleCounts.set(kind, (this.#troubleCounts.get(kind) ?? 0) + 1)
    if (kind !== 'stall') this.#lasted(Math.min(trouble.to, now))
    return trouble
  }

  over(trouble: Trouble): void {
    trouble.to = Date.now()
    this.#lasted(trouble.to)
  }

  #lasted(at: number): void {
    this.lastTroubleAt = Math.max(this.lastTroubleAt, at)
  }

  begin(callId: string): void {
    this.#calls.set(callId, [])
  }

  /** Waits for the record of a token request. */
  expect(tried: TokenTry): void {
    this.#tries.set(tried.id, tried)
  }

  /** Takes what is known of a call out of here. */
  end({ id, place }: EndedCall, story: Story): Evidence {
    this.sweep()
    // Those of one ms: a call goes from its own environment to the other, by a redirect, and not back.
    const away = (arrival: Arrival): number => (arrival.place === place ? 0 : 1)
    const requests = (this.#calls.get(id) ?? []).sort(
      (a, b) => a.record.at - b.record.at || away(a) - away(b) || a.record.id - b.record.id,
    )
    this.#calls.delete(id)
    return { requests, story, troubles: this.#troubles, faultOf: (where, name) => this.#faultOf(where, name) }
  }

  #faultOf(place: Place, id: string): Fault | undefined {
    return this.#faults.get(`${place}/${id}`)?.fault
  }

  /** Takes the sandbox's new records. They are completed while their requests are answered. */
  sweep(): void {
    for (const place of PLACES) {
      const environment = this.at(place)
      const records = environment.requests()
      if (records.length === 0) continue
      environment.clearRequests()
      for (const record of records) this.#take(place, record)
    }
  }

  #take(place: Place, record: SandboxRequest): void {
    if (record.fault !== undefined) {
      const { kind } = this.#faultOf(place, record.fault) ?? { kind: 'unknown' }
      const row = `${record.target === 'token' ? 'token' : 'API'}: ${kind}`
      this.faultsMet.set(row, (this.faultsMet.get(row) ?? 0) + 1)
      this.#lasted(record.at)
    }
    const tried = this.#tries.get(record.headers[TOKEN_TRY_HEADER] ?? '')
    if (tried !== undefined) {
      tried.record = record
      this.#tries.delete(tried.id)
    }
    this.#calls.get(record.headers[CALL_HEADER] ?? '')?.push({ place, record })
  }

  /** Forgets what is too old to explain anything. */
  prune(): void {
    const since = Date.now() - KEPT_MS
    this.#troubles = this.#troubles.filter(({ to }) => to > since)
    for (const [id, { at }] of this.#faults) if (at < since) this.#faults.delete(id)
    for (const [id, { startedAt }] of this.#tries) if (startedAt < since) this.#tries.delete(id)
  }

  /** Forgets everything but the figures. */
  clear(): void {
    this.#troubles = []
    this.#faults.clear()
    this.#calls.clear()
    this.#tries.clear()
  }
}
