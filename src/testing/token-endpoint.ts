/** The token endpoint: which token requests it takes, and how it refuses the others (RFC 6749 §5.2). */
import { parseJson } from '../token/token-response.ts'
import { type Answer, jsonAnswer } from './exchange.ts'

/** What a token request asks, or what is wrong with the way in which it asks. */
export interface TokenRequestRead {
  /** The fields, where they could be read. */
  readonly fields?: Readonly<Record<string, unknown>>
  readonly problem?: string
}

/** What the token endpoint goes by. */
export interface TokenEndpoint {
  readonly clientId: string
  readonly audience: string
  /** The client secrets that it takes at the moment. */
  readonly accepted: ReadonlySet<string>
  /** Issues a token. */
  issue(): Promise<{ readonly value: string; readonly scope: string; readonly lifetimeSeconds: number }>
}

const FIELDS = ['client_id', 'client_secret', 'audience', 'grant_type'] as const
const NO_STORE = { 'cache-control': 'no-store' }

/** Reads the body of a token request: JSON, or the form of RFC 6749 §4.4.2. */
export function readTokenRequest(contentType: string | undefined, body: Buffer): TokenRequestRead {
  const mediaType = contentType?.split(';')[0]?.trim().toLowerCase()
  if (mediaType === 'application/json') {
    const fields = parseJson(body.toString())
    return isObject(fields) ? { fields, ...problemOf(fields) } : { problem: 'The body must be a JSON object' }
  }
  if (mediaType === 'application/x-www-form-urlencoded') {
    const params = new URLSearchParams(body.toString())
    const fields = Object.fromEntries(params)
    const twice = FIELDS.find((name) => params.getAll(name).length > 1)
    return twice === undefined
      ? { fields, ...problemOf(fields) }
      : { fields, problem: `${twice} comes twice` }
  }
  return { problem: 'The content type must be application/json or application/x-www-form-urlencoded' }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The fields must be the four, and no others. */
function problemOf(fields: Readonly<Record<string, unknown>>): { readonly problem?: string } {
  const missing = FIELDS.find((name) => !Object.hasOwn(fields, name))
  if (missing !== undefined) return { problem: `${missing} is missing` }
  const extra = Object.keys(fields).find((name) => !(FIELDS as readonly string[]).includes(name))
  // Whatever else may stand in the place of a name is not repeated.
  if (extra !== undefined)
    return { problem: `${/^[\w.-]{1,40}$/.test(extra) ? extra : 'A field'} is not expected` }
  const empty = FIELDS.find((name) => typeof fields[name] !== 'string' || fields[name] === '')
  return empty === undefined ? {} : { problem: `${empty} must be a non-empty string` }
}

/** The answer to a token request. */
export async function answerTokenRequest(
  method: string,
  { fields = {}, problem }: TokenRequestRead,
  endpoint: TokenEndpoint,
): Promise<Answer> {
  if (method !== 'POST') return refusal(405, 'invalid_request', 'The method must be POST', { allow: 'POST' })
  if (problem !== undefined) return refusal(400, 'invalid_request', problem)
  if (fields['grant_type'] !== 'client_credentials') {
    return refusal(400, 'unsupported_grant_type', 'grant_type must be client_credentials')
  }
  if (fields['client_id'] !== endpoint.clientId || !endpoint.accepted.has(String(fields['client_secret']))) {
    return refusal(401, 'invalid_client', 'The client is unknown, or its secret is wrong')
  }
  if (fields['audience'] !== endpoint.audience) {
    return refusal(403, 'access_denied', 'The client may not ask for this audience')
  }
  const { value, scope, lifetimeSeconds } = await endpoint.issue()
  const granted = { access_token: value, expires_in: lifetimeSeconds, scope, token_type: 'Bearer' }
  return jsonAnswer(200, granted, NO_STORE)
}

/** An error answer of the token endpoint. */
export function refusal(
  status: number,
  error: string,
  description: string,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  const answer = jsonAnswer(status, { error, error_description: description }, { ...NO_STORE, ...headers })
  return { ...answer, error: { code: error, description } }
}
