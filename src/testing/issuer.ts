/** The tokens of one environment: signed, judged to the millisecond, and revoked. */
import { randomUUID } from 'node:crypto'
import { decodeJwt, errors, type GenerateKeyPairResult, generateKeyPair, jwtVerify, SignJWT } from 'jose'

/** What the APIs make of a token. */
export interface Verdict {
  /** The token's name, where this environment has signed it. */
  readonly jti?: string
  /** What is wrong with it, for an `error_description` (RFC 6750 §3); undefined: nothing. */
  readonly problem?: string
}

interface IssuedToken {
  readonly value: string
  readonly expiresAt: number
  revoked: boolean
  /** Whether its signature and claims have been checked before: they cannot change. */
  verified: boolean
}

// Beyond so many, tokens that have expired are forgotten.
const MANY_TOKENS = 10_000

const ALGORITHM = 'ES256'

/** Issues and judges the tokens of one environment. */
export class Issuer {
  readonly #keys: GenerateKeyPairResult
  readonly #claims: { readonly issuer: string; readonly audience: string }
  /** By jti, oldest first. */
  readonly #issued = new Map<string, IssuedToken>()
  readonly #jtis = new Map<string, string>()

  constructor(keys: GenerateKeyPairResult, claims: { readonly issuer: string; readonly audience: string }) {
    this.#keys = keys
    this.#claims = claims
  }

  static createKeys(): Promise<GenerateKeyPairResult> {
    return generateKeyPair(ALGORITHM)
  }

  /** Signs a token that expires, to the millisecond, `lifetimeSeconds` from now. */
  async issue(client: string, scope: string, lifetimeSeconds: number): Promise<string> {
    const issuedAt = Date.now()
    const expiresAt = issuedAt + lifetimeSeconds * 1000
    const jti = randomUUID()
    const { issuer, audience } = this.#claims
    // A NumericDate may have a fraction (RFC 7519 §2).
    const claims = {
      scope,
      jti,
      iss: issuer,
      aud: audience,
      sub: client,
      iat: issuedAt / 1000,
      exp: expiresAt / 1000,
    }
    const value = await new SignJWT(claims)
      .setProtectedHeader({ alg: ALGORITHM, typ: 'JWT' })
      .sign(this.#keys.privateKey)
    this.#issued.set(jti, { value, expiresAt, revoked: false, verified: false })
    this.#jtis.set(value, jti)
    if (this.#issued.size > MANY_TOKENS) this.#forgetExpired()
    return value
  }

  jtiOf(value: string): string | undefined {
    return this.#jtis.get(value)
  }

  /** Revokes a token (its value or its jti), or all. Returns how many were valid until now. */
  revoke(token: string | undefined): number {
    const one = token === undefined ? undefined : this.#issued.get(this.#jtis.get(token) ?? token)
    const chosen = token === undefined ? [...this.#issued.values()] : one === undefined ? [] : [one]
    const now = Date.now()
    const valid = chosen.filter(({ revoked, expiresAt }) => !revoked && now < expiresAt)
    for (const issued of valid) issued.revoked = true
    return valid.length
  }

  /** Judges a token as it is at the moment of the call. */
  async judge(value: string): Promise<Verdict> {
    const now = Date.now()
    const jti = this.#jtis.get(value)
    const issued = jti === undefined ? undefined : this.#issued.get(jti)
    const revoked = issued?.revoked === true
    if (jti === undefined || issued === undefined) return this.#judgeUnknown(value)
    if (!issued.verified) {
      const { problem } = await this.#verify(value)
      if (problem !== undefined) return { jti, problem }
      issued.verified = true
    }
    if (revoked) return { jti, problem: 'The token was revoked' }
    if (now >= issued.expiresAt) return { jti, problem: 'The token has expired' }
    return { jti }
  }

  /** A token that is not on the list is foreign, forged, or expired so long ago that it was forgotten. */
  async #judgeUnknown(value: string): Promise<Verdict> {
    const { jti, problem = 'The token has expired' } = await this.#verify(value)
    return jti === undefined ? { problem } : { jti, problem }
  }

  /** Signature, issuer and audience; the expiry is not jose's to judge, which knows no fractions of a second. */
  async #verify(value: string): Promise<Verdict> {
    try {
      const options = { ...this.#claims, algorithms: [ALGORITHM], currentDate: new Date(0) }
      const { payload } = await jwtVerify(value, this.#keys.publicKey, options)
      return payload.jti === undefined ? {} : { jti: payload.jti }
    } catch (error) {
      return { problem: this.#problemOf(error, value) }
    }
  }

  #problemOf(error: unknown, value: string): string {
    if (error instanceof errors.JWSSignatureVerificationFailed) {
      return audienceOf(value) === this.#claims.audience
        ? 'The signature of the token is wrong'
        : 'The token is for another audience'
    }
    if (error instanceof errors.JWTClaimValidationFailed)
      return `The claim ${error.claim} of the token is wrong`
    return 'The token is malformed'
  }

  #forgetExpired(): void {
    const now = Date.now()
    for (const [jti, { value, expiresAt }] of this.#issued) {
      if (now < expiresAt) return
      this.#issued.delete(jti)
      this.#jtis.delete(value)
    }
  }
}

/** What an unverified token says of its audience. */
function audienceOf(value: string): unknown {
  try {
    return decodeJwt(value).aud
  } catch {
    return undefined
  }
}
