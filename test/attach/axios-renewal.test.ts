// What a 401 means on axios, and which bodies are sent a second time (contract 5.5 and 5.6).
import { Readable } from 'node:stream'
import FormDataPackage from 'form-data'
import { TokenRequestError } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { ADAPTERS, functionAdapter, statusOf, useGround } from './calls.ts'

const ground = useGround()

/** A provider's first token, revoked: the next call gets a 401. */
async function revokedToken(): Promise<void> {
  await ground.tokens.getToken()
  ground.env.revoke()
}

const form = () => {
  const data = new FormData()
  data.append('na"me\n', 'line\nbreak')
  data.append('file', new File(['\u00ff\r\n'], 'a "b".txt'))
  data.append('typed', new Blob(['{}'], { type: 'application/json' }), 'c.json')
  return data
}
const REPEATED: Record<string, () => unknown> = {
  nothing: () => undefined,
  string: () => 'text €',
  object: () => ({ sum: '12 €' }),
  array: () => [1, 2],
  Buffer: () => Buffer.from([0xff, 0, 1]),
  'a view of a part': () => new Uint8Array(new Uint8Array([1, 2, 3, 4]).buffer, 1, 2),
  ArrayBuffer: () => new Uint8Array([5, 6]).buffer,
  URLSearchParams: () => new URLSearchParams({ a: '1 2' }),
  FormData: form,
  Blob: () => new Blob(['blob'], { type: 'text/plain' }),
}
const ONCE: Record<string, () => unknown> = {
  'a Node stream': () => Readable.from([Buffer.from('once')]),
  'the form-data package': () => {
    const data = new FormDataPackage()
    data.append('a', 'once')
    return data
  },
}
const ONCE_FETCH: Record<string, () => unknown> = {
  'a Node stream': () => Readable.from([Buffer.from('once')]),
  'a web stream': () => new Blob(['once']).stream(),
}

for (const adapter of [...ADAPTERS, functionAdapter]) {
  describe(`a 401 on axios with ${typeof adapter === 'function' ? 'a function' : adapter} as adapter`, () => {
    // A caller's own function gets the form itself, and makes up a boundary for each send.
    const repeated = Object.entries(REPEATED).filter(
      ([name]) => adapter !== functionAdapter || name !== 'FormData',
    )
    for (const [name, body] of repeated) {
      it(`is answered by one renewal and one repeat of the same: ${name}`, async () => {
        await revokedToken()
        const answer = await ground.api({ adapter }).request({
          method: 'PATCH',
          url: '/orders/7?a=1',
          params: { b: '2' },
          data: body(),
          headers: { 'Idempotency-Key': 'k-1' },
        })
        expect(answer.status).toBe(200)
        const [first, second, ...more] = ground.sent()
        expect(more).toEqual([])
        expect(first?.status).toBe(401)
        expect(second?.path).toBe('/merchant/orders/7?a=1&b=2')
        expect(second?.method).toBe('PATCH')
        expect(second?.body?.toString('latin1')).toBe(first?.body?.toString('latin1'))
        if (name !== 'nothing') expect(first?.body?.length).toBeGreaterThan(0)
        const { authorization: before, ...firstHeaders } = first?.headers ?? {}
        const { authorization: after, ...secondHeaders } = second?.headers ?? {}
        expect(secondHeaders).toEqual(firstHeaders)
        expect(secondHeaders['idempotency-key']).toBe('k-1')
        expect(after).not.toBe(before)
        expect(ground.env.counts.token).toBe(2)
      })
    }

    for (const [name, body] of Object.entries(adapter === 'fetch' ? ONCE_FETCH : ONCE)) {
      it(`is the caller's where the body is ${name}: it is sent once`, async () => {
        await revokedToken()
        const api = ground.api({ adapter })
        const call = api.post('/orders', body(), { headers: { 'content-type': 'text/plain' } })
        expect(await statusOf(call)).toBe(401)
        expect(ground.sent().map(({ body }) => body?.includes('once'))).toEqual([true])
      })
    }

    it('on the repeat too is the caller’s own, after exactly two sends', async () => {
      ground.env.configure({ rejectAllTokens: true })
      await expect(ground.api({ adapter }).post('/orders', { a: 1 })).rejects.toMatchObject({
        name: 'AxiosError',
        code: 'ERR_BAD_REQUEST',
        response: { status: 401, data: { error: 'invalid_token' } },
      })
      expect(ground.sent().length).toBe(2)
      expect(ground.env.counts.token).toBe(2)
    })

    it('is the API’s own where the token endpoint is down', async () => {
      await revokedToken()
      ground.env.fail('token', { kind: 'status', status: 400, body: { error: 'invalid_request' } })
      await expect(ground.api({ adapter }).get('/orders')).rejects.toMatchObject({
        response: { status: 401, data: { error: 'invalid_token' } },
      })
      expect(ground.sent().length).toBe(1)
    })

    it('is answered with validateStatus: () => true, and with a 401 resolved', async () => {
      await revokedToken()
      const api = ground.api({ adapter, validateStatus: () => true })
      expect((await api.get('/orders')).status).toBe(200)
      ground.env.configure({ rejectAllTokens: true })
      expect((await api.get('/orders')).status).toBe(401)
    })

    it.each(['text', 'json', 'arraybuffer', 'stream'] as const)(
      'is answered with the response type %s, and the first answer lets go of its connection',
      async (responseType) => {
        await revokedToken()
        const answer = await ground.api({ adapter }).get('/orders', { responseType })
        expect(answer.status).toBe(200)
        if (responseType === 'stream') {
          const chunks: Uint8Array[] = []
          for await (const chunk of answer.data) chunks.push(chunk)
          expect(Buffer.concat(chunks).toString()).toContain('"api":"merchant"')
        }
      },
    )

    it('with a long stream is answered, and the stream cancelled', async () => {
      await ground.tokens.getToken()
      ground.env.fail('merchant', { kind: 'text', status: 401, body: 'x'.repeat(100_000) })
      const answer = await ground.api({ adapter }).get('/orders', { responseType: 'stream' })
      expect(answer.status).toBe(200)
      if (typeof answer.data.destroy === 'function') answer.data.destroy()
      else await answer.data.cancel()
    })
  })
}

