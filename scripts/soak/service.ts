/** One environment of the payment service: the troubles it gets into, and what it did to each call. */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault, Sandbox, SandboxEnvironment, SandboxTarget } from 'merchant-auth/testing'
import type { Random } from '../../test/support/random.ts'
import { apiFaults, TOKEN_FAULTS } from './faults.ts'
import { type Arrival, nameOf, type Place, type Trouble, tailEnd } from './oracle.ts'

/** Names a call to the APIs. */
export const CALL_HEADER = 'x-soak-call'
export const PLACES: readonly Place[] = ['production', 'test']

const APIS = ['merchant', 'in-store'] as const
const CALM = { tokenLatencyMs: 20, apiLatencyMs: (): number => Math.random() * 30, rejectAllTokens: false }
/** The share of calls before which an API fault is ordered. */
const FAULT_SHARE = 0.3
const KEPT_MS = 60_000

/** How often something happened, by its name. */
export class Counts extends Map<string, number> {
  add(name: string): void {
    this.set(name, (this.get(name) ?? 0) + 1)
  }

  get total(): number {
    return [...this.values()].reduce((sum, count) => sum + count, 0)
  }

  override toString(): string {
    const sorted = [...this].sort(([a], [b]) => a.localeCompare(b))
    return `${this.total} (${sorted.map(([name, count]) => `${name} ${count}`).join(', ')})`
  }
}

/** What the APIs did to each call, by its id, and how many faults there were. */
export class Records {
  readonly faultsMet = new Counts()
  readonly #sandbox: Sandbox
  readonly #faults = new Map<string, Fault>()
  readonly #calls = new Map<string, Arrival[]>()

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox
  }

  /** Lets the next requests to a target meet a fault. */
  fail(place: Place, target: SandboxTarget, fault: Fault, times = 1): void {
    this.#faults.set(`${place}/${this.#sandbox[place].fail(target, fault, { times })}`, fault)
  }

  begin(callId: string): void {
    this.#calls.set(callId, [])
  }

  /** The requests of a call that has ended, oldest first. A redirect may lead to the other environment, but not back. */
  end(callId: string, place: Place): readonly Arrival[] {
    this.sweep()
    const arrivals = this.#calls.get(callId) ?? []
    this.#calls.delete(callId)
    const rank = (arrival: Arrival): number => (arrival.place === place ? arrival.record.id : Infinity)
    return arrivals.sort((a, b) => a.record.at - b.record.at || (rank(a) < rank(b) ? -1 : 1))
  }

  /** Takes over the sandbox's new records, which are completed while their requests are being answered. */
  sweep(): void {
    for (const place of PLACES) {
      for (const record of this.#sandbox[place].requests()) {
        const fault = this.#faults.get(`${place}/${record.fault}`)
        if (fault !== undefined)
          this.faultsMet.add(`${record.target === 'token' ? 'token' : 'API'}: ${nameOf(fault)}`)
        this.#calls.get(record.headers[CALL_HEADER] ?? '')?.push({ place, record, fault })
      }
      this.#sandbox[place].clearRequests()
    }
  }
}

interface ServiceOptions {
  readonly sandbox: Sandbox
  readonly records: Records
  /** How often each trouble was made. */
  readonly troubles: Counts
  readonly random: Random
}

export class Service {
  readonly place: Place
  readonly environment: SandboxEnvironment
  readonly records: Records
  /** The client secret, or the function that yields it, for providers of this environment. */
  readonly clientSecret: string | (() => Promise<string>)
  /** The newest ones, to be searched for. */
  readonly secrets: string[]
  troubles: Trouble[] = []
  /** Whether calls meet faults of the APIs. */
  stormy = false
  readonly #apiFaults: readonly Fault[]
  readonly #random: Random
  readonly #counts: Counts
  #secret: string
  #secretFault: (() => Promise<string>) | undefined

