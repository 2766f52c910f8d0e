/** The service: the tokens that it issues, the token requests that it accepts, and what its APIs return. */
import { createHash, randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { decodeJwt, errors, generateKeyPair, jwtVerify, SignJWT } from 'jose'
import { type Answer, jsonAnswer } from './exchange.ts'
import type { RequestQuota } from './quota.ts'
import { publicKeyOf } from './settings.ts'
import type { SandboxRequest, SandboxSettings, SandboxTarget } from './types.ts'

const ALGORITHM = 'ES256'
const SCOPE = 'merchant'

/** The result of checking a token. */
export interface Verdict {
  /** The token's id and its client, if this environment signed it. */
  readonly token?: { readonly jti: string; readonly clientId: string }
  /** What is wrong with it, for an `error_description` (RFC 6750 §3); undefined: nothing. */
  readonly problem?: string
}

interface IssuedToken {
  readonly jti: string
  readonly clientId: string
  readonly expiresAt: number
  revoked: boolean
}

/** Issues, checks and revokes the tokens of one environment. */
export class Issuer {
  /** Generated at the first token: some test environments have no crypto, and no fetch either. */
  #keys: ReturnType<typeof generateKeyPair> | undefined
  readonly #claims: { readonly issuer: string; readonly audience: string }
  /** By value, oldest first. */
  readonly #issued = new Map<string, IssuedToken>()

  constructor(claims: { readonly issuer: string; readonly audience: string }) {
    this.#claims = claims
  }

  /** Signs a token that expires `lifetimeSeconds` from now, to the millisecond. */
  async issue(clientId: string, lifetimeSeconds: number): Promise<{ value: string; jti: string }> {
    this.#keys ??= generateKeyPair(ALGORITHM)
    const { privateKey } = await this.#keys
    const issuedAt = Date.now()
    const expiresAt = issuedAt + lifetimeSeconds * 1000
    const jti = randomUUID()
    const { issuer: iss, audience: aud } = this.#claims
    // A NumericDate may have a fraction (RFC 7519 §2).
    const claims = { scope: SCOPE, jti, iss, aud, sub: clientId, iat: issuedAt / 1000, exp: expiresAt / 1000 }
    const value = await new SignJWT(claims)
      .setProtectedHeader({ alg: ALGORITHM, typ: 'JWT' })
      .sign(privateKey)
    this.#issued.set(value, { jti, clientId, expiresAt, revoked: false })
    return { value, jti }
  }

  jtiOf(value: string): string | undefined {
    return this.#issued.get(value)?.jti
  }

  /** Revokes a token (its value or its jti), or all. Returns how many were valid until now. */
  revoke(token: string | undefined): number {
    const now = Date.now()
    let count = 0
    for (const [value, issued] of this.#issued) {
      const isMeant = token === undefined || token === value || token === issued.jti
      if (!isMeant || issued.revoked || now >= issued.expiresAt) continue
      issued.revoked = true
      count += 1
    }
    return count
  }

  /** Checks a token as it is at the moment of the call. */
  check(value: string): Verdict {
    const issued = this.#issued.get(value)
    if (issued === undefined) return { problem: this.#problemOfUnknown(value) }
    const { jti, clientId, revoked, expiresAt } = issued
    const token = { jti, clientId }
    if (revoked) return { token, problem: 'The token was revoked' }
    return Date.now() < expiresAt ? { token } : { token, problem: 'The token has expired' }
  }

  #problemOfUnknown(value: string): string {
    try {
      const isOwn = decodeJwt(value).aud === this.#claims.audience
      return isOwn ? 'The signature of the token is wrong' : 'The token is for another audience'
    } catch {
      return 'The token is malformed'
    }
  }
}

type Fields = Readonly<Record<string, unknown>>

/** What a token request asks for, and what is wrong with its form. */
export interface TokenRequest {
  /** The fields of the body, if they could be read. */
  readonly fields?: Fields
  /** What proves the client's identity: fields, or what HTTP Basic says. */
  readonly credentials?: Fields | undefined
  readonly problem?: string | undefined
  /** Whether HTTP Basic is expected, and missing. */
  readonly needsBasic?: boolean
}

const ASSERTION_FIELDS = ['client_assertion_type', 'client_assertion']
const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
const ASKS_FOR_BASIC = { 'www-authenticate': 'Basic realm="sandbox"' }
const NO_STORE = { 'cache-control': 'no-store' }

/** What a token request must look like. */
interface RequestForm extends Pick<SandboxSettings, 'assertionKey' | 'tokenParameters'> {
  /** Whether a client with a secret sends it by HTTP Basic. */
  readonly isBasic: boolean
  readonly needsAudience: boolean
}

/** Reads a token request: a body of JSON, or the form of RFC 6749 §4.4.2, and HTTP Basic where that is expected. */
export function readTokenRequest(
  { authorization = '', 'content-type': contentType }: IncomingHttpHeaders,
  body: Buffer,
  form: RequestForm,
): TokenRequest {
  const fields = fieldsIn(contentType, body)
  if (fields === undefined)
    return { problem: 'The body must be a JSON object or a form, as its content type says' }
  const hasAssertion = form.assertionKey !== undefined && Object.hasOwn(fields, 'client_assertion')
  const isBasic = form.isBasic && !hasAssertion
  const credentials = isBasic ? basicCredentials(authorization) : fields
  const needsBasic = credentials === undefined
  return { fields, credentials, problem: problemIn(fields, { ...form, isBasic, hasAssertion }), needsBasic }
}

function fieldsIn(contentType: string | undefined, body: Buffer): Fields | undefined {
  const type = contentType?.split(';')[0]?.trim().toLowerCase()
  if (type === 'application/x-www-form-urlencoded')
    return Object.fromEntries(new URLSearchParams(body.toString()))
  return type === 'application/json' ? jsonObject(body.toString()) : undefined
}

/** The id and the secret in an `Authorization` (RFC 6749 §2.3.1). */
function basicCredentials(authorization: string): Fields | undefined {
  const [, encoded = ''] = /^Basic ([\w+/=]+)$/i.exec(authorization) ?? []
  const [, id, secret] = /^([^:]*):(.*)$/s.exec(Buffer.from(encoded, 'base64').toString()) ?? []
  if (id === undefined || secret === undefined) return undefined
  const decoded = (text: string): string => new URLSearchParams(`=${text}`).get('') ?? ''
  return { client_id: decoded(id), client_secret: decoded(secret) }
}

/** The fields must be the four of a token request, or those of an assertion, and the further ones of the settings. */
function problemIn(
  fields: Fields,
  { tokenParameters, isBasic, needsAudience, hasAssertion }: RequestForm & { readonly hasAssertion: boolean },
): string | undefined {
  const proof = hasAssertion ? ASSERTION_FIELDS : ['client_secret']
  const client = isBasic ? [] : ['client_id', ...proof]
  const expected = [...client, ...(needsAudience ? ['audience'] : []), 'grant_type']
  const missing = expected.find((name) => !Object.hasOwn(fields, name))
  if (missing !== undefined) return `${missing} is missing`
  const known = [...expected, 'audience', ...tokenParameters]
  const extra = Object.keys(fields).find((name) => !known.includes(name))
  if (extra !== undefined) return `${extra} is not expected`
  const empty = expected.find((name) => typeof fields[name] !== 'string' || fields[name] === '')
  return empty && `${empty} must be a non-empty string`
}

function jsonObject(text: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : undefined
  } catch {
    return undefined
  }
}

