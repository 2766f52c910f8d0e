/** What a token says of itself, where it is a JWT, beside what was asked for. For information: nobody goes by it. */
import { decodeJwt } from 'jose/jwt/decode'
import type { Environment } from '../environments.ts'
import type { AccessToken } from '../token/access-token.ts'
import type { Finding } from './report.ts'

type Claims = ReturnType<typeof decodeJwt>

/** `exp` and the machine's clock may be so far apart (s) before it is worth a word. */
const TOLERANCE_S = 30

/** What a token's claims are compared with. */
export interface JwtContext {
  readonly environment: Environment
  /** What `expires_in` gave. */
  readonly lifetimeMs: number
  /** Makes foreign text fit to be shown. */
  readonly foreign: (text: string) => string
}

/** What the claims `iss`, `aud`, `exp` and `iat` (RFC 7519 §4.1) say. */
export function jwtFindings(token: AccessToken, context: JwtContext): Finding[] {
  const claims = claimsOf(token.value)
  if (claims === undefined) {
    return [{ step: 'jwt', result: 'info', text: 'the token is no JWT, so there is nothing to read in it' }]
  }
  return [
    issuer(claims, context.foreign),
    audience(claims, context),
    expiry(claims, context),
    clock(claims),
  ].flatMap((finding) => (finding === undefined ? [] : { step: 'jwt', ...finding }))
}

type Found = Pick<Finding, 'result' | 'text' | 'advice'> | undefined

function claimsOf(token: string): Claims | undefined {
  try {
    return decodeJwt(token)
  } catch {
    return undefined
  }
}

/** A claim as it is: perhaps of another type than it should be. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? value : String(JSON.stringify(value))
}

function issuer({ iss }: Claims, foreign: JwtContext['foreign']): Found {
  return { result: 'info', text: iss === undefined ? 'iss is missing' : `iss ${foreign(textOf(iss))}` }
}

function audience({ aud }: Claims, { environment, foreign }: JwtContext): Found {
  if (aud === undefined) return { result: 'info', text: 'aud is missing' }
  const text = `aud ${foreign(Array.isArray(aud) ? aud.map(textOf).join(', ') : textOf(aud))}`
  if ([aud].flat().includes(environment.audience)) return { result: 'info', text: `${text}, as asked for` }
  const advice = `Asked for was ${foreign(environment.audience)}. If the APIs refuse the token, this may be why.`
  return { result: 'warning', text, advice }
}

/** Compared with `iat` where that is there, so that a clock that is wrong is not blamed on the lifetime. */
function expiry({ exp, iat }: Claims, { lifetimeMs, foreign }: JwtContext): Found {
  if (typeof exp !== 'number') {
    return {
      result: 'info',
      text: exp === undefined ? 'exp is missing' : `exp ${foreign(JSON.stringify(exp))} is no number`,
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
