/** The claims of a token that is a JWT, compared with the request. For information: this package does not use them. */
import { decodeJwt } from 'jose/jwt/decode'
import type { AccessToken } from '../token/access-token.ts'
import type { Finding } from './report.ts'
import { instantText } from './terminal.ts'

/** A smaller difference (s) between clocks is not reported. */
const TOLERANCE_S = 30

/** What the claims are compared with. */
export interface JwtContext {
  readonly audience: string
  /** From `expires_in`. */
  readonly lifetimeMs: number
  /** Makes foreign text fit to be shown. */
  readonly show: (text: string) => string
}

/** What the claims `iss`, `aud`, `exp` and `iat` (RFC 7519 §4.1) say. */
export function jwtFindings({ value }: AccessToken, { audience, lifetimeMs, show }: JwtContext): Finding[] {
  const findings: Finding[] = []
  const add = (text: string, advice?: string): void => {
    const result = advice === undefined ? 'info' : 'warning'
    findings.push({ step: 'jwt', result, text, advice })
  }
  const claims = claimsOf(value)
  if (claims === undefined) {
    add('the token is not a JWT, so it has no claims to read')
    return findings
  }
  const { iss, aud, exp, iat } = claims // of any type
  const nowS = Date.now() / 1000

  add(iss === undefined ? 'iss is missing' : `iss ${show(textOf(iss))}`)

  const audiences = [aud].flat()
  const audText = `aud ${show(audiences.map(textOf).join(', '))}`
  const other = `The requested audience is ${show(audience)}. If the APIs reject the token, this may be why.`
  if (aud === undefined) add('aud is missing')
  else if (audiences.includes(audience)) add(`${audText}, as requested`)
  else add(audText, other)

  if (exp === undefined) add('exp is missing')
  else if (typeof exp !== 'number') add(`exp ${show(JSON.stringify(exp))} is not a number`)
  else {
    // Relative to `iat`, where it is present, so that a wrong clock is not reported as a wrong lifetime.
    const lifetimeS = exp - (typeof iat === 'number' ? iat : nowS)
    const differenceS = Math.round(lifetimeS - lifetimeMs / 1000)
    const difference = `${Math.abs(differenceS)} s ${differenceS > 0 ? 'earlier' : 'later'}`
    if (Math.abs(differenceS) <= TOLERANCE_S) add(`exp ${instantText(exp)}, as in expires_in`)
    else
      add(
        `exp ${instantText(exp)}`,
        `According to expires_in, which counts, the token expires ${difference}.`,
      )
  }

  const aheadS = typeof iat === 'number' ? Math.round(nowS - iat) : 0
  if (typeof iat === 'number' && Math.abs(aheadS) > TOLERANCE_S) {
    const clock = `this machine's clock is ${Math.abs(aheadS)} s ${aheadS > 0 ? 'ahead' : 'behind'}`
    const advice = "Check this machine's clock (NTP). A token that was issued some time ago looks the same."
    add(`iat ${instantText(iat)}: ${clock}`, advice)
  }
  return findings
}

function claimsOf(token: string): ReturnType<typeof decodeJwt> | undefined {
  try {
    return decodeJwt(token)
  } catch {
    return undefined
  }
}

/** A claim as it is, which may have another type than it should. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? value : String(JSON.stringify(value))
}
