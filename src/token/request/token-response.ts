/** The response of the token endpoint: bounded in size, validated, and redacted where it is shown. */
import * as z from 'zod/mini'
import type { OAuthError } from '../../advice/refusals.ts'
import { NO_LIFETIME } from '../../advice/responses.ts'
import { nodeUtil } from '../../base/builtin-modules.ts'
import { HOUR_MS, type Instant } from '../../base/clock.ts'
import type { ResponseIssue } from '../../base/errors.ts'
import type { Quota } from '../../base/quota.ts'
import { printable, redact, type UsedSecrets } from '../../base/redact.ts'
import { parseUrl } from '../../base/urls.ts'

/** A token as the token endpoint or the store returned it. */
export interface TokenResponse {
  readonly value: string
  readonly scope: string | undefined
  /** At most ten years. */
  readonly lifetimeMs: number
  /** When its request was sent: the lifetime counts from there. */
  readonly sentAt: Instant
  /** What the response said about quotas. */
  readonly quotas: readonly Quota[]
}

export const MAX_ANSWER_BYTES: number = 64 * 1024
/** Ten years: a later date may not exist. */
export const MAX_LIFETIME_MS: number = 10 * 365 * 24 * HOUR_MS

/** RFC 6749, appendix A.12, without the space: RFC 6750 §2.1 allows fewer, but Salesforce issues `!`, and Laravel `|`. */
const VISIBLE = /^[\x21-\x7e]+$/

const BEARER = /^bearer$/i

const TOKEN = 'must be a non-empty string of visible ASCII characters'
const EXPIRES = 'must be a positive whole number of seconds'

const expiresIn = z.custom<number | string>(isSeconds, {
  error: ({ input }) => (input == null ? NO_LIFETIME : EXPIRES),
})
const FIELDS = {
  access_token: z.custom<string>((value) => typeof value === 'string' && VISIBLE.test(value), TOKEN),
  expires_in: expiresIn,
  token_type: z.optional(
    z.custom<string>((value) => typeof value === 'string' && BEARER.test(value), 'must be Bearer'),
  ),
  scope: z.optional(z.custom<unknown>()),
}
const OBJECT = 'must be a JSON object'
const tokenResponse = z.object(FIELDS, OBJECT)
/** Of an endpoint that need not say how long its tokens live. */
const tokenResponseWithoutLifetime = z.object(
  { ...FIELDS, expires_in: z.optional(z.nullable(expiresIn)) },
  OBJECT,
)

/**
 * A whole number or its decimal string. Nothing is coerced: true, "" and [5] are rejected. 0 is what endpoints return that
 * issue one token until it ends, in its last second.
 */
function isSeconds(value: unknown): boolean {
  if (typeof value === 'string') return /^\d+$/.test(value)
  return Number.isInteger(value) && Number(value) >= 0
}

/** What is in a response with a success status: a token, an error as in a response with another status, or neither. */
export type ReadResponse =
  | { readonly kind: 'token'; readonly token: Omit<TokenResponse, 'quotas'> }
  | { readonly kind: 'error'; readonly oauth: OAuthError }
  | { readonly kind: 'invalid'; readonly issues: readonly ResponseIssue[] }

/** What is known besides a token response. */
interface ResponseContext {
  readonly sentAt: Instant
  readonly secrets: UsedSecrets
  readonly lifetimeIfMissingMs: number | undefined
}

/** Reads a token response (RFC 6749 §5.1). */
export async function readTokenResponse(
  response: Response,
  { sentAt, secrets, lifetimeIfMissingMs }: ResponseContext,
): Promise<ReadResponse> {
  const text = await readText(response)
  if (text === undefined) {
    const reason = `must not be longer than ${MAX_ANSWER_BYTES} bytes`
    return { kind: 'invalid', issues: [{ field: 'body', reason }] }
  }
  // Some proxies do this: it counts as incomplete.
  if (text === '') throw new Error(`The body is empty, with status ${response.status}`)
  const body = parseJson(text)
  const value = fieldOf(body, 'access_token')
  if (typeof value === 'string') secrets.add(value) // even if the response is invalid
  const parsed = z.safeParse(
    lifetimeIfMissingMs === undefined ? tokenResponse : tokenResponseWithoutLifetime,
    body,
  )
  if (!parsed.success) {
    const oauth = oauthErrorIn(text, response, secrets)
    if (oauth.error !== undefined) return { kind: 'error', oauth }
    const { issues } = parsed.error
    return {
      kind: 'invalid',
      issues: issues.map(({ path, message }) => ({ field: String(path[0] ?? 'body'), reason: message })),
    }
  }
  const { access_token, expires_in, scope } = parsed.data
  const lifetimeMs = expires_in == null ? (lifetimeIfMissingMs ?? 0) : Number(expires_in) * 1000
  const token = {
    value: access_token,
    scope: typeof scope === 'string' ? scope : undefined,
    lifetimeMs: Math.min(lifetimeMs, MAX_LIFETIME_MS),
    sentAt,
  }
  return { kind: 'token', token }
}

