import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import { TokenResponseError } from 'merchant-auth'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { type Answer, granted, rejection, rig } from './harness.ts'

afterEach(() => void vi.restoreAllMocks())

const SECONDS_IN_10_YEARS = 10 * 365 * 86_400
const text = (body: string, type = 'application/json'): Answer => {
  return () => new Response(body, { headers: { 'content-type': type } })
}

async function issuesOf(answer: Answer): Promise<string[]> {
  const { provider, endpoint, clock } = rig([answer])
  const error = await rejection<TokenResponseError>(provider.getToken())
  expect(error).toBeInstanceOf(TokenResponseError)
  expect(error).toMatchObject({ code: 'ERR_TOKEN_RESPONSE', name: 'TokenResponseError' })
  expect(error.message).toContain('POST https://auth.test.example/oauth/token')
  await clock.advance(900)
  expect(endpoint.count, 'not retried within the call').toBe(1)
  expect(provider.currentToken()).toBeUndefined()
  return [...new Set(error.issues.map(({ field }) => field))]
}

describe('expires_in', () => {
  it.each([
    [3_600, 3_600],
    ['3600', 3_600],
    [1, 1],
    [36_000, 36_000],
    [86_400, 86_400],
    ['007', 7],
  ])('of %j is a lifetime', async (expires_in, seconds) => {
    const { provider, clock } = rig([granted({ expires_in })])
    expect((await provider.getToken()).expiresAt).toBe(clock.epochMs() + seconds * 1_000)
  })

  it.each([SECONDS_IN_10_YEARS + 3 * 86_400, 1e15, '99999999999999999999', '9'.repeat(400)])(
    'of %s is clamped to 10 years',
    async (expires_in) => {
      const { provider, clock } = rig([granted({ expires_in })])
      const lifetime = (await provider.getToken()).expiresAt - clock.epochMs()
      expect(Math.round(lifetime / (365.25 * 86_400_000))).toBe(10)
    },
  )

  it.each([
    ['missing', undefined],
    ['null', null],
    ['0', 0],
    ['"0"', '0'],
    ['negative', -1],
    ['"-1"', '-1'],
    ['fractional', 3_600.5],
    ['fractional text', '3600.5'],
    ['true', true],
    ['false', false],
    ['an array', [3_600]],
    ['an object', {}],
    ['empty text', ''],
    ['a blank', ' '],
    ['text with blanks', ' 3600 '],
    ['exponential text', '1e3'],
    ['hexadecimal text', '0x10'],
    ['"NaN"', 'NaN'],
    ['"Infinity"', 'Infinity'],
    ['other text', 'an hour'],
    ['other digits', '٣٦'],
  ])('%s is refused, by name', async (_, expires_in) => {
    expect(await issuesOf(granted({ expires_in }))).toEqual(['expires_in'])
  })

  it.each([0, -1, 1.5, '', '-1', 'an hour', null])(
    'of %j is told once, with the reason',
    async (expires_in) => {
      const error = await rejection<TokenResponseError>(rig([granted({ expires_in })]).provider.getToken())
      expect(error.issues).toEqual([{ field: 'expires_in', reason: expect.stringMatching(/second|number/) }])
    },
  )

  it('beyond all numbers is refused', async () => {
    const body = '{"access_token":"a.b.c","token_type":"Bearer","expires_in":1e400}'
    expect(await issuesOf(text(body))).toEqual(['expires_in'])
  })
})

describe('access_token', () => {
  it.each(['a', 'a.b.c', 'AZaz09-._~+/', 'abc=', 'abc=='])('of %s is accepted', async (access_token) => {
    const { provider } = rig([granted({ access_token })])
    expect((await provider.getToken()).value).toBe(access_token)
  })

  it.each([
    ['missing', undefined],
    ['null', null],
    ['empty', ''],
    ['a number', 5],
    ['an object', { a: 1 }],
    ['with a blank', 'abc def'],
    ['with a line break', 'abcdef\r\nX-Evil: 1'],
    ['with a line break at its end', 'abcdef\n'],
    ['with a tab', 'abc\tdef'],
    ['with a quote', 'abc"def'],
    ['with a comma', 'abc,def'],
    ['with letters beyond ASCII', 'abcdéf'],
    ['with = in the middle', 'abc=def'],
    ['of = alone', '==='],
  ])('%s is refused, by name', async (_, access_token) => {
    expect(await issuesOf(granted({ access_token }))).toEqual(['access_token'])
  })
})

