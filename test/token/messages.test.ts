/** Every message of a failed token request, to the letter: what failed, where, and what to do next. */
import type { TokenProviderOptions, TokenRequestError, TokenResponseError } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { ManualClock } from '../support/clock.ts'
import {
  type Answer,
  breaksOff,
  deaf,
  granted,
  noConnection,
  rejection,
  rig,
  SECRET,
  status,
} from './harness.ts'

const WHERE = 'POST https://auth.test.example/oauth/token'

/** What a call rejects with after `waitedMs` of one attempt. */
async function failure<T extends Error = TokenRequestError>(
  answer: Answer,
  options: Partial<TokenProviderOptions> = {},
  waitedMs = 0,
): Promise<T> {
  const { provider, clock } = rig([answer], { retries: 0, ...options })
  const waiting = rejection<T>(provider.getToken())
  await clock.advance(waitedMs)
  return await waiting
}

const FORMAT =
  "Check authUrl, clientId and audience. A server that takes a form instead of JSON needs bodyFormat: 'form'."
const oauth = (error?: string, error_description?: string) => ({ error, error_description })

describe('the message of a status', () => {
  it.each([
    [400, '', ` answered 400. ${FORMAT}`],
    [415, '', ` answered 415. ${FORMAT}`],
    [400, oauth('unsupported_grant_type'), ` answered 400 (unsupported_grant_type). ${FORMAT}`],
    [400, oauth('invalid_scope'), ' answered 400 (invalid_scope). Check authUrl, clientId and audience.'],
    [404, '<html>', ' answered 404. Check authUrl, clientId and audience.'],
    [401, '', ' answered 401. Check clientId and clientSecret.'],
    [400, oauth('invalid_client'), ' answered 400 (invalid_client). Check clientId and clientSecret.'],
    [403, '', ' answered 403. Check that this client may ask for this audience.'],
    [
      400,
      oauth('access_denied'),
      ' answered 400 (access_denied). Check that this client may ask for this audience.',
    ],
    [408, '', ' answered 408. The token endpoint is in trouble: try again later.'],
    [429, '', ' answered 429. Too many token requests: try again later.'],
    [499, '', ' answered 499. Check authUrl, clientId and audience.'],
    [500, '', ' answered 500. The token endpoint is in trouble: try again later.'],
    [503, '', ' answered 503. The token endpoint is in trouble: try again later.'],
    [
      400,
      oauth('invalid_request', 'No audience.'),
      ` answered 400 (invalid_request: No audience.). ${FORMAT}`,
    ],
    [400, oauth(undefined, 'No audience.'), ` answered 400 (No audience.). ${FORMAT}`],
    [400, oauth('', ''), ` answered 400. ${FORMAT}`],
  ])('%i with %j says what was answered and what to do', async (code, body, message) => {
    expect((await failure(status(code, body))).message).toBe(WHERE + message)
  })

  it.each([400, 415])('%i to a form says nothing of the form', async (code) => {
    const error = await failure(status(code, oauth('invalid_request')), { bodyFormat: 'form' })
    expect(error.message).toBe(
      `${WHERE} answered ${code} (invalid_request). Check authUrl, clientId and audience.`,
    )
  })

  it('says how long the endpoint asks to be left alone', async () => {
    const error = await failure(status(429, oauth('slow_down'), { 'retry-after': '45' }))
    expect(error.message).toBe(
      `${WHERE} answered 429 (slow_down). It asks for a pause of 45000 ms. Too many token requests: try again later.`,
    )
  })

  it.each([
    ['https://x.example/?secret', ' to https://x.example'],
    ['/login', ''], // the answer of a stub has no URL that it is relative to
    ['https://[', ''],
    [undefined, ''],
  ])('that redirects to %j says where to, and that nothing is followed', async (location, to) => {
    const headers: Record<string, string> = location === undefined ? {} : { location }
    expect((await failure(status(307, '', headers))).message).toBe(
      `${WHERE} answered with a redirect${to}, which is never followed: the secret would go along. Check authUrl.`,
    )
  })

  it('without words of the endpoint leaves those fields out', async () => {
    const error = await failure(status(400, oauth('', '')))
    expect([error.error, error.errorDescription]).toEqual([undefined, undefined])
  })

  it('ends, for a call in the cooldown, with what remains of it', async () => {
    const { provider, clock } = rig([status(503)], { retries: 0 })
    await rejection(provider.getToken())
    await clock.advance(400)
    expect((await rejection(provider.getToken())).message).toBe(
      `${WHERE} answered 503. The token endpoint is in trouble: try again later.` +
        ' The token endpoint is not asked again for another 600 ms after this failure.',
    )
  })
})