/** The body's text; undefined if it is longer than 64 KiB after decompression, which ends the reading. */
async function readText(response: Response): Promise<string | undefined> {
  const { TextDecoder } = nodeUtil()
  const decoder = new TextDecoder()
  let text = ''
  let bytes = 0
  const body: unknown = response.body ?? []
  // node-fetch 2, and mocks that use it (jest-fetch-mock 3), have the bytes themselves there.
  const chunks = (ArrayBuffer.isView(body) ? [body] : body) as AsyncIterable<Uint8Array>
  for await (const chunk of chunks) {
    bytes += chunk.byteLength
    if (bytes > MAX_ANSWER_BYTES) return undefined
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}

/** JSON.parse, without its error messages: they echo the input, and so perhaps a token. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // Not JSON.
  }
  return undefined
}

function fieldOf(body: unknown, name: string): unknown {
  return (body as Readonly<Record<string, unknown>> | null | undefined)?.[name]
}

/** Reads an error body. */
export async function readOAuthError(response: Response, secrets: Iterable<string>): Promise<OAuthError> {
  return oauthErrorIn(String((await readText(response)) ?? ''), response, secrets)
}

function oauthErrorIn(text: string, { status }: Response, secrets: Iterable<string>): OAuthError {
  const body = parseJson(text)
  const textOf = (name: string, length: number): string | undefined => {
    const value = fieldOf(body, name)
    return typeof value === 'string' && value !== '' ? printable(value, { length, secrets }) : undefined
  }
  const error = textOf('error', 100)
  const errorDescription = textOf('error_description', 300)
  // league/oauth2-server and Ory Hydra have one description for many causes, and the cause here.
  const hint = textOf('hint', 200) ?? textOf('error_hint', 300)
  if (errorDescription !== undefined) {
    const isNew = hint !== undefined && !errorDescription.includes(hint)
    return { error, errorDescription, ...(isNew && { detail: hint }) }
  }
  const words = body === undefined ? [textIn(text)] : reasonsIn(body)
  const others = words.filter(
    (word) => word !== '' && word !== String(status) && word !== fieldOf(body, 'error'),
  )
  const detail = printable([...new Set(others)].join(': '), { secrets })
  return { error, ...(detail !== '' && { detail }) }
}

/**
 * The fields in which services say why, as in `REASON`: RFC 9457 (`title`, `detail`), and what identity providers and
 * gateways return (`errorCode`, `errorSummary`, `developerMessage`, `fault.faultstring`, `errors[0].message` …). A list below any
 * other name is what validation says of that field: `{ client_id: ['This field is required.'] }`.
 */
const REASON =
  /^(?:(?:error|fault|http|status|developer|user)?[_-]?(?:code|title|summary|string|message|msg|text|reason|description|details?)|errors?|_embedded|fault|generalErrors|moreInformation|response)$/i
const MAX_REASONS = 5
const MAX_DEPTH = 4

function reasonsIn(value: unknown, depth = 0): string[] {
  if (typeof value === 'string') return [value.trim()]
  if (typeof value === 'number') return [String(value)]
  if (value === null || depth === MAX_DEPTH) return []
  return Object.entries(value as object)
    .flatMap(([name, field]) => {
      if (Array.isArray(value) || REASON.test(name)) return reasonsIn(field, depth + 1)
      // Texts alone: a date may be a list of numbers. A list of tokens is no reason.
      const isSaid = Array.isArray(field) && typeof field[0] === 'string' && !/token/i.test(name)
      return isSaid ? [name, ...reasonsIn(field, depth + 1)] : []
    })
    .slice(0, MAX_REASONS)
}

/** Plain text as it is; of a page or of XML the first title, message or paragraph that says more than that it is an error. */
function textIn(text: string): string {
  if (!text.trimStart().startsWith('<')) return text.trim()
  const parts = text.matchAll(
    /<(?:\w+:)?(?:title|h1|message|faultstring|(?:error_)?description|pre|p)\b[^<>]*>([^<]+)/gi,
  )
  const texts = [...parts].map(([, part = '']) => part.trim())
  const isTitle = (part: string): boolean => /^(?:.* - )?error(?: report| response)?$/i.test(part)
  return (
    texts.find((part) => part !== '' && !isTitle(part)) ?? texts.find((part) => part.includes(' - ')) ?? ''
  )
}

/**
 * Retry-After (RFC 9110 §10.2.3) in ms from now: a number of seconds, or a date, which is measured against the date of the
 * response, because the two clocks may differ. Undefined for anything else.
 */
export function readRetryAfter({ headers }: Response, epochMs: number): number | undefined {
  const value = String(headers.get('retry-after'))
  if (/^\d+$/.test(value)) return Math.min(Number(value) * 1000, Number.MAX_SAFE_INTEGER)
  const date = readDate(value)
  if (date === undefined) return undefined
  return Math.max(0, date - (readDate(String(headers.get('date'))) ?? epochMs))
}

/** One of the three date formats of RFC 9110 §5.6.7, in epoch ms. One of them has no zone; all of them are in UTC. */
function readDate(value: string): number | undefined {
  const utc = value.endsWith('GMT') ? value : `${value} GMT`
  const date = /^[A-Z][a-z]{2,8},? /.test(value) ? Date.parse(utc) : Number.NaN
  return Number.isNaN(date) ? undefined : date
}

/** Whether a response is a redirect, or came after one was followed. */
export function isRedirect({ redirected, type, status }: Response): boolean {
  return redirected || type === 'opaqueredirect' || (status >= 300 && status < 400)
}

/** The redacted origin that a redirect leads to; '' if unknown. */
export function redirectTarget(response: Response, secrets: Iterable<string>): string {
  const location = response.headers.get('location')
  const base = response.url || undefined
  const target = location === null ? undefined : parseUrl(location, base)
  return target === undefined ? '' : redact(target.origin, secrets).slice(0, 100)
}
