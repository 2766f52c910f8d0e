/** What goes wrong in one environment, and when: storms of faults and troubles, with calm between them. */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Crew } from './crew.ts'
import type { Api, Place, Trouble } from './evidence.ts'
import { apiFault, outageFault, type RedirectTargets, tokenFault } from './faults.ts'
import type { Ledger } from './ledger.ts'
import type { Random } from './random.ts'
import type { VaultTrouble } from './vault.ts'

const APIS: readonly Api[] = ['merchant', 'in-store']

/** The ordinary pace of the service. */
const CALM = { tokenLatencyMs: 20, apiLatencyMs: (): number => Math.random() * 30 }

/** So long before the end there are no more outages: the cooldown after one may take 30 s. */
const NO_OUTAGE_MS = 60_000

const VAULT_TROUBLES: readonly VaultTrouble[] = ['throws', 'empty', 'hangs']

interface Ending {
  readonly at: number
  /** Whether it is the token endpoint's trouble, from which a provider may need a rest. */
  readonly ofTokens: boolean
  end(): void
}

export class Mischief {
  readonly #place: Place
  readonly #random: Random
  readonly #ledger: Ledger
  readonly #crews: readonly Crew[]
  readonly #targets: RedirectTargets
  readonly #endings = new Set<Ending>()
  #outage = false
  #slow = false
  #refusing = false