describe('the message of no answer', () => {
  it('names the code of the innermost error that has one', async () => {
    expect((await failure(noConnection)).message).toBe(
      `${WHERE} got no answer (ECONNREFUSED). Check authUrl and the network.`,
    )
  })

  it('goes without where there is none', async () => {
    expect((await failure(() => Promise.reject(new TypeError('fetch failed')))).message).toBe(
      `${WHERE} got no answer. Check authUrl and the network.`,
    )
  })

  it('is another where it began, and broke off before its end', async () => {
    expect((await failure(breaksOff())).message).toBe(
      `${WHERE} got an answer that broke off before its end (ECONNRESET). Try again later, or check the network, proxies and firewalls.`,
    )
  })

  it.each([
    [undefined, 10_000],
    [801, 801],
  ])('in time (timeoutMs: %s) says how long was waited', async (timeoutMs, waitedMs) => {
    expect((await failure(deaf, { timeoutMs }, waitedMs)).message).toBe(
      `${WHERE} was not answered within ${waitedMs} ms. ` +
        'The token endpoint hangs or is slow: try again later, or raise timeoutMs.',
    )
  })
})

describe('the message of a clientSecret function', () => {
  const NEXT = `, so no token was requested at https://auth.test.example/oauth/token.`

  it.each([
    ['that throws', () => Promise.reject(new Error(SECRET)), 'threw'],
    ['that yields nothing', () => '', 'yielded no secret'],
    ['that hangs', () => new Promise<string>(() => {}), 'did not answer in time'],
  ])('%s says so', async (_, clientSecret, what) => {
    const error = await failure(granted(), { clientSecret }, 10_000)
    expect(error.message).toBe(`The clientSecret function ${what}${NEXT}`)
    expect(error.retryable).toBe(true)
  })
})

describe('the message and the issues of an answer that is no token response', () => {
  const TOKEN = 'must be a non-empty string of the characters of a bearer token (RFC 6750 §2.1)'
  const EXPIRES = 'must be a positive whole number of seconds'
  const text = (body: string | null) => () => new Response(body)

  it.each([
    ['no access_token', granted({ access_token: undefined }), 'access_token', TOKEN],
    ['a bad access_token', granted({ access_token: 'a b' }), 'access_token', TOKEN],
    ['expires_in missing', granted({ expires_in: undefined }), 'expires_in', EXPIRES],
    ['expires_in 0', granted({ expires_in: 0 }), 'expires_in', EXPIRES],
    ['expires_in "0"', granted({ expires_in: '0' }), 'expires_in', EXPIRES],
    ['expires_in -1', granted({ expires_in: -1 }), 'expires_in', EXPIRES],
    ['no token_type', granted({ token_type: undefined }), 'token_type', 'must be Bearer'],
    ['token_type xBearer', granted({ token_type: 'xBearer' }), 'token_type', 'must be Bearer'],
    ['token_type mac', granted({ token_type: 'mac' }), 'token_type', 'must be Bearer'],
    ['HTML', text('<html>'), 'body', 'must be a JSON object'],
    ['nothing', text(''), 'body', 'must be a JSON object'],
    ['no body', text(null), 'body', 'must be a JSON object'],
    ['64 KiB and a byte', text(' '.repeat(65_537)), 'body', 'must not be longer than 65536 bytes'],
  ])('for %s name the field and the reason', async (_, answer, field, reason) => {
    const error = await failure<TokenResponseError>(answer)
    expect(error.issues).toEqual([{ field, reason }])
    expect(error.message).toBe(
      `${WHERE} gave an answer that is not a token response: ${field} ${reason}. Check authUrl.`,
    )
  })

  it('name all of them at once', async () => {
    expect((await failure(granted({ expires_in: null, token_type: 5 }))).message).toBe(
      `${WHERE} gave an answer that is not a token response: expires_in ${EXPIRES}; token_type must be Bearer. Check authUrl.`,
    )
  })

  it('for a token that was over when it came say that its life is too short', async () => {
    const clock = new ManualClock()
    const late: Answer = async (init) => {
      await clock.sleep(950)
      return await granted({ expires_in: 1 })(init)
    }
    const { provider } = rig([late], { clock, retries: 0 })
    const waiting = rejection<TokenResponseError>(provider.getToken())
    await clock.advance(950)
    const error = await waiting
    expect(error.issues).toEqual([{ field: 'expires_in', reason: 'is shorter than the request took' }])
    expect(error.message).toBe(
      `${WHERE} gave a token that had expired before it could be used. ` +
        'Its lifetime is too short for the time that the answer takes.',
    )
  })
})
