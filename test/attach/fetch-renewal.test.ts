// What a 401 means on fetch, and which bodies are sent a second time (contract 5.5, 5.6, 5.8).
import { Readable } from 'node:stream'
import { createAuthFetch } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { type HeadersGiven, scripted, useGround } from './calls.ts'

const ground = useGround()
const url = (path = '/orders') => ground.env.merchantUrl + path
async function revoked(): Promise<typeof fetch> {
  await ground.tokens.getToken()
  ground.env.revoke()
  return createAuthFetch(ground.tokens)
}
const form = () => {
  const data = new FormData()
  data.append('a\r\n"', 'x\ny')
  data.append('file', new File(['content'], 'f\n"ü.bin'))
  return data
}
const json = { method: 'POST', headers: { 'content-type': 'application/json', 'Idempotency-Key': 'k-1' } }
const BODIES: Record<string, () => [string | URL | Request, RequestInit?]> = {
  nothing: () => [url()],
  'a string': () => [url(), { ...json, body: '{"a":"€"}' }],
  'a Buffer': () => [url(), { ...json, body: Buffer.from([0xff, 1]) }],
  'a view of a part': () => [new URL(url()), { ...json, body: new Uint8Array([1, 2, 3]).subarray(1) }],
  'an ArrayBuffer': () => [url(), { ...json, body: new Uint8Array([7]).buffer }],
  URLSearchParams: () => [url(), { method: 'POST', body: new URLSearchParams({ a: 'b c' }) }],
  FormData: () => [url(), { method: 'PUT', body: form(), headers: [['Idempotency-Key', 'k-1']] }],
  'a Blob': () => [url(), { method: 'POST', body: new Blob(['blob'], { type: 'a/b' }) }],
  'a Request': () => [new Request(url(), { ...json, body: 'of the request' })],
  'a Request with a form': () => [new Request(url(), { method: 'POST', body: form() })],
  'a Request without a body': () => [new Request(url(), { headers: { 'x-mine': '1' } })],
  'a Request and another body': () => [new Request(url(), { ...json, body: 'no' }), { body: 'yes' }],
}

describe('a 401 on fetch', () => {
  it.each(Object.entries(BODIES))(
    'is answered by one renewal and one repeat of the same: %s',
    async (_, args) => {
      const authFetch = await revoked()
      const answer = await authFetch(...args())
      expect(answer.status).toBe(200)
      expect(((await answer.json()) as { api: string }).api).toBe('merchant')
      const [first, second, ...more] = ground.sent()
      expect(more).toEqual([])
      const { authorization: before, ...firstHeaders } = first?.headers ?? {}
      const { authorization: after, ...secondHeaders } = second?.headers ?? {}
      expect([second?.method, second?.path, secondHeaders]).toEqual([
        first?.method,
        first?.path,
        firstHeaders,
      ])
      expect(second?.body?.toString('latin1')).toBe(first?.body?.toString('latin1'))
      expect(after).not.toBe(before)
      expect(ground.env.counts.token).toBe(2)
    },
  )

  it('is answered with the very bytes that fetch itself would send of a form', async () => {
    const authFetch = await revoked()
    await authFetch(url(), { method: 'POST', body: form() })
    await fetch(url('/plain'), { method: 'POST', body: form() })
    const [, ours, plain] = ground.sent().map(({ body, headers }) => {
      const boundary = headers['content-type']?.split('boundary=')[1] ?? 'none'
      return String(body).replaceAll(boundary, 'BOUNDARY')
    })
    expect(ours).toBe(plain)
  })

  it.each<[string, () => RequestInit['body']]>([
    ['a stream', () => new Blob(['once']).stream()],
    [
      'an async generator',
      () =>
        (async function* () {
          yield Buffer.from('once')
        })() as never,
    ],
    ['a Node stream', () => Readable.from([Buffer.from('once')]) as never],
  ])('is the caller’s where the body is %s: it is sent once', async (_, body) => {
    const authFetch = await revoked()
    const answer = await authFetch(url(), { method: 'POST', body: body() ?? null, duplex: 'half' })
    expect(answer.status).toBe(401)
    expect(await answer.json()).toEqual({ error: 'invalid_token' })
    expect(ground.sent().map(({ body: sent }) => String(sent))).toEqual(['once'])
  })

  it('with renewOnStatus [] is the caller’s, and the body is not kept', async () => {
    await revoked()
    const authFetch = createAuthFetch(ground.tokens, { renewOnStatus: [] })
    const request = new Request(url(), { ...json, body: 'x' })
    const clone = vi.spyOn(request, 'clone')
    expect((await authFetch(request)).status).toBe(401)
    expect((await authFetch(url(), { method: 'POST', body: form() })).status).toBe(401)
    expect(clone).not.toHaveBeenCalled()
    expect(ground.env.counts.token).toBe(1)
  })

  it('on the repeat too is the caller’s own, after exactly two sends', async () => {
    ground.env.configure({ rejectAllTokens: true })
    const answer = await createAuthFetch(ground.tokens)(url())
    expect([answer.status, await answer.json()]).toEqual([401, { error: 'invalid_token' }])
    expect(ground.sent().length).toBe(2)
    expect(ground.env.counts.token).toBe(2)
  })

  it('is the API’s own, body and all, where the token endpoint is down', async () => {
    const authFetch = await revoked()
    ground.env.fail('token', { kind: 'status', status: 400 })
    const answer = await authFetch(url())
    expect([answer.status, await answer.json()]).toEqual([401, { error: 'invalid_token' }])
  })

  it.each([
    [403, {}],
    [401, { 'www-authenticate': 'Bearer error="insufficient_scope", scope="more"' }],
    [500, {}],
  ])('%i with %o renews nothing', async (status, headers) => {
    ground.env.fail('merchant', { kind: 'status', status, headers })
    expect((await createAuthFetch(ground.tokens)(url())).status).toBe(status)
    expect(ground.env.counts.token).toBe(1)
  })

  it('whose Request was used up before is as fetch has it', async () => {
    const request = new Request(url(), { ...json, body: 'x' })
    await request.text()
    await expect(createAuthFetch(ground.tokens)(request)).rejects.toThrow(TypeError)
  })
})