  constructor(
    place: Place,
    { random, ledger, crews }: { random: Random; ledger: Ledger; crews: readonly Crew[] },
  ) {
    this.#place = place
    this.#random = random
    this.#ledger = ledger
    this.#crews = crews
    const other = ledger.at(place === 'test' ? 'production' : 'test')
    this.#targets = {
      nowhere: '/elsewhere',
      elsewhere: `${other.merchantUrl}/by-redirect`,
      same: '/in-store/by-redirect',
    }
    ledger.at(place).configure({ ...CALM, lifetimeSeconds: 3 })
  }

  /** Makes mischief until `endsAt`, or until the signal; afterwards everything is well again. */
  async run(endsAt: number, signal: AbortSignal): Promise<void> {
    const random = this.#random
    const left = (): number => (signal.aborted ? 0 : endsAt - Date.now())
    while (left() > 0) {
      this.#ledger.at(this.#place).configure({ lifetimeSeconds: random.between(2, 3) })
      const stormEndsAt = Date.now() + random.between(2_000, 4_000)
      while (left() > 0 && Date.now() < stormEndsAt) {
        this.#strike(endsAt)
        await pause(Math.min(random.between(20, 80), left()), signal)
        this.#endDue()
      }
      this.#calm()
      await pause(Math.min(random.between(800, 2_000), left()), signal)
      this.#endDue()
    }
    this.#outage = false
    this.#calm()
  }

  /** Leaves the token endpoint alone once a provider has failed twice in a row, so that no cooldown grows beyond 4 s. */
  onFailure(inARow: number): void {
    if (inARow >= 2 && !this.#outage) this.#restTokens()
  }

  #strike(endsAt: number): void {
    const random = this.#random
    const mayBreakDown = !this.#outage && endsAt - Date.now() > NO_OUTAGE_MS
    const what = random.weighted({
      api: 70,
      revoke: 4,
      refuse: 2,
      slowApi: 1,
      tokens: 10,
      breakDown: mayBreakDown ? 0.2 : 0,
    })
    switch (what) {
      case 'api':
        this.#ledger.fail(this.#place, random.pick(APIS), apiFault(random, this.#targets))
        break
      case 'revoke':
        this.#revoke()
        break
      case 'refuse':
        this.#refuse()
        break
      case 'slowApi':
        this.#slowDown({ apiLatencyMs: random.pick([200, 1_000]) })
        break
      case 'breakDown':
        this.#breakDown()
        break
      case 'tokens':
        if (!this.#outage && this.#crews.every(({ inARow }) => inARow < 2)) this.#strikeTokens()
    }
  }

  #strikeTokens(): void {
    const random = this.#random
    const { vault } = this.#crews[0] as Crew
    switch (random.weighted({ one: 6, many: 2, slow: 1, rotate: 2, vault: 2 })) {
      case 'one':
        this.#failTokens(1)
        break
      case 'many':
        this.#failTokens(random.between(3, 8))
        this.#until(1_000, true, () => this.#ledger.at(this.#place).clearFaults('token'))
        break
      case 'slow':
        this.#slowDown({ tokenLatencyMs: random.pick([200, 600, 1_200]) })
        break
      case 'rotate':
        if (!vault.mayRotate) break
        this.#until(random.pick([0, 300, 800]), true, vault.rotate(newSecret()))
        break
      case 'vault':
        if (!vault.mayFail) break
        this.#until(random.between(100, 900), true, vault.fail(random.pick(VAULT_TROUBLES)))
    }
  }

  #failTokens(times: number): void {
    for (let ordered = 0; ordered < times; ordered += 1) {
      this.#ledger.fail(this.#place, 'token', tokenFault(this.#random))
    }
  }

  #breakDown(): void {
    this.#outage = true
    this.#ledger.fail(this.#place, 'token', outageFault(this.#random), Number.POSITIVE_INFINITY)
    this.#until(this.#random.between(4_000, 9_000), false, () => {
      this.#outage = false
      this.#ledger.at(this.#place).clearFaults('token')
    })
  }

  #revoke(): void {
    const environment = this.#ledger.at(this.#place)
    if (this.#random.chance(0.3)) {
      environment.revoke()
      this.#ledger.trouble('revocation', { place: this.#place })
      return
    }
    const jti = this.#random.pick(this.#crews).newestJti()
    if (jti !== undefined && environment.revoke(jti) > 0) {
      this.#ledger.trouble('revocation', { place: this.#place, jti })
    }
  }

  #refuse(): void {
    if (this.#refusing) return
    this.#refusing = true
    const environment = this.#ledger.at(this.#place)
    const apis = this.#random.pick<readonly Api[]>([['merchant'], ['in-store'], APIS])
    environment.configure({ rejectAllTokens: apis })
    const trouble = this.#spell('refusal', { apis })
    this.#until(this.#random.between(50, 600), false, () => {
      this.#refusing = false
      environment.configure({ rejectAllTokens: false })
      this.#ledger.over(trouble)
    })
  }

  #slowDown(latency: { readonly tokenLatencyMs: number } | { readonly apiLatencyMs: number }): void {
    if (this.#slow) return
    this.#slow = true
    const environment = this.#ledger.at(this.#place)
    environment.configure(latency)
    const trouble = this.#spell('latency', latency)
    this.#until(this.#random.between(300, 1_200), 'tokenLatencyMs' in latency, () => {
      this.#slow = false
      environment.configure(CALM)
      this.#ledger.over(trouble)
    })
  }

  #spell(kind: Trouble['kind'], details: Partial<Trouble>): Trouble {
    return this.#ledger.trouble(kind, { place: this.#place, to: Number.POSITIVE_INFINITY, ...details })
  }

  #until(ms: number, ofTokens: boolean, end: () => void): void {
    this.#endings.add({ at: Date.now() + ms, ofTokens, end })
  }

  #endDue(which: (ending: Ending) => boolean = ({ at }) => at <= Date.now()): void {
    for (const ending of this.#endings) {
      if (!which(ending)) continue
      this.#endings.delete(ending)
      ending.end()
    }
  }

  #restTokens(): void {
    this.#endDue(({ ofTokens }) => ofTokens)
    this.#ledger.at(this.#place).clearFaults('token')
  }

  #calm(): void {
    if (this.#outage) {
      this.#ledger.at(this.#place).clearFaults('merchant')
      this.#ledger.at(this.#place).clearFaults('in-store')
      this.#endDue(({ ofTokens }) => ofTokens)
      return
    }
    this.#endDue(() => true)
    this.#ledger.at(this.#place).clearFaults()
  }
}

function newSecret(): string {
  return `rotated-${randomBytes(16).toString('hex')}`
}

/** A sleep that the signal ends early, without an error. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms <= 0) return
  await sleep(ms, undefined, { signal }).catch(() => {})
}
