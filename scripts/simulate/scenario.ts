/** What happens to the fleet, and when. The same for all variants. */

/** Ways to keep tokens that are compared. */
export const VARIANTS = ['no store', 'store without lease', 'store with lease'] as const
/** The one that can go wrong by design: nothing keeps a process that stood still from writing late. */
export const UNGUARDED: Variant = 'store without lease'
export type Variant = (typeof VARIANTS)[number]

export interface SimulationOptions {
  readonly providers: number
  readonly hours: number
  /** Of a token, in whole seconds. */
  readonly lifetimeSeconds: number
  /** The mean time (s) between two calls of one process. */
  readonly callEverySeconds: number
  readonly seed: number
  /** Whether nothing goes wrong, and nothing is replaced. */
  readonly calm: boolean
}

export const DEFAULTS: SimulationOptions = {
  providers: 10_000,
  hours: 24,
  lifetimeSeconds: 3_600,
  callEverySeconds: 60,
  seed: 4,
  calm: false,
}

/** A fleet under steady load: what the lease is for. */
export const BUSY = { hours: 1, callEverySeconds: 1, calm: true }

/** Simulated time, in ms from the start. */
export interface Span {
  readonly from: number
  readonly until: number
}

/** How likely it is that something happens to a process while it gets a token for the fleet. */
export interface Accidents {
  /** It stands still for longer than the lease lasts. */
  readonly pause: number
  /** It is no more. */
  readonly crash: number
}

export interface Scenario {
  readonly providers: number
  readonly durationMs: number
  readonly lifetimeMs: number
  readonly callEveryMs: number
  readonly seed: number
  /** In each of them every process is replaced, one after the other. */
  readonly deploys: readonly Span[]
  /** Redis answers nothing for so long, at this time at the earliest, and has lost everything when it is back. */
  readonly outage: { readonly from: number; readonly ms: number } | undefined
  readonly accidents: Accidents
}

/** Parts of the run: 8, 13 and 18 o'clock of a day, half an hour each. */
const DEPLOYS_AT = [8 / 24, 13 / 24, 18 / 24]
const SPAN = 0.5 / 24
const OUTAGE_AT = 15.5 / 24
const ACCIDENTS = { pause: 0.25, crash: 0.1 }
const NO_ACCIDENTS = { pause: 0, crash: 0 }

export function scenarioOf({ calm, ...options }: SimulationOptions): Scenario {
  const durationMs = options.hours * 3_600_000
  const lifetimeMs = options.lifetimeSeconds * 1_000
  const spanMs = SPAN * durationMs
  return {
    providers: options.providers,
    durationMs,
    lifetimeMs,
    callEveryMs: options.callEverySeconds * 1_000,
    seed: options.seed,
    deploys: calm ? [] : DEPLOYS_AT.map((at) => ({ from: at * durationMs, until: at * durationMs + spanMs })),
    outage: calm ? undefined : { from: OUTAGE_AT * durationMs, ms: spanMs },
    accidents: calm ? NO_ACCIDENTS : ACCIDENTS,
  }
}

/** How old a token is when the first process renews it. */
export function renewalAgeMs(lifetimeMs: number): number {
  return lifetimeMs - Math.min(10_000, 0.05 * lifetimeMs) - Math.min(300_000, 0.2 * lifetimeMs)
}

export function isWithin({ from, until }: Span, at: number): boolean {
  return at >= from && at < until
}
