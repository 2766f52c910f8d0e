/** The claims of a token that is a JWT, compared with the request. For information: this package does not use them. */
import { decodeJwt } from 'jose/jwt/decode'
import type { AccessToken } from '../token/request/access-token.ts'
import { MAX_LIFETIME_MS } from '../token/request/token-response.ts'
import type { Finding } from './report.ts'
import { instantText } from './terminal.ts'

/** A smaller difference (s) is not reported. */
const TOLERANCE_S = 30

/** Where `expires_in` says more than `exp`. */
const TOO_LATE = ' If APIs reject it after exp, see docs/token-endpoint.md.'

/** What the claims are compared with, and what makes them fit to be shown. */
interface JwtContext {
  /** Undefined where none was requested. */
  readonly audience: string | undefined
  readonly lifetimeMs: number
  readonly show: (text: string) => string
}

/** What the claims `iss`, `aud`, `exp` and `nbf` (RFC 7519 §4.1) say. */
export function jwtFindings({ value }: AccessToken, { audience, lifetimeMs, show }: JwtContext): Finding[] {
  const findings: Finding[] = []
  const add = (text: string, advice?: string): void => {
    const result = advice === undefined ? 'info' : 'warning'
    findings.push({ step: 'jwt', result, text, advice })
  }
  let claims: ReturnType<typeof decodeJwt>
  try {
    claims = decodeJwt(value)
  } catch {
    add('the token is not a signed JWT (it is opaque or encrypted), so it has no claims to read')
    return findings
  }
  const { iss, aud, exp, nbf, iat } = claims // of any type
  add(iss === undefined ? 'iss is missing' : `iss ${show(textOf(iss))}`)

  const audiences = [aud].flat()
  const audText = `aud ${show(audiences.map(textOf).join(', '))}`
  if (aud === undefined || audiences.length === 0)
    add('aud is missing', 'APIs that check it reject the token.')
  else if (audience !== undefined && audiences.includes(audience)) add(`${audText}, as requested`)
  else if (audience === undefined) add(audText)
  else
    add(
      audText,
      `The requested audience is ${show(audience)}. If the APIs reject the token, this may be why.`,
    )

  if (typeof exp === 'number') {
    // Compared with `iat` only: the clock of this machine may differ from the service's.
    const lifetimeS = typeof iat === 'number' ? exp - iat : undefined
    const differenceS = lifetimeS === undefined ? 0 : Math.round(lifetimeS - lifetimeMs / 1000)
    const difference = `${Math.abs(differenceS)} s ${differenceS > 0 ? 'earlier' : 'later'}`
    const advice = `According to expires_in, which counts, the token expires ${difference}.${differenceS < 0 ? TOO_LATE : ''}`
    // A longer life than ten years counts as ten, which expires_in did not say.
    const isCapped = lifetimeMs >= MAX_LIFETIME_MS && differenceS > 0
    if (lifetimeS === undefined || isCapped) add(`exp ${instantText(exp)}`)
    else if (Math.abs(differenceS) <= TOLERANCE_S) add(`exp ${instantText(exp)}, as in expires_in`)
    else add(`exp ${instantText(exp)}`, advice)
  } else add('exp is missing, or is not a number')

  if (typeof nbf === 'number' && typeof iat === 'number' && nbf - iat >= 1) {
    const advice = `APIs may reject it for ${nbf - iat} s after it was issued (docs/token-endpoint.md).`
    add(`nbf ${instantText(nbf)}`, advice)
  }
  return findings
}

/** A claim as it is, which may have another type than it should. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? value : String(JSON.stringify(value))
}