describe('the body of a 401 that is not handed out', () => {
  async function with401(bytes: number, length: boolean) {
    const tokens = await revoked().then(() => ground.tokens)
    const cancel = vi.fn()
    let pulled = 0
    const body = new ReadableStream({
      type: 'bytes',
      pull: (controller) => {
        pulled += 1
        if (pulled * 1024 > bytes) controller.close()
        else controller.enqueue(new Uint8Array(1024))
      },
      cancel,
    })
    const headers: HeadersGiven = length ? { 'content-length': String(bytes) } : {}
    const refusal = new Response(bytes === 0 ? null : body, { status: 401, headers })
    let sends = 0
    const answer = await createAuthFetch(tokens, {
      fetch: async () => {
        sends += 1
        return sends === 1 ? refusal : new Response('fine')
      },
    })(url())
    expect(await answer.text()).toBe('fine')
    await vi.waitFor(() =>
      expect(
        bytes === 0 || refusal.body?.locked === false || cancel.mock.calls.length > 0 || pulled > 1,
      ).toBe(true),
    )
    await new Promise((resolve) => setTimeout(resolve, 20))
    return { cancelled: cancel.mock.calls.length, pulled }
  }

  it('is drained if small', async () => {
    expect(await with401(10 * 1024, false)).toEqual({ cancelled: 0, pulled: 11 })
  })
  it('may be none', async () => {
    expect((await with401(0, false)).cancelled).toBe(0)
  })
  it('is cancelled if its length says that it is large', async () => {
    expect(await with401(1024 * 1024, true)).toEqual({ cancelled: 1, pulled: expect.any(Number) })
  })
  it('is cancelled as soon as it turns out to be large', async () => {
    const { cancelled, pulled } = await with401(1024 * 1024, false)
    expect(cancelled).toBe(1)
    expect(pulled).toBeLessThan(100)
  })
})

describe('answers', () => {
  it('stream as they come', async () => {
    const held = Promise.withResolvers<void>()
    await using server = await scripted(async (_, response) => {
      response.write('first')
      await held.promise
      response.end('second')
    })
    const tokens = ground.provider({ environment: { ...ground.env.environment, apiUrls: [server.url] } })
    const { body } = await createAuthFetch(tokens)(server.url)
    const reader = body?.getReader()
    expect(String(Buffer.from((await reader?.read())?.value ?? []))).toBe('first')
    held.resolve()
    expect(String(Buffer.from((await reader?.read())?.value ?? []))).toBe('second')
  })

  it('and errors are those of the wrapped fetch', async () => {
    const response = new Response('own')
    const failure = new TypeError('own failure')
    const wrapped = vi.fn<typeof fetch>().mockResolvedValueOnce(response).mockRejectedValueOnce(failure)
    const authFetch = createAuthFetch(ground.tokens, { fetch: wrapped })
    expect(await authFetch(url())).toBe(response)
    await expect(authFetch(url())).rejects.toBe(failure)
  })

  it('abort errors in the middle of a body too', async () => {
    ground.env.fail('merchant', { kind: 'hang', at: 'body' })
    const abort = new AbortController()
    const answer = await createAuthFetch(ground.tokens)(url(), { signal: abort.signal })
    abort.abort()
    await expect(answer.text()).rejects.toMatchObject({ name: 'AbortError' })
  })
})
