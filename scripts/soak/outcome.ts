/** What came of a call, in the terms of the matching: read off the answer or the error that the caller got. */
import { createHash } from 'node:crypto'
import { isAxiosError, isCancel } from 'axios'
import {
  isMerchantAuthError,
  ProviderClosedError,
  TokenRequestError,
  TokenResponseError,
} from 'merchant-auth'
import type { Outcome } from './evidence.ts'

/** The caller's side of a call, as far as it may end it. */
export interface Patience {
  readonly id: string
  readonly signal: AbortSignal | undefined
  /** axios' own time-out. */
  readonly timeoutMs: number | undefined
  readonly left: { readonly at: number } | undefined
}

/** An answer, its body read. */
export interface Answer {
  readonly status: number
  readonly data: unknown
}

/** What axios and fetch call a connection that broke, or an answer that cannot be read to its end. */
const BROKEN = new Set([
  'ERR_NETWORK',
  'ERR_BAD_RESPONSE',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'UND_ERR_SOCKET',
])

const TIMED_OUT = new Set(['ECONNABORTED', 'ETIMEDOUT'])

/** An answer is good if it tells of this very call. */
export function outcomeOfAnswer({ status, data }: Answer, id: string, body: Buffer): Outcome {
  if (status !== 200) return { kind: 'status', status }
  const echo = (typeof data === 'object' ? data : undefined) as
    | { headers?: Record<string, string>; bodySha256?: string }
    | null
    | undefined
  const same =
    echo?.headers?.['x-soak-call'] === id &&
    echo.bodySha256 === createHash('sha256').update(body).digest('hex')
  return { kind: same ? 'ok' : 'body' }
}

export function outcomeOfError(error: unknown, patience: Patience): Outcome {
  if (error instanceof TokenRequestError) {
    const { code, status, attempts, retryAfterMs } = error
    return { kind: 'token', code, status, attempts, retryAfterMs }
  }
  if (error instanceof TokenResponseError) {
    return { kind: 'token', code: error.code, retryAfterMs: error.retryAfterMs }
  }
  if (error instanceof ProviderClosedError) return { kind: 'closed' }
  if (isMerchantAuthError(error)) return strange(error)
  return isAxiosError(error) || isCancel(error) ? ofAxios(error, patience) : ofFetch(error, patience)
}

function ofAxios(error: unknown, patience: Patience): Outcome {
  if (isCancel(error)) return ended(error, patience)
  if (!isAxiosError(error)) return strange(error)
  const { code = '', message, response } = error
  if (response !== undefined && (response.status < 200 || response.status >= 300)) {
    return { kind: 'status', status: response.status }
  }
  // axios' adapters do not agree on the code.
  if (message === `timeout of ${patience.timeoutMs}ms exceeded` && TIMED_OUT.has(code))
    return { kind: 'limit' }
  // Its fetch adapter hands on what fetch says of a body that breaks off, without a code.
  return BROKEN.has(code) || message === 'terminated' ? { kind: 'network' } : strange(error)
}

function ofFetch(error: unknown, patience: Patience): Outcome {
  const { signal } = patience
  if (signal?.aborted && (error === signal.reason || nameOf(error) === 'AbortError'))
    return ended(error, patience)
  if (error instanceof SyntaxError) return { kind: 'body' }
  if (!(error instanceof TypeError)) return strange(error)
  return error.message === 'fetch failed' || error.message === 'terminated'
    ? { kind: 'network' }
    : strange(error)
}

/** The end that the caller made: by going, or by its limit. */
function ended(error: unknown, { left, signal }: Patience): Outcome {
  if (left !== undefined) return { kind: 'left' }
  return signal?.aborted ? { kind: 'limit' } : strange(error)
}

function nameOf(error: unknown): unknown {
  return typeof error === 'object' && error !== null ? Reflect.get(error, 'name') : undefined
}

function strange(error: unknown): Outcome {
  const code = typeof error === 'object' && error !== null ? Reflect.get(error, 'code') : undefined
  return { kind: 'strange', told: `${String(error)} (code ${String(code)})` }
}
