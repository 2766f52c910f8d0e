/** What a token says of itself, where it is a JWT, beside what was asked for. For information: nobody goes by it. */
import { decodeJwt } from 'jose/jwt/decode'
import type { Environment } from '../environments.ts'
import type { AccessToken } from '../token/access-token.ts'
import type { Finding } from './report.ts'
import { printable } from './terminal.ts'

type Claims = ReturnType<typeof decodeJwt>

/** `exp` and the machine's clock may be so far apart (s) before it is worth a word. */
const TOLERANCE_S = 30

/** What the claims `iss`, `aud`, `exp` and `iat` (RFC 7519 §4.1) say. `lifetimeMs` is what `expires_in` gave. */
export function jwtFindings(
  token: AccessToken,
  { environment, lifetimeMs }: { readonly environment: Environment; readonly lifetimeMs: number },
): Finding[] {
  const claims = claimsOf(token.value)
  if (claims === undefined) {
    return [{ step: 'jwt', result: 'info', text: 'the token is no JWT, so there is nothing to read in it' }]
  }
  return [issuer(claims), audience(claims, environment), expiry(claims, lifetimeMs), clock(claims)].flatMap(
    (finding) => (finding === undefined ? [] : { step: 'jwt', ...finding }),
  )
}

type Found = Pick<Finding, 'result' | 'text' | 'advice'> | undefined

function claimsOf(token: string): Claims | undefined {
  try {
    return decodeJwt(token)
  } catch {
    return undefined
  }
}

/** A claim as it is: foreign, and perhaps of another type than it should be. */
function shownClaim(value: unknown): string {
  return printable(typeof value === 'string' ? value : String(JSON.stringify(value)))
}

function issuer({ iss }: Claims): Found {
  return { result: 'info', text: iss === undefined ? 'iss is missing' : `iss ${shownClaim(iss)}` }
}

function audience({ aud }: Claims, environment: Environment): Found {
  if (aud === undefined) return { result: 'info', text: 'aud is missing' }
  const text = `aud ${Array.isArray(aud) ? printable(aud.map(shownClaim).join(', ')) : shownClaim(aud)}`
  if ([aud].flat().includes(environment.audience)) return { result: 'info', text: `${text}, as asked for` }
  const advice = `Asked for was ${environment.audience}. If the APIs refuse the token, this may be why.`
  return { result: 'warning', text, advice }
}

/** Compared with `iat` where that is there, so that a clock that is wrong is not blamed on the lifetime. */
function expiry({ exp, iat }: Claims, lifetimeMs: number): Found {
  if (typeof exp !== 'number') {
    return {
      result: 'info',
      text: exp === undefined ? 'exp is missing' : `exp ${printable(JSON.stringify(exp))} is no number`,
    }
  }
  const beginS = typeof iat === 'number' ? iat : Date.now() / 1000
  const differenceS = Math.round(exp - beginS - lifetimeMs / 1000)
  const text = `exp ${dateText(exp)}`
  if (Math.abs(differenceS) <= TOLERANCE_S) return { result: 'info', text: `${text}, as expires_in has it` }
  const advice = `By expires_in, which counts, it ends ${Math.abs(differenceS)} s ${differenceS > 0 ? 'earlier' : 'later'}.`
  return { result: 'warning', text, advice }
}

function clock({ iat }: Claims): Found {
  if (typeof iat !== 'number') return undefined
  const aheadS = Math.round(Date.now() / 1000 - iat)
  if (Math.abs(aheadS) <= TOLERANCE_S) return undefined
  return {
    result: 'warning',
    text: `iat ${dateText(iat)}: this machine's clock is ${Math.abs(aheadS)} s ${aheadS > 0 ? 'ahead' : 'behind'}`,
    advice: "Check the machine's clock (NTP). A token that was issued some time ago looks like that, too.",
  }
}

function dateText(seconds: number): string {
  const date = new Date(seconds * 1000)
  return Number.isNaN(date.getTime()) ? String(seconds) : date.toISOString()
}
