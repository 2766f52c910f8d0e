/** A token endpoint for one client to the letter of RFC 6749, and an API that checks its tokens as RFC 6750 says. */
import { randomUUID } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { type Listening, listening } from '../../attach/world.ts'

/** What RFC 6749 leaves open. */
export interface Choices {
  /** The status for a request that is not a form. */
  readonly notAForm: 400 | 415
  /** Whether every 401 has a challenge: it must have one for a client that tried a header (§5.2). */
  readonly challenges: 'always' | 'where-it-must'
  /** Whether a parameter of an extension is refused rather than ignored. */
  readonly refusesAudience: boolean
  /** What a response has besides the token: `token_type` is required, but some servers have none. */
  readonly granted: object
}

export interface Client {
  readonly id: string
  readonly secret: string
}

interface Answer {
  readonly status: number
  readonly body?: object
  readonly headers?: Record<string, string>
}

/** The token endpoint is at `/token`, the API at `/api/`. */
export async function startRfc6749(client: Client, choices: Choices): Promise<Listening> {
  const tokens = new Set<string>()
  const issue = (): string => {
    const token = `${randomUUID()}!|${randomUUID()}` // of VSCHAR (appendix A.12)
    tokens.add(token)
    return token
  }
  return await listening(
    createServer(async ({ method, url, headers }, response) => {
      // §3.2: POST alone; no parameter is in the URL.
      const body = await text(response.req)
      if (url?.startsWith('/api/')) send(response, apiAnswer(headers, tokens))
      else if (url !== '/token') send(response, { status: 404 })
      else if (method !== 'POST') send(response, { status: 405, headers: { allow: 'POST' } })
      else send(response, tokenAnswer({ headers, body, client, choices, issue }))
    }),
  )
}

function send(response: ServerResponse, { status, body, headers }: Answer): void {
  const json = body && { 'content-type': 'application/json;charset=UTF-8' }
  // §5.1: no cache keeps it.
  response.writeHead(status, { ...json, 'cache-control': 'no-store', pragma: 'no-cache', ...headers })
  response.end(body && JSON.stringify(body))
}

/** RFC 6750 §2.1 and §3. */
function apiAnswer({ authorization = '' }: IncomingHttpHeaders, tokens: ReadonlySet<string>): Answer {
  const [, token = ''] = /^Bearer (.*)$/.exec(authorization) ?? []
  return tokens.has(token) ? { status: 200 } : { status: 401, headers: { 'www-authenticate': 'Bearer' } }
}

interface TokenRequest {
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly client: Client
  readonly choices: Choices
  readonly issue: () => string
}

function tokenAnswer({ headers, body, client, choices, issue }: TokenRequest): Answer {
  const refused = (error: string, error_description?: string, status = 400): Answer => {
    return { status, body: { error, error_description } }
  }
  if (!/^application\/x-www-form-urlencoded\b/i.test(headers['content-type'] ?? ''))
    return refused('invalid_request', 'the parameter grant_type is missing', choices.notAForm)
  const given = [...new URLSearchParams(body)].filter(([, value]) => value !== '') // §3.1: as if absent
  const parameters = new Map(given)
  if (parameters.size < given.length) return refused('invalid_request', 'a parameter is repeated')
  const { authorization } = headers
  // §2.3: one method for each request.
  if (authorization !== undefined && parameters.has('client_secret'))
    return refused('invalid_request', 'the client uses two authentication methods')
  // §2.3.1: a server need not accept the secret in the body.
  const { id, secret } = credentialsIn(authorization)
  if (id !== client.id || secret !== client.secret) {
    const isChallenged = authorization !== undefined || choices.challenges === 'always'
    const echo = authorization && `${authorization}: ${secret} (${encodeURIComponent(secret)}) is wrong`
    const headers = isChallenged ? { 'www-authenticate': 'Bearer realm="x", Basic realm="x"' } : undefined
    return { ...refused('invalid_client', echo, 401), ...(headers && { headers }) }
  }
  const grantType = parameters.get('grant_type')
  if (grantType === undefined) return refused('invalid_request', 'the parameter grant_type is missing')
  if (grantType !== 'client_credentials') return refused('unsupported_grant_type')
  if (parameters.has('audience') && choices.refusesAudience) return refused('invalid_target')
  return { status: 200, body: { access_token: issue(), ...choices.granted } }
}

/** RFC 6749 §2.3.1: HTTP Basic (RFC 7617), of which both parts are decoded as those of a form. */
function credentialsIn(authorization = ''): Client {
  const [, encoded = ''] = /^Basic ([\w+/]+=*)$/i.exec(authorization) ?? []
  const [, id = '', secret = ''] =
    /^([^:]*):(.*)$/s.exec(Buffer.from(encoded, 'base64').toString('latin1')) ?? []
  const decoded = (part: string): string => new URLSearchParams(`=${part}`).get('') ?? ''
  return { id: decoded(id), secret: decoded(secret) }
}