/** What a token endpoint knows of a client. */
export interface KnownClient {
  readonly clientId: string
  /** The secrets that are accepted now. */
  secrets: ReadonlySet<string>
  quota: RequestQuota
}

/** What a token request must match. */
export interface Expected extends Pick<SandboxSettings, 'assertionKey'> {
  /** The client that the request names. */
  readonly client: KnownClient
  /** Undefined: any. */
  readonly audience: string | undefined
  readonly authUrl: string
  readonly endpoint: string
  /** The ids of the assertions that were used. */
  readonly usedIds: Set<string>
}

/** What is wrong with the proof of a client's identity; undefined: nothing. */
async function proofProblem(
  fields: Fields,
  { client, authUrl, endpoint, usedIds, assertionKey }: Expected,
): Promise<string | undefined> {
  const { clientId, secrets } = client
  if (fields['client_id'] !== clientId) return UNKNOWN_CLIENT
  if (assertionKey === undefined || fields['client_assertion'] === undefined)
    return secrets.has(String(fields['client_secret'])) ? undefined : UNKNOWN_CLIENT
  if (fields['client_assertion_type'] !== ASSERTION_TYPE) return 'The client_assertion_type is unknown'
  try {
    const { jti } = (
      await jwtVerify(String(fields['client_assertion']), publicKeyOf(assertionKey), {
        issuer: clientId,
        subject: clientId,
        audience: [authUrl, endpoint],
        requiredClaims: ['exp', 'jti'],
      })
    ).payload
    if (typeof jti !== 'string' || jti === '') return 'The claim jti of the assertion is wrong'
    if (usedIds.has(jti)) return 'The assertion was used before'
    usedIds.add(jti)
    return undefined
  } catch (error) {
    return error instanceof errors.JWTExpired || error instanceof errors.JWTClaimValidationFailed
      ? `The claim ${error.claim} of the assertion is wrong`
      : 'The signature of the assertion is wrong'
  }
}

