// Adapters of callers that answer, or fail, as axios' own never would.
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { describe, expect, it, vi } from 'vitest'
import { ADAPTERS, useGround } from './calls.ts'

const ground = useGround()

describe('answers of unusual adapters', () => {
  it('pass through: an answer without headers, and a 401 that is an object alone', async () => {
    let calls = 0
    const adapter = async (final: unknown) => {
      calls += 1
      return { status: 401, data: { on: 1 }, config: final, statusText: '', headers: undefined }
    }
    const api = ground.api({ adapter: adapter as never })
    expect((await api.get('/orders')).status).toBe(401)
    expect(calls).toBe(2)
  })

  it('may give a stream that fails with anything', async () => {
    const stream = new PassThrough()
    const adapter = async (final: unknown) => ({
      status: 200,
      data: stream,
      config: final,
      statusText: '',
      headers: {},
    })
    await ground.api({ adapter: adapter as never }).get('/orders')
    const failed = once(stream, 'error')
    stream.emit('error', 'text')
    expect(await failed).toEqual(['text'])
  })
})

describe('what is put on Object.prototype', () => {
  const put = {
    transport: { request: vi.fn() },
    httpAgent: { addRequest: vi.fn() },
    proxy: { host: '127.0.0.1', port: 1 },
    beforeRedirect: vi.fn(),
    fetch: vi.fn(),
  }

  it.each(ADAPTERS)('reaches axios through us no more than without us: %s', async (adapter) => {
    const api = ground.api({ adapter })
    await ground.tokens.getToken()
    Object.assign(Object.prototype, put)
    try {
      expect((await api.get('/orders')).status).toBe(200)
      expect((await api.get(ground.env.inStoreUrl)).status).toBe(200)
    } finally {
      for (const key of Object.keys(put)) Reflect.deleteProperty(Object.prototype, key)
    }
    for (const mock of [put.transport.request, put.httpAgent.addRequest, put.beforeRedirect, put.fetch])
      expect(mock).not.toHaveBeenCalled()
  })
})
