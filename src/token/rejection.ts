/** What a 401 of an API means, by what is known of tokens and limits. Nothing here waits, emits, counts or requests. */
import type { KnownTokens } from './known-tokens.ts'
import type { Hold, RequestLimits } from './limits/request-limits.ts'
import type { AccessToken } from './request/access-token.ts'

/** A call whose token an API rejected. */
export interface Rejected {
  /** The base URL of the API; undefined if the caller named no URL. */
  readonly api: string | undefined
  /** The values of the tokens that it was rejected with, the last one last. */
  readonly rejected: readonly string[]
  /** Somebody renews by hand, and reports nothing of the call that follows. */
  readonly isByHand: boolean
}

/** What the limits are asked for a rejected call. */
export function purposeOf({ isByHand }: Rejected): 'by-hand' | 'rejected' {
  return isByHand ? 'by-hand' : 'rejected'
}

/** Why a 401 does not renew the token. */
export interface Suppression {
  /** `accepted`: the API accepts calls with this token, so the 401 is taken for one about its call. */
  readonly reason: Hold['reason'] | 'accepted'
  /** When (monotonic ms) another 401 may renew the token, if that is known. */
  readonly until?: number
  /** Whether a limit forbids a request, which another process may have made. */
  readonly isHeld: boolean
}

/**
 * A token that costs nothing, for a call that was rejected with another one: the current one, a newer one that waits to be tried
 * again, or the one before, if this API has accepted no call with the current one. A newer one waits because it was rejected,
 * and only a call that is repeated shows whether it is accepted now.
 */
export function freeTokenFor(
  {
    api,
    rejected,
    canRepeat,
  }: { readonly api: string | undefined; readonly rejected: string; readonly canRepeat: boolean },
  { before, newer, servable }: KnownTokens,
  limits: RequestLimits,
): AccessToken | undefined {
  const isKnown = servable !== undefined && limits.hasAccepted(api, servable.value)
  const known = [servable, canRepeat ? newer?.token : undefined, isKnown ? undefined : before?.token]
  return known.find((token) => token !== undefined && token.value !== rejected)
}

/** Why a call that was rejected with the current token does not renew it; undefined if it does. */
export function reasonNotToRenew(
  call: Rejected,
  { servable }: KnownTokens,
  limits: RequestLimits,
): Suppression | undefined {
  const { api, isByHand } = call
  // Where nobody reports which calls the API accepts, each 401 counts as one about the token.
  const isSuspect = isByHand || limits.isSuspect(api)
  const hold = limits.holdOn({ purpose: purposeOf(call), api })
  if (isSuspect) {
    if (hold === undefined) return undefined
    if (hold.reason !== 'limited') return { ...hold, isHeld: true }
  }
  const isHeld = isSuspect
  if (servable !== undefined && limits.hasAccepted(api, servable.value)) return { reason: 'accepted', isHeld }
  return { reason: 'limited', isHeld, ...(hold?.reason === 'limited' && { until: hold.until }) }
}

/** What a response to a call with a token says. */
export interface Answer {
  readonly token: AccessToken
  readonly status: number
  /** Whether the status is one of those that reject a token. */
  readonly isRejection: boolean
  /** The token that the call was rejected with before. */
  readonly rejected?: AccessToken | undefined
}

/** Whether the API accepted the call, and so its token. 304 is the 200 of a conditional request, 101 an upgrade. */
export function isAccepted({ status }: Answer): boolean {
  return (status >= 200 && status < 300) || status === 304 || status === 101
}

/**
 * Whether a repeated call shows that a newer token helped: it was not rejected again. While the newest one waits, because an API
 * does not know it yet, nothing does.
 */
export function hasHelped({ token, status, isRejection, rejected }: Answer, tokens: KnownTokens): boolean {
  if (rejected === undefined || isRejection || status >= 500) return false // a 5xx says nothing about the token
  return tokens.isNewer(token, rejected) && tokens.newer === undefined
}
