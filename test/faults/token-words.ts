/** The wording of the tables about the token endpoint: columns, outcomes, times, counts. */
import {
  type AccessToken,
  type AuthEvent,
  isMerchantAuthError,
  TokenRequestError,
  TokenResponseError,
} from 'merchant-auth'
import { afterEach, beforeEach, vi } from 'vitest'
import type { Rig } from '../token/harness.ts'
import { counted } from './cells.ts'

export const TABLE = 'token-endpoint'
export const COLD = 'cold'
export const WINDOW = 'inside the refresh window'
export const EXPIRED = 'expired'
export const RECOVERY = 'first success'

/** Fixes Math.random() at its maximum: the longest pauses and the shortest refresh window that jitter allows. */
export function useLongestJitter(): void {
  beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(1))
  afterEach(() => void vi.restoreAllMocks())
}

/** Describes what a caller got, in a few words. */
export function outcomeOf(got: unknown): string {
  if (got instanceof TokenResponseError)
    return `TokenResponseError, ${[...new Set(got.issues.map(({ field }) => field))].join(', ')}`
  if (!(got instanceof TokenRequestError)) return isMerchantAuthError(got) ? got.name : 'an unknown error'
  const { code, error, status } = got
  const parts = [status ?? code, error]
  return `TokenRequestError, ${parts.filter(Boolean).join(', ')}`
}

/** Describes a duration. */
export function inWords(ms: number): string {
  return ms >= 1_000 && ms % 100 === 0 ? `${ms / 1_000} s` : `${ms} ms`
}

/** Describes the lifetime of a token. */
export function lifetimeOf(ms: number): string {
  return ms > 1e11 ? `${Math.round(ms / (365.25 * 86_400_000))} years` : `${ms / 1_000} s`
}

/** Describes a number of token requests. */
export const requestsOf = (count: number): string => counted(count, 'request')

/** Brings a provider into the situation of a column, with tokens of 1 000 s. Resolves with the current token, if there is one. */
export async function bringTo(
  column: string,
  { provider, clock }: Pick<Rig, 'provider' | 'clock'>,
): Promise<AccessToken | undefined> {
  if (column === COLD) return undefined
  const token = await provider.getToken()
  // It is served for 990 s; with the longest jitter its refresh window opens at 840 s.
  await clock.advance(column === WINDOW ? 900_000 : 990_000)
  return token
}

/** Whether a token request has ended with this event. */
export function isOver(event: AuthEvent): boolean {
  return event.type === 'token-request-failed'
    ? event.nextTryMs === undefined
    : event.type === 'token-acquired'
}
