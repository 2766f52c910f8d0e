/** The merchant API and the in-store API: where they look for a token, and what they answer. */
import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import { type Answer, errorAnswer, jsonAnswer } from './exchange.ts'
import type { Verdict } from './issuer.ts'
import type { SandboxRequest } from './recorded.ts'
import type { SandboxSettings } from './settings.ts'

/** One of the two APIs. */
export type Api = 'merchant' | 'in-store'

/** The token that a request carries; undefined where it has none of the scheme. */
export function tokenOf(
  headers: Readonly<Record<string, string>>,
  { header, scheme }: SandboxSettings,
): string | undefined {
  const value = headers[header.toLowerCase()]
  if (value === undefined || value === '') return undefined
  if (scheme === '') return value
  const [given = '', ...rest] = value.split(' ')
  return given.toLowerCase() === scheme.toLowerCase() ? rest.join(' ').trim() : undefined
}

/** Whether the settings let this API refuse every token. */
export function rejectsAll(api: Api, { rejectAllTokens }: SandboxSettings): boolean {
  return typeof rejectAllTokens === 'boolean' ? rejectAllTokens : rejectAllTokens.includes(api)
}

/**
 * The answer to a request: 401 as RFC 6750 §3 has it, or what was received.
 *
 * @param verdict what is to be said of its token; undefined where it had none
 */
export function apiAnswer(
  api: Api,
  verdict: Verdict | undefined,
  request: SandboxRequest,
  body: Buffer,
): Answer {
  // §3.1: a request without a token gets no error code.
  if (verdict === undefined) return unauthorized(api, { code: 'unauthorized' }, '')
  const { problem } = verdict
  if (problem !== undefined) {
    const error = { code: 'invalid_token', description: problem }
    return unauthorized(api, error, `, error="invalid_token", error_description="${problem}"`)
  }
  return jsonAnswer(200, echo(api, request, body))
}

function unauthorized(api: Api, error: NonNullable<Answer['error']>, details: string): Answer {
  return errorAnswer(401, error, { 'www-authenticate': `Bearer realm="${api}"${details}` })
}

function echo(api: Api, { method, path, headers, jti }: SandboxRequest, body: Buffer): unknown {
  const [pathname, ...query] = path.split('?')
  return {
    api,
    method,
    path: pathname,
    query: query.join('?'),
    headers,
    ...(isUtf8(body) ? { body: body.toString() } : { bodyBase64: body.toString('base64') }),
    bodySha256: createHash('sha256').update(body).digest('hex'),
    jti,
  }
}