describe('renewals on axios', () => {
  it('do not happen with renewOnStatus []', async () => {
    await revokedToken()
    expect(await statusOf(ground.api({}, { renewOnStatus: [] }).post('/orders', form()))).toBe(401)
    expect(ground.env.counts.token).toBe(1)
    expect(ground.sent().length).toBe(1)
  })

  it('happen upon other statuses where they are named', async () => {
    ground.env.fail('merchant', { kind: 'status', status: 419 })
    expect(await statusOf(ground.api({}, { renewOnStatus: [419] }).get('/orders'))).toBe(200)
    expect(ground.env.counts.token).toBe(2)
  })

  it.each([
    ['403', { status: 403 }],
    ['503', { status: 503 }],
    [
      'insufficient_scope',
      { status: 401, headers: { 'WWW-Authenticate': 'Bearer error="insufficient_scope"' } },
    ],
    [
      'it unquoted',
      { status: 401, headers: { 'www-authenticate': 'bearer realm=x, error=insufficient_scope' } },
    ],
  ])('do not happen upon %s', async (_, fault) => {
    ground.env.fail('merchant', { kind: 'status', ...fault })
    expect(await statusOf(ground.api().get('/orders'))).toBe(fault.status)
    expect(ground.env.counts.token).toBe(1)
    expect(ground.sent().length).toBe(1)
  })

  it('give a newer token at once where there is one', async () => {
    const old = await ground.tokens.getToken()
    ground.env.configure({ apiLatencyMs: 30 })
    ground.env.revoke()
    const call = ground.api().get('/orders')
    await ground.tokens.renewToken(old)
    expect((await call).status).toBe(200)
    expect(ground.env.counts.token).toBe(2)
  })

  it('reject a first call as getToken does where no token can be had', async () => {
    ground.env.fail('token', { kind: 'status', status: 400, body: { error: 'invalid_client' } })
    const call = ground.api().get('/orders')
    await expect(call).rejects.toBeInstanceOf(TokenRequestError)
    await expect(call).rejects.toMatchObject({ status: 400, error: 'invalid_client' })
    expect(ground.sent()).toEqual([])
  })

  it('keep timeout, signal and progress callbacks of the call', async () => {
    await revokedToken()
    const { signal } = new AbortController()
    const progress: number[] = []
    const onUploadProgress = ({ loaded }: { loaded: number }) => progress.push(loaded)
    const seen: unknown[] = []
    const adapter = ((config) => {
      seen.push([config.timeout, config.signal === signal, config.onUploadProgress === onUploadProgress])
      return functionAdapter(config)
    }) as typeof functionAdapter
    await ground.api({ adapter }).post('/orders', 'abc', { timeout: 61_234, signal, onUploadProgress })
    expect(ground.sent().length).toBe(2)
    expect(seen).toEqual([
      [61_234, true, true],
      [61_234, true, true],
    ])
    expect(progress.filter((loaded) => loaded === 3)).toHaveLength(2)
  })

  it('run transforms once, on the data of the caller', async () => {
    await revokedToken()
    let transformed = 0
    const answer = await ground.api().post(
      '/orders',
      { a: 1 },
      {
        transformRequest: [
          (data) => {
            transformed += 1
            return JSON.stringify(data)
          },
        ],
        transformResponse: [(data) => [data]],
      },
    )
    expect(transformed).toBe(1)
    expect(answer.data).toEqual([expect.stringContaining('"body":"{\\"a\\":1}"')])
  })
})
