/** The response of the token endpoint: bounded in size, validated, and redacted where it is shown. */
import { TextDecoder } from 'node:util' // not a global in jsdom
import * as z from 'zod/mini'
import type { Instant } from '../clock.ts'
import type { ResponseIssue } from '../errors.ts'
import { type Quota, redactQuotas } from '../quota.ts'
import { printable, redact, type UsedSecrets } from '../redact.ts'
import { parseUrl } from '../urls.ts'
import { readQuotas } from './quota-headers.ts'

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

const MAX_ANSWER_BYTES = 64 * 1024
const TEN_YEARS_MS = 10 * 365 * 24 * 60 * 60 * 1000

/** RFC 6750 §2.1: the characters that a bearer token may have. */
const B64TOKEN = /^[A-Za-z0-9\-._~+/]+=*$/

const BEARER = /^bearer$/i

const TOKEN = 'must be a non-empty string of the characters of a bearer token (RFC 6750 §2.1)'
const EXPIRES = 'must be a positive whole number of seconds'

const tokenResponse = z.object(
  {
    access_token: z.custom<string>((value) => typeof value === 'string' && B64TOKEN.test(value), TOKEN),
    expires_in: z.custom<number | string>(isPositiveSeconds, EXPIRES),
    token_type: z.custom<string>(
      (value) => typeof value === 'string' && BEARER.test(value),
      'must be Bearer',
    ),
    scope: z.optional(z.custom<unknown>()),
  },
  'must be a JSON object',
)

/** A positive integer or its decimal string. Nothing is coerced: true, "" and [5] are rejected. */
function isPositiveSeconds(value: unknown): boolean {
  if (typeof value === 'string') return /^\d+$/.test(value) && Number(value) > 0
  return Number.isInteger(value) && Number(value) > 0
}

/** Reads a token response (RFC 6749 §5.1): the token in it, or what is wrong with it. */
export async function readTokenResponse(
  response: Response,
  sentAt: Instant,
  secrets: UsedSecrets,
): Promise<Omit<TokenResponse, 'quotas'> | ResponseIssue[]> {
  const text = await readText(response)
  if (text === undefined)
    return [{ field: 'body', reason: `must not be longer than ${MAX_ANSWER_BYTES} bytes` }]
  if (text === '') throw new Error('The body is empty') // some proxies do this: it counts as incomplete
  const body = parseJson(text)
  const token = fieldOf(body, 'access_token')
  if (typeof token === 'string') secrets.add(token) // even if the response is invalid
  const parsed = z.safeParse(tokenResponse, body)
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
    sentAt,
  }
}

/** The body's text; undefined if it is longer than 64 KiB after decompression, which ends the reading. */
async function readText(response: Response): Promise<string | undefined> {
  const decoder = new TextDecoder()
  let text = ''
  let bytes = 0
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
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

/** The redacted error of an OAuth response (RFC 6749 §5.2). */
export interface OAuthError {
  readonly error?: string | undefined
  readonly errorDescription?: string | undefined
}

/** Reads an error body; fields that do not conform to RFC 6749 are omitted. */
export async function readOAuthError(response: Response, secrets: Iterable<string>): Promise<OAuthError> {
  const body = parseJson(String(await readText(response)))
  const textOf = (name: string, length: number): string | undefined => {
    const value = fieldOf(body, name)
    return typeof value === 'string' && value !== '' ? printable(value, { length, secrets }) : undefined
  }
  return { error: textOf('error', 100), errorDescription: textOf('error_description', 300) }
}

/** Retry-After (RFC 9110 §10.2.3) in ms from now: a number of seconds or a date; undefined for anything else. */
export function readRetryAfter(response: Response, epochMs: number): number | undefined {
  const value = String(response.headers.get('retry-after'))
  if (/^\d+$/.test(value)) return Math.min(Number(value) * 1000, Number.MAX_SAFE_INTEGER)
  // One of the three date formats (RFC 9110 §5.6.7) has no zone; all of them are in UTC.
  const utc = value.endsWith('GMT') ? value : `${value} GMT`
  const date = /^[A-Z][a-z]{2,8},? /.test(value) ? Date.parse(utc) : Number.NaN
  return Number.isNaN(date) ? undefined : Math.max(0, date - epochMs)
}

/** The redacted quotas in the headers of a response. */
export function quotasIn({ headers }: Response, secrets: Iterable<string>): readonly Quota[] {
  return redactQuotas(readQuotas(headers), secrets)
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