const UNKNOWN_CLIENT = 'The client is unknown, or its secret is wrong'

/** An error response of the token endpoint (RFC 6749 §5.2). */
export function tokenError(
  status: number,
  code: string,
  description: string,
  headers: Answer['headers'] = {},
): Answer {
  const body = { error: code, error_description: description }
  const all = { ...NO_STORE, ...(status === 405 && { allow: 'POST' }), ...headers }
  return { ...jsonAnswer(status, body, all), error: { code, description } }
}

/** The error response to a token request; undefined if the request is accepted. */
export async function tokenErrorOf(
  method: string,
  { fields = {}, credentials = {}, problem, needsBasic = false }: TokenRequest,
  expected: Expected,
): Promise<Answer | undefined> {
  if (method !== 'POST') return tokenError(405, 'invalid_request', 'The method must be POST')
  if (needsBasic) return tokenError(401, 'invalid_client', 'The client must use HTTP Basic', ASKS_FOR_BASIC)
  if (problem !== undefined) return tokenError(400, 'invalid_request', problem)
  if (fields['grant_type'] !== 'client_credentials') {
    return tokenError(400, 'unsupported_grant_type', 'grant_type must be client_credentials')
  }
  const unproven = await proofProblem(credentials, expected)
  if (unproven !== undefined) return tokenError(401, 'invalid_client', unproven)
  if (expected.audience !== undefined && fields['audience'] !== expected.audience) {
    return tokenError(403, 'access_denied', 'The client may not ask for this audience')
  }
  return undefined
}

/** The response with a token (RFC 6749 §5.1). */
export function tokenAnswer(value: string, lifetimeSeconds: number): Answer {
  const body = { access_token: value, expires_in: lifetimeSeconds, scope: SCOPE, token_type: 'Bearer' }
  return jsonAnswer(200, body, NO_STORE)
}

/** An API, by its name. */
export type Api = Exclude<SandboxTarget, 'token'>

/** The token in the headers of a request; undefined without one of the scheme. */
export function tokenOf(headers: Answer['headers'], settings: SandboxSettings): string | undefined {
  const { header, scheme } = settings
  const value = headers[header.toLowerCase()]
  if (value === undefined || value === '') return undefined
  if (scheme === '') return value
  const [given = '', ...rest] = value.split(' ')
  return given.toLowerCase() === scheme.toLowerCase() ? rest.join(' ').trim() : undefined
}

/** An error response of an API. */
export function apiError(status: number, code: string): Answer {
  return { ...jsonAnswer(status, { error: code }), error: { code } }
}

/** A 401 of an API (RFC 6750 §3): without a problem, the request has no token, and gets no error code (§3.1). */
export function apiUnauthorized(api: Api, problem?: string): Answer {
  const error =
    problem === undefined ? { code: 'unauthorized' } : { code: 'invalid_token', description: problem }
  const details = problem === undefined ? '' : `, error="invalid_token", error_description="${problem}"`
  const headers = { 'www-authenticate': `Bearer realm="${api}"${details}` }
  return { ...jsonAnswer(401, { error: error.code }, headers), error }
}

/** The response of an API to a request with a valid token: what it received. */
export function apiEcho(api: Api, { method, path, headers, jti }: SandboxRequest, body: Buffer): Answer {
  const [pathname, ...query] = path.split('?')
  return jsonAnswer(200, {
    api,
    method,
    path: pathname,
    query: query.join('?'),
    headers,
    body: body.toString(),
    bodySha256: createHash('sha256').update(body).digest('hex'),
    jti,
  })
}
