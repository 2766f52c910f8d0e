/** The rows of the table of failures: each is found by a sign of its own, and its text is short, begins with what to do and stands once. */
import { globSync, readFileSync } from 'node:fs'
import type { ResponseIssue } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { root } from '../../scripts/packed.ts'
import { CALLS } from '../../src/advice/calls.ts'
import { adviceOf, checkAdviceOf, isSignOf, OPTIONS, otherWays } from '../../src/advice/failure.ts'
import { FINDINGS } from '../../src/advice/findings.ts'
import { BY_STEP, NETWORK_FAILURES, type NetworkRow, networkFailureOf } from '../../src/advice/network.ts'
import { REFUSAL_KINDS, type Refusal, refusalOf } from '../../src/advice/refusals.ts'
import { NO_LIFETIME, RESPONSES, TOO_SHORT, unusableKindOf } from '../../src/advice/responses.ts'
import { FAILURES, kindsIn, type Row } from '../support/failures.ts'
import { type Answer, deaf, failed, rig, status } from '../token/harness.ts'

/** What an error of fetch has. */
interface Sign {
  readonly code?: string
  readonly message?: string
  readonly name?: string
  readonly isLoopback?: true
  readonly addresses?: 2
}

/** Each kind of network failure, a sign of it, and words of its text without which it does not lead to the cause. */
const NETWORK: readonly (readonly [kind: string, sign: Sign, leads: string])[] = [
  ['headers-too-large', { code: 'HPE_HEADER_OVERFLOW' }, '--max-http-header-size'],
  ['broken-off', { code: 'UND_ERR_SOCKET' }, 'mutual TLS'],
  ['not-http', { code: 'HPE_INVALID_CONSTANT' }, 'the scheme and the port'],
  ['encoding', { code: 'Z_DATA_ERROR' }, 'Content-Encoding'],
  ['certificate', { code: 'CERT_HAS_EXPIRED' }, 'has not expired'],
  ['certificate', { code: 'CERT_NOT_YET_VALID' }, 'clock'],
  ['certificate', { code: 'ERR_TLS_CERT_ALTNAME_INVALID' }, 'host name'],
  ['certificate', { code: 'UNSPECIFIED' }, 'too weak'],
  ['client-certificate', { code: 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED' }, 'mutual TLS'],
  ['unknown-authority', { code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' }, 'intermediate certificate'],
  ['unknown-authority', { code: 'SELF_SIGNED_CERT_IN_CHAIN' }, 'NODE_EXTRA_CA_CERTS'],
  ['no-tls', { code: 'EPROTO', message: 'wrong version number' }, 'http:'],
  ['tls', { code: 'EPROTO' }, 'mutual TLS'],
  ['unreadable-key', { code: 'ERR_OSSL_BAD_DECRYPT' }, 'private key'],
  ['program', { code: 'ERR_ACCESS_DENIED' }, 'the reason names'],
  ['program', { message: 'bad port' }, 'its environment'],
  ['not-json', { name: 'SyntaxError' }, 'is not JSON'],
  ['proxy-refuses', { code: 'UND_ERR_INVALID_ARG', message: 'Proxy Authentication Required' }, '407'],
  ['program', { code: 'ERR_INVALID_URL' }, 'its proxy'],
  ['thrown-4xx', { message: 'Request failed with status code 401' }, 'validateStatus'],
  ['thrown-status', { message: 'Request failed with status code 503' }, 'validateStatus'],
  ['program', { code: 'ERR_HTTP2_INVALID_CONNECTION_HEADERS' }, 'its fetch function'],
  ['other-undici', { code: 'UND_ERR_INVALID_ARG' }, 'same package undici'],
  ['dispatcher-closed', { code: 'UND_ERR_CLOSED' }, 'after tokens.close()'],
  ['no-fetch', { message: 'fetch is not a function' }, 'environment "node"'],
  ['program', { name: 'ReferenceError' }, 'this program'],
  ['http2', { code: 'ERR_HTTP2_STREAM_ERROR' }, 'allowH2: false'],
  ['unknown-host', { code: 'ENOTFOUND' }, 'NODE_USE_ENV_PROXY'],
  ['no-dns', { code: 'EAI_AGAIN' }, 'DNS server'],
  ['nothing-listens-here', { code: 'ECONNREFUSED', isLoopback: true }, 'sandbox'],
  ['nothing-listens', { code: 'ECONNREFUSED' }, 'whether the service is running'],
  ['too-many-files', { code: 'EMFILE' }, 'its environment'],
  ['not-mocked', { code: 'ERR_NOCK_NO_MATCH' }, 'Mock the token request'],
  [
    'not-mocked',
    { code: 'ENETUNREACH', message: 'Nock: Disallowed net connect for "a"' },
    'Mock the token request',
  ],
  ['one-of-several-addresses', { code: 'ETIMEDOUT', addresses: 2 }, 'autoselection-attempt-timeout'],
  ['no-connection', { code: 'ETIMEDOUT' }, 'firewalls and proxies'],
]

/** Each kind of refusal, a response that has it, and words of its text. */
const REFUSED: readonly (readonly [
  kind: string,
  status: number,
  oauth: Parameters<typeof refusalOf>[1],
  leads: string,
])[] = [
  ['too-many', 429, { error: 'access_denied' }, 'Try again later'],
  ['server', 503, {}, 'in trouble'],
  ['server', 400, { error: 'temporarily_unavailable' }, 'in trouble'],
  ['server-500', 500, {}, 'a wrong client ID or secret'],
  ['server-501', 501, {}, 'mock the token request'],
  ['format', 415, {}, "bodyFormat: 'form'"],
  ['format', 400, { detail: 'no grant_type' }, "bodyFormat: 'form'"],
  ['format', 400, { detail: 'client_id is required' }, "tokenEndpointAuthMethod: 'client_secret_basic'"],
  ['fields', 400, {}, 'tokenParameters'],
  ['grant-type', 400, { error: 'unsupported_grant_type' }, "Set bodyFormat: 'form'"],
  ['grant-type', 400, { detail: 'unknown grant type' }, 'grant_type of its own'],
  ['client', 401, {}, 'one environment'],
  ['client', 400, { error: 'invalid_client' }, 'clientSecret'],
  ['client', 401, { error: 'invalid_client' }, "set tokenEndpointAuthMethod: 'client_secret_basic'"],
  ['client', 403, { detail: 'wrong secret' }, 'clientId'],
  ['scope', 400, { error: 'invalid_scope' }, 'scope in tokenParameters'],
  ['scope', 400, { detail: 'no scope' }, 'scope in tokenParameters'],
  ['audience', 400, { error: 'access_denied' }, 'audience'],
  ['audience', 403, {}, 'a firewall or a gateway'],
  ['audience', 400, { detail: 'unknown audience' }, 'leave it out'],
  ['grant', 400, { error: 'unauthorized_client' }, 'client credentials grant'],
  ['no-endpoint', 404, {}, 'set environment.tokenPath'],
  ['other', 499, {}, 'one environment'],
]

const issue = (field: string, reason = 'must be another one'): ResponseIssue => ({ field, reason })

/** Each kind of response that contains no usable token, and the fields that are wrong. */
const UNUSABLE: readonly (readonly [
  kind: keyof typeof RESPONSES,
  issues: readonly ResponseIssue[],
  leads: string,
])[] = [
  ['expired-token', [issue('expires_in', TOO_SHORT)], 'in a second'],
  ['incomplete-token', [issue('expires_in'), issue('token_type')], 'the option fetch'],
  ['no-lifetime', [issue('expires_in', NO_LIFETIME)], 'lifetimeIfMissingMs'],
  ['not-a-token-endpoint', [issue('body')], 'a login page'],
  ['no-token', [issue('access_token'), issue('expires_in')], 'fields of its own'],
]

/** Begins a body. */
const stalled: Answer = async () =>
  new Response(new ReadableStream({ start: (body) => body.enqueue(new TextEncoder().encode('{')) }))
const redirected = (location: string): Answer => status(307, '', { location })

/** Each other kind of response, and what the token endpoint does. */
const ANSWERED: readonly (readonly [kind: keyof typeof RESPONSES, answer: Answer, leads: string])[] = [
  ['slow-body', stalled, 'Content-Length'],
  ['no-response', deaf, 'timeoutMs'],
  ['no-response-object', () => ({}) as Response, 'Response.json'],
  ['redirect', redirected('https://other.test.example/oauth/token'), 'https'],
  ['redirect-here', redirected('https://auth.test.example/oauth/token/'), 'a slash'],
]

/** An error with a sign. */
function errorWith({ code, message = 'the reason', name, addresses }: Sign): Error {
  const one = (): Error => Object.assign(new Error(message), code && { code }, name && { name })
  return addresses === undefined ? one() : Object.assign(new AggregateError([one(), one()]), { code })
}

/** The texts of a row: in an error, and in `check`. */
function textsOf(row: Parameters<typeof checkAdviceOf>[0]): string {
  return `${adviceOf(row)} ${checkAdviceOf(row, OPTIONS)}`
}

describe('a network failure', () => {
  it.each(NETWORK)('is found by its sign: %s', (kind, sign, leads) => {
    const { failure } = networkFailureOf(errorWith(sign), { isLoopback: sign.isLoopback === true })
    expect(failure.kind).toBe(kind)
    expect(textsOf(failure)).toContain(leads)
  })

  it('without a known sign is a kind of its own, which names the fetch function, too', () => {
    const { failure } = networkFailureOf(new TypeError('x is undefined'), { isLoopback: false })
    expect(failure.kind).toBe('unknown')
    expect(textsOf(failure)).toContain('the fetch function')
  })

  it('of each kind has a sign here', () => {
    const kinds = new Set(NETWORK.map(([kind]) => kind))
    expect([...kinds].sort()).toEqual(Object.keys(NETWORK_FAILURES).sort())
  })

  it('is of the first kind for each code of its own: none hides behind another one', () => {
    const rows = Object.entries<NetworkRow>(NETWORK_FAILURES)
    for (const [kind, { codes = [] }] of rows)
      for (const code of codes.map((one) => one.replaceAll('*', 'X')))
        expect(rows.find(([, row]) => isSignOf(row, code))?.[0], code).toBe(kind)
  })
})

describe('a refusal', () => {
  it.each(REFUSED)('is found by its response: %s, of %i with %j', (kind, code, oauth, leads) => {
    const refusal = refusalOf(code, oauth)
    expect(refusal.kind).toBe(kind)
    expect(textsOf(refusal)).toContain(leads)
  })

  it('of an assertion is one of its own, by status, error and words', () => {
    const kindOf = (code: number, oauth: Parameters<typeof refusalOf>[1]) =>
      refusalOf(code, oauth, { isAssertion: true }).kind
    expect(kindOf(401, {})).toBe('assertion')
    expect(kindOf(400, { error: 'invalid_client' })).toBe('assertion')
    expect(kindOf(400, { detail: 'aud is wrong' })).toBe('assertion')
    expect(refusalOf(400, { detail: 'aud is wrong' }).kind).toBe('client')
    expect(textsOf(REFUSAL_KINDS.assertion)).toContain('clock')
  })

  it('of a form does not suggest a form', () => {
    const kindOf = (code: number) => refusalOf(code, {}, { isForm: true }).kind
    expect([kindOf(415), kindOf(400)]).toEqual(['fields', 'fields'])
    expect(otherWays({ bodyFormat: 'form' }, 'clientSecret')['bodyFormat']).toBe("bodyFormat: 'json'")
  })

  it('whose response asks for HTTP Basic leads to it', () => {
    expect(refusalOf(401, {}, { needsBasic: true }).kind).toBe('basic')
    expect(refusalOf(401, { error: 'unauthorized_client' }, { needsBasic: true }).kind).toBe('basic')
    expect(refusalOf(400, {}, { needsBasic: true, isForm: true }).kind).toBe('basic')
    expect(refusalOf(401, {}, { needsBasic: true, isAssertion: true }).kind).toBe('assertion')
    expect(textsOf(REFUSAL_KINDS.basic)).toContain("Set tokenEndpointAuthMethod: 'client_secret_basic'")
  })

  it('to a request without an audience does not speak of a wrong one', () => {
    expect(refusalOf(403, {}, { hasAudience: false }).kind).toBe('no-audience')
    expect(textsOf(REFUSAL_KINDS['no-audience'])).toContain('Set audience')
  })

  it('of a form whose grant is not supported is about the grant', () => {
    expect(refusalOf(400, { error: 'unsupported_grant_type' }, { isForm: true }).kind).toBe('grant')
  })

  it('of each kind has a response here', () => {
    const kinds = [...REFUSED.map(([kind]) => kind), 'assertion', 'basic', 'no-audience']
    expect([...new Set(kinds)].sort()).toEqual(Object.keys(REFUSAL_KINDS).sort())
  })

  it('has an error, and a status, of one kind only', () => {
    const refusals = Object.values<Refusal>(REFUSAL_KINDS)
    const signs = refusals.flatMap(({ errors = [], statuses = [] }) => [...errors, ...statuses])
    expect(signs).toEqual([...new Set(signs)])
  })
})

describe('a response without a usable token', () => {
  it.each(UNUSABLE)('is found by its fields: %s', (kind, issues, leads) => {
    expect(unusableKindOf(issues)).toBe(kind)
    expect(textsOf(RESPONSES[kind])).toContain(leads)
  })

  it.each(ANSWERED)('is found by what the token endpoint does: %s', async (kind, answer, leads) => {
    const { message } = await failed(rig([answer], { retries: 0, timeoutMs: 800 }), 800)
    expect(kindsIn(message)).toEqual([kind])
    expect(textsOf(RESPONSES[kind])).toContain(leads)
  })

  it('of each kind is found here, but for a process that stood still', () => {
    const others = ['stood-still', 'no-connection-in-time', 'no-proxy', 'proxy-fails'] // the latter of check
    const kinds = [...UNUSABLE.map(([kind]) => kind), ...ANSWERED.map(([kind]) => kind), ...others]
    expect(kinds.sort()).toEqual(Object.keys(RESPONSES).sort())
  })
})

const OF_STEPS = Object.entries(BY_STEP).map(([step, advice]) => ({ kind: `the step ${step}`, advice }))
const ROWS: readonly Row[] = [...FAILURES, ...OF_STEPS]
const adviceIn = (rows: readonly Row[]) =>
  rows.flatMap(({ kind, advice }) => (advice === undefined ? [] : [[kind, advice] as const]))
const checkAdviceIn = (rows: readonly Row[]) =>
  rows.flatMap(({ kind, inCheck }) => (inCheck === undefined ? [] : [[kind, inCheck] as const]))
/** Rows that only `check` shows, which may say more than a line of a log. */
const OF_CHECK: readonly string[] = Object.keys({ ...CALLS, ...FINDINGS })
const OF_ERRORS = ROWS.filter(({ kind }) => !OF_CHECK.includes(kind))

describe('the text', () => {
  const ACTIONS =
    /^(?:(?:If|With) [^,]+, )?(?:Add|Ask|Call|Change|Check|Close|Compare|Connect|Correct|Create|Find|Import|Let|Log|Make room|Mock|Name|Pass|Raise|Read|Return|Run|Set|Start|Try again|Use|Wait)\b/i

  /** Words that are the name of an option. */
  const NAMES = ['authUrl', 'clientId', 'audience', 'tokenParameters', 'timeoutMs', 'lifetimeIfMissingMs']

  it.each([...adviceIn(ROWS), ...checkAdviceIn(ROWS)])(
    'of %s has a word for each pair of braces',
    (_, text) => {
      const inBraces = [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
      const known = [...Object.keys(OPTIONS), ...NAMES]
      expect(inBraces.filter((name) => !known.includes(String(name)))).toEqual([])
    },
  )

  it.each([...adviceIn(OF_ERRORS), ...checkAdviceIn(OF_ERRORS)])(
    'of %s begins with what to do, and ends',
    (_, text) => {
      expect(text).toMatch(ACTIONS)
      expect(text.replace(/(?:\{(?:check|circle)\})+$/, '')).toMatch(/\.$/)
    },
  )

  it.each(adviceIn(OF_ERRORS))('of %s has two sentences at most', (_, text) => {
    const own = text.replace(/(?:\{(?:check|circle)\})+$/, '')
    expect(own.split(/(?<=[.!?]) (?=[A-Z"])/).length).toBeLessThanOrEqual(2)
  })

  const words = (text: string): number => text.split(' ').length

  it.each(adviceIn(OF_ERRORS))('of %s has 35 words at most', (_, text) => {
    expect(words(text)).toBeLessThanOrEqual(35)
  })

  it.each([...checkAdviceIn(ROWS), ...adviceIn(ROWS)])('of %s in check has 60 words at most', (_, text) => {
    expect(words(text)).toBeLessThanOrEqual(60)
  })

  it.each([...adviceIn(ROWS), ...checkAdviceIn(ROWS)])('of %s is in the source once', (_, text) => {
    const parts = text.split(/(?<=[.!?:]) (?=[A-Z"])/)
    for (const part of parts.filter(({ length }) => length > 20))
      expect(SOURCES.split(part).length - 1, part).toBe(1)
  })

  it('belongs to one kind, whose name is given once', () => {
    const kinds = ROWS.map(({ kind }) => kind)
    expect(kinds).toEqual([...new Set(kinds)])
  })
})

/** The whole source, with each text on one line, and as it is read. */
const SOURCES = globSync('src/**/*.ts', { cwd: root })
  .map((name) => readFileSync(`${root}/${name}`, 'utf8'))
  .join('\n')
  .replace(/(['"`])\s*\+\s*\n?\s*['"`]/g, '')
  .replace(/\\(?=['"`\\])/g, '')
