/** What the token endpoint answers, read with care: bounded, and without trust in what it says. */
import { HIDDEN, MAX_SEARCHED, redact } from '../redact.ts'
import { OAUTH_ERRORS } from '../vocabulary.ts'
import { parseJson } from './access-token.ts'

/** The most bytes of an answer that are read, after decompression. */
export const MAX_ANSWER_BYTES: number = 64 * 1024

/** The answer's text; undefined where it is longer than {@link MAX_ANSWER_BYTES}, which ends the reading. */
export async function readAnswerText(response: Response): Promise<string | undefined> {
  if (response.body === null) return ''
  const decoder = new TextDecoder()
  let text = ''
  let bytes = 0
  for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
    bytes += chunk.byteLength
    if (bytes > MAX_ANSWER_BYTES) return undefined
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}

/** The error of an OAuth answer (RFC 6749 §5.2), fit to be shown. */
export interface OAuthError {
  readonly error?: string | undefined
  readonly errorDescription?: string | undefined
}

/** Reads an error body; whatever is not as RFC 6749 has it is left out. */
export function readOAuthError(text: string | undefined, secrets: Iterable<string>): OAuthError {
  const body = text === undefined ? undefined : parseJson(text)
  if (typeof body !== 'object' || body === null) return {}
  const { error, error_description } = body as Partial<Record<string, unknown>>
  const isKnown = typeof error === 'string' && OAUTH_ERRORS.has(error)
  return {
    error: isKnown ? error : shown(error, 100, secrets),
    errorDescription: shown(error_description, 300, secrets),
  }
}

/** One line of printable characters, without secrets. Redacted before it is cut, so that no half of one remains. */
function shown(value: unknown, length: number, secrets: Iterable<string>): string | undefined {
  if (typeof value !== 'string' || value === '') return undefined
  const searched = value.slice(0, MAX_SEARCHED)
  const redacted = redact(searched, secrets)
  if (searched !== value && redacted !== searched) return HIDDEN // half a secret may stand at the end
  return redacted.replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ').slice(0, length)
}

/** Retry-After (RFC 9110 §10.2.3) in ms from now: a number of seconds or a date; undefined for anything else. */
export function readRetryAfter(response: Response, epochMs: number): number | undefined {
  const value = response.headers.get('retry-after')?.trim() ?? ''
  if (/^\d+$/.test(value)) return Math.min(Number(value) * 1000, Number.MAX_SAFE_INTEGER)
  // Of the three forms of a date (RFC 9110 §5.6.7) one does not say that it is in UTC, as all of them are.
  const utc = value.endsWith('GMT') ? value : `${value} GMT`
  const date = /^[A-Z][a-z]{2,8},? /.test(value) ? Date.parse(utc) : Number.NaN
  return Number.isNaN(date) ? undefined : Math.max(0, date - epochMs)
}

/** The origin that a redirect leads to, fit to be shown; '' where it is not known. */
export function redirectTarget(response: Response, secrets: Iterable<string>): string {
  const location = response.headers.get('location')
  const base = response.url === '' ? undefined : response.url
  if (location === null || location.length > MAX_SEARCHED || !URL.canParse(location, base)) return ''
  return shown(new URL(location, base).origin, 100, secrets) ?? ''
}

/** What a server may say that finds no field in a body that it does not understand. */
const FORMAT_ERRORS: ReadonlySet<string | undefined> = new Set([
  undefined,
  'invalid_request',
  'unsupported_grant_type',
])

/** What to do about an error status. */
export function adviceFor(status: number, { error }: OAuthError, bodyFormat: 'json' | 'form'): string {
  if (status === 401 || error === 'invalid_client') return 'Check clientId and clientSecret.'
  if (status === 403 || error === 'access_denied') return 'Check that this client may ask for this audience.'
  if (status === 429) return 'Too many token requests: try again later.'
  if (status === 408 || status >= 500) return 'The token endpoint is in trouble: try again later.'
  const isFormat = status === 415 || (status === 400 && FORMAT_ERRORS.has(error))
  const format = " A server that takes a form instead of JSON needs bodyFormat: 'form'."
  return `Check authUrl, clientId and audience.${bodyFormat === 'json' && isFormat ? format : ''}`
}

/** The first code in a chain of causes, such as ECONNREFUSED. */
export function codeOf(cause: Error | undefined): string | undefined {
  for (let error: unknown = cause; error instanceof Error; error = error.cause) {
    if ('code' in error) return String(error.code)
  }
  return undefined
}

/** Whether a code says that a body is not what its Content-Encoding says: it came whole, and would be no better again. */
export function isWrongEncoding(code: string | undefined): boolean {
  return code !== undefined && /^(?:Z_DATA_ERROR|ZSTD_error_|ERR__ERROR_FORMAT_)/.test(code)
}
