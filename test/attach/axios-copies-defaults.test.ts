// Defaults that an interceptor took off a call, on a copy of axios that nobody knows: they stay off (contract 5.1, 5.2).
import { createServer, type RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AxiosInstance, CreateAxiosDefaults, InternalAxiosRequestConfig } from 'axios'
import { attachAuth } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { unknownCopy } from './axios-fakes.ts'
import { scripted, useGround } from './calls.ts'

const ground = useGround()

/** An instance of such a copy, whose calls an interceptor changes. */
function instance(
  config: CreateAxiosDefaults,
  change: (config: InternalAxiosRequestConfig) => void,
): AxiosInstance {
  const api = unknownCopy().create({ baseURL: ground.env.merchantUrl, validateStatus: () => true, ...config })
  api.interceptors.request.use((given) => {
    change(given)
    return given
  })
  attachAuth(api, ground.tokens)
  return api
}

describe('a default that an interceptor took off', () => {
  it('does not come back: a header and a parameter', async () => {
    const api = instance({ headers: { 'X-Key': 'mine' }, params: { a: '1' } }, (config) => {
      config.headers.delete('X-Key')
      delete config.params
    })
    await api.get('/1')
    const [sent] = ground.sent()
    expect([sent?.path, sent?.headers['x-key']]).toEqual(['/merchant/1', undefined])
  })

  it('does not take the token elsewhere: a base URL', async () => {
    await using elsewhere = await scripted((_, response) => void response.end())
    const api = instance({ baseURL: elsewhere.url, allowAbsoluteUrls: false }, (config) => {
      config.url = `${ground.env.merchantUrl}${config.url}`
      delete config.baseURL
    })
    await api.get('/1')
    expect(elsewhere.seen.map(({ headers }) => headers.authorization)).toEqual([])
    expect(ground.sent().map(({ path, status }) => `${path} ${status}`)).toEqual(['/merchant/1 200'])
  })

  it('does not take the token elsewhere: a socket of this machine', async () => {
    const seen: unknown[] = []
    const listener: RequestListener = ({ headers }, response) => {
      seen.push(headers.authorization)
      response.end()
    }
    const socketPath = join(tmpdir(), `merchant-auth-${crypto.randomUUID()}.sock`)
    const server = createServer(listener)
    await new Promise<void>((resolve) => {
      server.listen(socketPath, resolve)
    })
    try {
      const api = instance({ socketPath }, (config) => {
        delete config.socketPath
      })
      await api.get('/1')
    } finally {
      server.closeAllConnections()
      server.close()
    }
    expect(seen).toEqual([])
    expect(ground.sent().map(({ status }) => status)).toEqual([200])
  })
})