  /** Only the test environment rotates its client secret. */
  constructor(place: Place, { sandbox, records, troubles, random }: ServiceOptions) {
    this.place = place
    this.environment = sandbox[place]
    this.records = records
    this.#random = random
    this.#counts = troubles
    this.#apiFaults = apiFaults(sandbox[place === 'test' ? 'production' : 'test'].environment.authUrl)
    this.#secret = this.environment.clientSecret
    this.secrets = [this.#secret]
    this.clientSecret =
      place === 'test' ? async () => (await this.#secretFault?.()) ?? this.#secret : this.#secret
    this.environment.configure({ ...CALM, lifetimeSeconds: 3 })
  }

  /** When no trouble explains a failure any more. */
  get recoveredAt(): number {
    return Math.max(0, ...this.troubles.map(tailEnd))
  }

  /** Orders a fault for one of the next requests, now and then. */
  mayFail(random: Random): void {
    if (!this.stormy || !random.chance(FAULT_SHARE)) return
    this.records.fail(this.place, random.pick(APIS), random.pick(this.#apiFaults))
  }

  /** Gets into one trouble after another, until `endsAt`. Then all is well again. */
  async run(endsAt: number): Promise<void> {
    const random = this.#random
    this.stormy = true
    while (Date.now() < endsAt) {
      this.environment.configure({ lifetimeSeconds: random.between(2, 3) })
      const mayLoseTokens = this.troubles.every((one) => one.kind !== 'token' || tailEnd(one) < Date.now())
      const long = random.chance(0.1) && endsAt - Date.now() > 30_000
      const trouble = mayLoseTokens && random.chance(0.7) ? this.#loseTokens() : this.#disturbApis()
      await pause(Math.min(long ? 6_000 : random.between(200, 1_500), endsAt - Date.now()))
      this.#calm()
      trouble.to = Date.now()
      await pause(Math.min(random.between(100, 600), endsAt - Date.now()))
    }
    this.stormy = false
    this.environment.clearFaults()
  }

  #loseTokens(): Trouble {
    const random = this.#random
    const ofSecret = this.place === 'test' ? 3 : 0
    const name = random.weighted({
      outage: 3,
      faults: 5,
      latency: 2,
      ...{ rotation: ofSecret, secret: ofSecret },
    })
    if (name === 'outage') this.records.fail(this.place, 'token', random.pick(TOKEN_FAULTS), Infinity)
    else if (name === 'faults')
      for (let left = random.between(1, 8); left > 0; left -= 1)
        this.records.fail(this.place, 'token', random.pick(TOKEN_FAULTS))
    else if (name === 'latency')
      this.environment.configure({ tokenLatencyMs: random.pick([200, 600, 1_200]) })
    else if (name === 'rotation') {
      this.#secret = `rotated-${randomBytes(16).toString('hex')}`
      const known = this.secrets[0] ?? ''
      this.#secretFault = async () => known // the function yields the new one only when the trouble is over
      if (this.secrets.unshift(this.#secret) > 20) this.secrets.pop()
      this.environment.acceptSecrets(this.#secret)
    } else this.#secretFault = random.pick([fails, yieldsNothing, hangs])
    return this.#begin('token', name)
  }

  #disturbApis(): Trouble {
    const random = this.#random
    const name = random.pick(['revocation', 'rejection', 'latency'])
    if (name === 'revocation') this.environment.revoke()
    else if (name === 'rejection')
      this.environment.configure({ rejectAllTokens: random.pick([['merchant'], ['in-store'], APIS]) })
    else this.environment.configure({ apiLatencyMs: random.pick([200, 1_000]) })
    return this.#begin(name === 'latency' ? 'latency' : 'rejection', name)
  }

  #begin(kind: Trouble['kind'], name: string): Trouble {
    const trouble = { kind, name, from: Date.now(), to: Infinity }
    this.troubles = [...this.troubles.filter((one) => tailEnd(one) > Date.now() - KEPT_MS), trouble]
    this.#counts.add(name)
    return trouble
  }

  #calm(): void {
    this.environment.configure(CALM)
    this.environment.clearFaults('token')
    this.#secretFault = undefined
  }
}

const fails = async (): Promise<string> => {
  throw new Error('The vault is locked')
}
const yieldsNothing = async (): Promise<string> => ''
const hangs = (): Promise<string> => new Promise(() => {})

/** A sleep that the signal ends early, without an error. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  if (ms > 0) await sleep(ms, undefined, signal && { signal }).catch(() => {})
}
