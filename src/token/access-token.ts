/** A token response becomes a token: what is accepted, what is not, and a token that does not print its value. */
import * as z from 'zod/mini'
import type { ResponseIssue } from '../errors.ts'

/** An access token. Its value is readable, but appears in no print and no JSON of it. */
export interface AccessToken {
  /** What goes into the header: one or more of the characters of a bearer token (RFC 6750 §2.1). */
  readonly value: string
  /** What kind of token it is (RFC 6750); no other kind is accepted. */
  readonly tokenType: 'Bearer'
  /** The scopes that the service granted, separated by spaces; undefined where it did not say. */
  readonly scope?: string | undefined
  /**
   * When it expires, in ms since the epoch: `expires_in` after the moment its request was sent. For people and logs; a
   * provider judges by a second clock, too, and hands it out until `expiryMarginMs` before that.
   */
  readonly expiresAt: number
}

class HiddenAccessToken implements AccessToken {
  readonly #value: string
  readonly tokenType = 'Bearer'
  declare readonly scope?: string
  readonly expiresAt: number

  constructor(value: string, expiresAt: number, scope: string | undefined) {
    this.#value = value
    if (scope !== undefined) this.scope = scope
    this.expiresAt = expiresAt
    Object.freeze(this)
  }

  get value(): string {
    return this.#value
  }
}
hideGetters(HiddenAccessToken)

/**
 * Keeps what the getters of a class yield out of every print of its instances. `inspect` with `showHidden` and `getters`
 * calls the getters of prototypes, up to the first whose constructor is one of JavaScript's own.
 */
export function hideGetters({ prototype }: { readonly prototype: object }): void {
  Object.defineProperty(prototype, 'constructor', { value: Object })
}

/** Makes a token whose value is hidden from prints. */
export function createAccessToken(value: string, expiresAt: number, scope?: string): AccessToken {
  return new HiddenAccessToken(value, expiresAt, scope)
}

/** What a token response says, in this package's words. */
export interface TokenGrant {
  readonly value: string
  readonly scope: string | undefined
  /** At most ten years. */
  readonly lifetimeMs: number
}

const TEN_YEARS_MS = 10 * 365 * 24 * 60 * 60 * 1000

/** RFC 6750 §2.1: the characters that a bearer token may have. */
const B64TOKEN = /^[A-Za-z0-9\-._~+/]+=*$/

const TOKEN = 'must be a non-empty string of the characters of a bearer token (RFC 6750 §2.1)'
const EXPIRES = 'must be a positive whole number of seconds'

const tokenResponse = z.object(
  {
    access_token: z.string(TOKEN).check(z.regex(B64TOKEN, TOKEN)),
    expires_in: z.custom<number | string>(isPositiveSeconds, EXPIRES),
    token_type: z.string('must be Bearer').check(z.regex(/^bearer$/i, 'must be Bearer')),
    scope: z.optional(z.unknown()),
  },
  'must be a JSON object',
)

/** A positive integer or its decimal string. Nothing is coerced: true, "" and [5] are what they are. */
function isPositiveSeconds(value: unknown): boolean {
  if (typeof value === 'string') return /^\d+$/.test(value) && Number(value) > 0
  return Number.isInteger(value) && Number(value) > 0
}

/** Reads the text of a token response (RFC 6749 §5.1): the grant in it, or what is wrong with it. */
export function readTokenResponse(text: string): TokenGrant | ResponseIssue[] {
  const parsed = z.safeParse(tokenResponse, parseJson(text))
  if (!parsed.success) {
    return parsed.error.issues.map(({ path, message }) => ({
      field: String(path[0] ?? 'body'),
      reason: message,
    }))
  }
  const { access_token, expires_in, scope } = parsed.data
  return {
    value: access_token,
    scope: typeof scope === 'string' ? scope : undefined,
    lifetimeMs: Math.min(Number(expires_in) * 1000, TEN_YEARS_MS),
  }
}

/** JSON.parse, without its error messages: they echo the input, and so perhaps a token. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