describe('token_type and scope', () => {
  it.each(['Bearer', 'bearer', 'BEARER', 'bEaReR'])('token_type %s is accepted', async (token_type) => {
    const { provider } = rig([granted({ token_type })])
    expect((await provider.getToken()).tokenType).toBe('Bearer')
  })

  it.each([undefined, null, '', 'mac', 'DPoP', 'Bearer ', 'xBearer', 5])(
    'token_type %j is refused',
    async (token_type) => {
      expect(await issuesOf(granted({ token_type }))).toEqual(['token_type'])
    },
  )

  it('scope is handed on where there is one, and may be missing', async () => {
    expect((await rig([granted({ scope: 'merchant' })]).provider.getToken()).scope).toBe('merchant')
    expect((await rig([granted()]).provider.getToken()).scope).toBeUndefined()
  })

  const LONG = Array.from({ length: 6_000 }, (_, n) => `scope:${n}`).join(' ') // 64 KiB is the limit

  it('a scope is handed on whole, however long', async () => {
    const token = await rig([granted({ scope: LONG })]).provider.getToken()
    expect(token.scope).toBe(LONG)
  })

  it.each([
    ['the token', {}, 'head.body.signature'],
    ['a client secret', { clientSecret: 'swordfish/abc' }, 'swordfish/abc'],
    ['a client secret of several words', { clientSecret: 'sword fish and chips' }, 'sword fish and chips'],
    ['an encoded client secret', { clientSecret: 'sword fish/abc' }, 'sword%20fish%2Fabc'],
  ])('a long scope with %s anywhere in it is hidden', async (_, options, secret) => {
    for (const at of [0, 3_990, 4_000, 7_995, 30_000, LONG.length]) {
      const scope = `${LONG.slice(0, at)} ${secret} ${LONG.slice(at)}`
      const { provider } = rig([granted({ access_token: 'head.body.signature', scope })], options)
      expect((await provider.getToken()).scope).toBe('[hidden]')
    }
  })

  it.each([5, null, ['merchant'], {}])('scope %j, which is no text, is left out', async (scope) => {
    const token = await rig([granted({ scope })]).provider.getToken()
    expect(token.scope).toBeUndefined()
    expect(JSON.parse(JSON.stringify(token))).not.toHaveProperty('scope')
  })

  it('every bad field is named', async () => {
    const bad = granted({ access_token: '', expires_in: 0, token_type: 'mac' })
    expect((await issuesOf(bad)).sort()).toEqual(['access_token', 'expires_in', 'token_type'])
  })
})

describe('the answer as a whole', () => {
  const VALID = '{"access_token":"a.b.c","token_type":"Bearer","expires_in":3600}'

  it.each([
    ['unknown further fields', granted({ refresh_token: 'x', id_token: 5, __proto__: {} })],
    ['text/plain around JSON', text(VALID, 'text/plain')],
    ['text/html around JSON', text(VALID, 'text/html')],
    ['a byte order mark', text(`\uFEFF${VALID}`)],
    ['a body just below 64 KiB', text(VALID.padEnd(64 * 1024))],
    ['status 201', () => new Response(VALID, { status: 201 })],
  ])('with %s is accepted', async (_, answer) => {
    await expect(rig([answer]).provider.getToken()).resolves.toBeDefined()
  })

  it.each([
    ['HTML', text('<html>maintenance</html>', 'text/html')],
    ['nothing', text('')],
    ['no body at all', () => new Response(null, { status: 200 })],
    ['status 204', () => new Response(null, { status: 204 })],
    ['truncated JSON', text(VALID.slice(0, -5))],
    ['null', text('null')],
    ['an array', text(`[${VALID}]`)],
    ['a number', text('5')],
    ['a string', text('"a.b.c"')],
    ['a body over 64 KiB', text(VALID.padEnd(64 * 1024 + 1))],
  ])('of %s is refused', async (_, answer) => {
    expect((await issuesOf(answer)).length).toBeGreaterThan(0)
  })

  it.each([
    ['as gzip and is not', 'gzip', Buffer.from(VALID)],
    ['as deflate and is not', 'deflate', Buffer.from(VALID)],
    ['as br and is not', 'br', Buffer.alloc(40, 255)],
  ])('that is announced %s is refused, and not retried', async (_, encoding, body) => {
    const headers = { 'content-encoding': encoding, 'content-type': 'application/json' }
    const server = createServer((_, response) => response.writeHead(200, headers).end(body))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const ask: Answer = () => fetch(url)
    try {
      expect(await issuesOf(ask)).toEqual(['body'])
    } finally {
      server.closeAllConnections()
      server.close()
    }
  })

  it('is cut off after 64 KiB, however much would follow', async () => {
    let pulled = 0
    const cancelled = vi.fn()
    const endless: Answer = () =>
      new Response(
        new ReadableStream({
          pull(controller) {
            pulled += 1
            controller.enqueue(new Uint8Array(16 * 1024))
          },
          cancel: cancelled,
        }),
      )
    expect(await issuesOf(endless)).toEqual(['body'])
    expect(pulled).toBeLessThan(10)
    expect(cancelled).toHaveBeenCalledTimes(1)
  })

  it('in characters of many bytes, split anywhere, is read right', async () => {
    const bytes = new TextEncoder().encode(VALID.replace('}', ',"scope":"größe"}'))
    const dripped: Answer = () =>
      new Response(
        new ReadableStream({
          start(controller) {
            for (const byte of bytes) controller.enqueue(Uint8Array.of(byte))
            controller.close()
          },
        }),
      )
    expect((await rig([dripped]).provider.getToken()).scope).toBe('größe')
  })

  it('is echoed in no error', async () => {
    const { provider } = rig([text('{"access_token":"eyJ0b2tlbg.body.sig" oops')])
    expect(inspect(await rejection(provider.getToken()), { depth: 9 })).not.toContain('eyJ0b2tlbg')
  })
})

describe('a token that is past its margin when it arrives', () => {
  it('is no token: a TokenResponseError, an event that says so, and no second attempt', async () => {
    const made = rig()
    made.endpoint.answers.push(async (init) => {
      await made.clock.sleep(950)
      return await granted({ expires_in: 1 })(init)
    })
    const waiting = rejection<TokenResponseError>(made.provider.getToken())
    await made.clock.advance(950) // the margin of a token of 1 s is 50 ms
    expect((await waiting).issues.map(({ field }) => field)).toEqual(['expires_in'])
    expect(made.endpoint.count).toBe(1)
    expect(made.events.map(({ type }) => type)).toEqual(['token-requested', 'token-request-failed'])
  })
})
