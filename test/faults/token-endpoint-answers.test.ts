/** Valid and invalid token responses, and what callers get for each. */
import { createAuthFetch, TokenResponseError } from 'merchant-auth'
import { expect, it, vi } from 'vitest'
import { type Answer, granted, hang, MERCHANT_URL, rig, status } from '../token/harness.ts'
import { type Expected, type TokenFault, tryFaults } from './token-rig.ts'

/** An invalid response is not retried within the call; the cooldown of 1 s applies. */
const ONE_REQUEST = { requests: 1, ms: 0, firstSuccessMs: 1_000 }
const rejected = (what: string): Expected => ({ outcome: `TokenResponseError, ${what}`, ...ONE_REQUEST })
const accepted = (outcome: string): Expected => ({ outcome, requests: 1, ms: 0 })

const VALID = '{"access_token":"head.body.sig","token_type":"Bearer","expires_in":3600}'

const field = (name: string, label: string, value: unknown): [string, TokenFault] => [
  label,
  { answer: granted({ [name]: value }) },
]
const body = (label: string, text: string, type = 'application/json'): [string, TokenFault] => [
  label,
  { answer: () => new Response(text, { headers: { 'content-type': type } }) },
]
const answer = (label: string, given: Answer): [string, TokenFault] => [label, { answer: given }]

tryFaults('expires_in, accepted', accepted('token for 3600 s'), [
  field('expires_in', '3600', 3_600),
  field('expires_in', '"3600"', '3600'),
])
tryFaults('expires_in, capped at 10 years', accepted('token for 10 years'), [
  field('expires_in', '20 years', 20 * 365 * 86_400),
  field('expires_in', '20 years, as a string', String(20 * 365 * 86_400)),
  field('expires_in', 'a number of 400 digits, as a string', '9'.repeat(400)),
])
tryFaults('expires_in, rejected', rejected('expires_in'), [
  field('expires_in', 'missing', undefined),
  field('expires_in', 'null', null),
  field('expires_in', '0', 0),
  field('expires_in', '"0"', '0'),
  field('expires_in', '-1', -1),
  field('expires_in', '3600.5', 3_600.5),
  field('expires_in', '"3600.5"', '3600.5'),
  field('expires_in', '"NaN"', 'NaN'),
  field('expires_in', '"Infinity"', 'Infinity'),
  body('1e400, which overflows a number', VALID.replace('3600', '1e400')),
  field('expires_in', 'true', true),
  field('expires_in', 'false', false),
  field('expires_in', '[3600]', [3_600]),
  field('expires_in', '{}', {}),
  field('expires_in', 'an empty string', ''),
  field('expires_in', '"an hour"', 'an hour'),
  field('expires_in', '"1e3"', '1e3'),
])

const BAD_TOKENS = [
  field('access_token', 'missing', undefined),
  field('access_token', 'null', null),
  field('access_token', 'empty', ''),
  field('access_token', 'a number', 5),
  field('access_token', 'an object', { value: 'head.body.sig' }),
  field('access_token', 'with a space', 'head body'),
  field('access_token', 'with a line break', 'head\r\nx-evil: 1'),
  field('access_token', 'with a quote', 'head"body'),
  field('access_token', 'with non-ASCII letters', 'hëad.body'),
  field('access_token', 'with = in the middle', 'head=body'),
]
tryFaults('access_token, rejected', rejected('access_token'), BAD_TOKENS)

it.for(BAD_TOKENS)(
  'authFetch sends nothing to the API if the access_token is invalid: %s',
  async ([, { answer = hang }]) => {
    const { provider, clock } = rig([(init) => answer(init, clock)])
    const api = vi.fn<typeof fetch>()
    await expect(createAuthFetch(provider, { fetch: api })(MERCHANT_URL)).rejects.toThrow(TokenResponseError)
    expect(api).not.toHaveBeenCalled()
  },
)

tryFaults('token_type, accepted', accepted('token for 1000 s'), [
  field('token_type', 'bearer', 'bearer'),
  field('token_type', 'BEARER', 'BEARER'),
])
tryFaults('token_type, rejected', rejected('token_type'), [
  field('token_type', 'missing', undefined),
  field('token_type', 'null', null),
  field('token_type', 'mac', 'mac'),
  field('token_type', 'DPoP', 'DPoP'),
  field('token_type', 'a number', 5),
])

tryFaults('other fields and types, ignored', accepted('token for 3600 s'), [
  body('scope missing', VALID),
  body('scope a number', VALID.replace('}', ',"scope":5}')),
  body('unknown fields', VALID.replace('}', ',"refresh_token":"x","id_token":{"a":[1]}}')),
  body('content type text/plain', VALID, 'text/plain'),
  body('content type text/html', VALID, 'text/html'),
  answer('no content type', () => new Response(new TextEncoder().encode(VALID))),
  body('exactly 64 KiB', VALID.padEnd(64 * 1024)),
])

tryFaults('the response body, rejected', rejected('body'), [
  body('HTML', '<html>maintenance</html>', 'text/html'),
  body('empty', ''),
  body('JSON cut short', VALID.slice(0, -5)),
  body('null', 'null'),
  body('an array', `[${VALID}]`),
  body('a number', '5'),
  body('a string', '"head.body.sig"'),
  answer('status 204', () => new Response(null, { status: 204 })),
  body('64 KiB plus one byte', VALID.padEnd(64 * 1024 + 1)),
  body('20 MiB', VALID.padEnd(20 * 1024 * 1024)),
])

const elsewhere = { location: 'https://elsewhere.test.example/oauth/token' }
for (const code of [301, 302, 303, 307, 308]) {
  tryFaults('redirects, never followed', { outcome: `TokenRequestError, ${code}`, ...ONE_REQUEST }, [
    answer(String(code), status(code, '', elsewhere)),
  ])
}

for (const [code, error] of [
  [400, 'invalid_request'],
  [400, 'invalid_grant'],
  [400, 'unauthorized_client'],
  [400, 'unsupported_grant_type'],
  [400, 'invalid_scope'],
  [401, 'invalid_client'],
  [403, 'access_denied'],
] as const) {
  tryFaults('error bodies (RFC 6749)', { outcome: `TokenRequestError, ${code}, ${error}`, ...ONE_REQUEST }, [
    answer(`${code} ${error}`, status(code, { error, error_description: 'What is wrong.' })),
  ])
}
const RETRIED = { requests: 3, ms: 600, background: { requests: 1, ms: 0 }, firstSuccessMs: 1_000 }
tryFaults(
  'error bodies (RFC 6749)',
  { outcome: 'TokenRequestError, 503, temporarily_unavailable', ...RETRIED },
  [answer('503 temporarily_unavailable', status(503, { error: 'temporarily_unavailable' }))],
)
