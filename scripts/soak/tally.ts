/** Judges every call as it ends, and counts. */
import { findLeaks } from '../../test/support/leaks.ts'
import type { EndedCall, Evidence } from './evidence.ts'
import type { Ledger } from './ledger.ts'
import { breachOf, explain } from './matching.ts'
import type { ObservedProvider, ProviderFigures } from './provider.ts'

/** A failure that comes later than this (ms) after the last trouble is not explained by any. */
export const RECOVERED_AFTER_MS = 5_000

const MOST_TOLD = 20
const MOST_SAMPLES = 120
const SAMPLE_EVERY = 20

interface Sample {
  readonly what: string
  readonly got: unknown
  readonly secrets: readonly string[]
}

export class Tally {
  calls = 0
  succeeded = 0
  /** Calls that ended later than `RECOVERED_AFTER_MS` after the last trouble. */
  observed = 0
  unexplained = 0
  breaches = 0
  slowestMs = 0
  /** Those that are explained, by why. */
  readonly explained: Map<string, number> = new Map()
  /** The unexplained ones, and breaches of the contract, in words. */
  readonly told: string[] = []
  readonly figures: ProviderFigures = {
    failedAttempts: 0,
    failedRequests: 0,
    renewedAhead: 0,
    renewedAfterRejection: 0,
    suppressed: 0,
    providers: 0,
    breaches: [],
    events: [],
  }
  readonly #ledger: Ledger
  #samples: Sample[] = []
  readonly #sampled = new Set<string>()

  constructor(ledger: Ledger) {
    this.#ledger = ledger
  }

  get failed(): number {
    return this.calls - this.succeeded
  }

  get explainedCount(): number {
    return this.failed - this.unexplained
  }

  ended(call: EndedCall, story: ObservedProvider, got: unknown, secrets: readonly string[]): void {
    const evidence = this.#ledger.end(call, story)
    this.calls += 1
    this.slowestMs = Math.max(this.slowestMs, call.endedAt - call.startedAt)
    const { lastTroubleAt } = this.#ledger
    const recovered = lastTroubleAt > 0 && call.endedAt > lastTroubleAt + RECOVERED_AFTER_MS
    if (recovered) this.observed += 1
    const breach = breachOf(call, evidence)
    if (breach !== undefined) {
      this.breaches += 1
      this.#tell(breach)
    }
    if (call.outcome.kind === 'ok') {
      this.succeeded += 1
      return
    }
    const explanation = recovered && !stoodStill(evidence, call) ? undefined : explain(call, evidence)
    if (explanation === undefined) {
      this.unexplained += 1
      this.#tell(inWords(call, evidence, got, recovered))
    } else {
      this.explained.set(explanation.why, (this.explained.get(explanation.why) ?? 0) + 1)
    }
    this.#sample(call, got, [...secrets, ...story.newestTokens()])
  }

  /** Of every twentieth failure, and of each kind at each client, what the caller got is kept. */
  #sample({ id, client, outcome }: EndedCall, got: unknown, secrets: readonly string[]): void {
    const what = `${client}, ${outcome.kind}`
    const first = !this.#sampled.has(what)
    if ((!first && this.failed % SAMPLE_EVERY !== 0) || this.#samples.length >= MOST_SAMPLES) return
    this.#sampled.add(what)
    this.#samples.push({ what: `${id} (${what})`, got, secrets })
  }

  /** Searches what was kept for secrets, and forgets it. */
  async searchSamples(): Promise<{ readonly searched: number; readonly leaks: readonly string[] }> {
    const samples = this.#samples
    this.#samples = []
    const all = [...new Set(samples.flatMap(({ secrets }) => secrets))]
    samples.push({ what: 'events', got: this.figures.events.splice(0), secrets: all })
    const leaks: string[] = []
    for (const { what, got, secrets } of samples) {
      leaks.push(...findLeaks(got, secrets).map((where) => `${what}: ${where}`))
      await new Promise((resolve) => setImmediate(resolve))
    }
    return { searched: samples.length, leaks }
  }

  #tell(told: string): void {
    if (this.told.length < MOST_TOLD) this.told.push(told)
  }
}

/** Whether this machine stood still during a call, or just before it. */
function stoodStill({ troubles }: Evidence, { startedAt }: EndedCall): boolean {
  return troubles.some(({ kind, to }) => kind === 'stall' && to > startedAt - RECOVERED_AFTER_MS)
}

/** All that is known of a call that nothing explains. */
function inWords(
  call: EndedCall,
  { requests, story, troubles }: Evidence,
  got: unknown,
  late: boolean,
): string {
  const after = (at: number): string => `${at - call.startedAt} ms`
  const near = (at: number): boolean => at > call.startedAt - 3_000 && at < call.endedAt + 100
  const lines = [
    `${call.id} (${call.client}, ${call.api} API, ${call.place}) ended after ${after(call.endedAt)}: ${JSON.stringify(call.outcome)}`,
    call.left && `  The caller left after ${after(call.left.at)}.`,
    late ? '  It came later than 5 s after the last trouble.' : undefined,
    call.outcome.kind === 'ok' ? undefined : `  ${String(got).split('\n')[0]}`,
    ...requests.map(
      ({ place, record }) =>
        `  request at ${after(record.at)}: ${record.method} ${place} ${record.path}, status ${record.status}, fault ${record.fault}, token ${record.jti}`,
    ),
    ...story.tries
      .filter(({ startedAt }) => near(startedAt))
      .map(
        ({ id, startedAt, endedAt, record }) =>
          `  token request ${id} from ${after(startedAt)} to ${after(endedAt)}: status ${record?.status}, fault ${record?.fault}`,
      ),
    ...story.failures
      .filter(({ at }) => near(at))
      .map(
        ({ at, code, status, cooldownMs }) =>
          `  failed at ${after(at)}: ${code} ${status}, cooldown ${cooldownMs} ms`,
      ),
    ...story.suppressed
      .filter(({ at }) => near(at))
      .map(({ at, api }) => `  suppressed at ${after(at)}: ${api}`),
    ...troubles
      .filter(({ to, place }) => (place ?? call.place) === call.place && near(Math.min(to, call.endedAt)))
      .map(
        ({ id, from, to, jti, apis, ms }) =>
          `  ${id} from ${after(from)} to ${after(to)} ${jti ?? apis ?? ms ?? ''}`,
      ),
  ]
  return lines.filter((line) => line !== undefined).join('\n')
}
