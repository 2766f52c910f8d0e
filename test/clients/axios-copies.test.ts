// Copies of axios that this package did not import: each call uses the adapters and errors of its own copy.
import { Readable } from 'node:stream'
import { inspect } from 'node:util'
import axios, {
  type AxiosAdapter,
  type AxiosError,
  type AxiosInstance,
  type AxiosStatic,
  type CreateAxiosDefaults,
  type InternalAxiosRequestConfig,
} from 'axios'
import { attachAuth } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { ADAPTERS, rejectionOf, scripted, useGround } from '../support/ground.ts'
import { provided } from '../support/provided.ts'
import { hang, MERCHANT_URL, rig } from '../token/harness.ts'
import { answering, onSocket, requiredCopy, unknownCopy } from './axios-fakes.ts'
import { conformWith } from './conform.ts'
import { axiosDriver, axiosWith } from './drivers.ts'
import { FAULTS } from './scenarios/faults.ts'
import { REDIRECTS } from './scenarios/redirects.ts'
import { RENEWAL } from './scenarios/renewal.ts'
import { SIGNALS } from './scenarios/signals.ts'

const ground = useGround()

const COPIES = { 'loaded by require()': requiredCopy, 'unknown to the package': unknownCopy }

describe.each(Object.entries(COPIES))('another copy of axios (%s)', (_, load) => {
  const copy = load()
  const attached = (config: CreateAxiosDefaults = {}) =>
    axiosWith(ground.tokens, { baseURL: ground.env.merchantUrl, ...config }, { copy })

  it('has an AxiosError class of its own', () => expect(copy.AxiosError).not.toBe(axios.AxiosError))

  conformWith(
    [
      axiosDriver('axios http', 'http', { copy }),
      axiosDriver('axios fetch', 'fetch', { copy }),
      axiosDriver('axios function', (config) => copy.getAdapter('http')(config), { copy }),
    ],
    [
      ...RENEWAL,
      ...FAULTS,
      ...SIGNALS.filter(({ nodeOnly }) => !nodeOnly),
      ...REDIRECTS.filter(({ name }) => name === 'another port'),
    ],
  )

  it.each(ADAPTERS)(
    'applies params, transforms and interceptors once, also when a call is retried: %s',
    async (adapter) => {
      const api = attached({ adapter })
      api.interceptors.request.use((config) => ({ ...config, url: `/changed${config.url}` }) as typeof config)
      const form = new FormData()
      form.append('a', 'b')
      ground.env.fail('merchant', { kind: 'status', status: 401 })
      const transforms: string[] = []
      const answer = await api.post('/orders?x=1', form, {
        params: { y: 2 },
        transformRequest: (data: unknown) => {
          transforms.push('request')
          return data
        },
        transformResponse: (text: string) => {
          transforms.push('response')
          return [text]
        },
      })
      expect(transforms).toEqual(['request', 'response'])
      expect(answer.data).toEqual([expect.stringContaining('"query":"x=1&y=2"')])
      expect(new Set(ground.sent().map(({ path }) => path)).size).toBe(1)
      const bodies = ground.sent().map(({ body }) => String(body))
      expect(bodies).toEqual([bodies[0], bodies[0]])
      expect(bodies[0]).toMatch(/name="a"/)
    },
  )

  it('rejects with errors whose config can be sent again', async () => {
    ground.env.fail('merchant', { kind: 'status', status: 500 })
    const api = attached()
    const error = (await rejectionOf(api.get('/orders'))) as AxiosError
    expect(error).toMatchObject({ config: { url: '/orders' } })
    expect(error.request).toBeDefined()
    expect((await api.request(error.config ?? {})).status).toBe(200)
  })

  it.each(ADAPTERS)(
    'responds with a config that can be sent again, also to a call without the token: %s',
    async (adapter) => {
      let nth = 0
      await using server = await scripted((_, response) => {
        nth += 1
        response.writeHead(nth === 2 ? 503 : 200, { 'content-type': 'application/json' }).end('{"a":1}')
      })
      const api = attached({ baseURL: server.url, adapter })
      const first = await api.get('/1')
      const failed = (await rejectionOf(api.request(first.config))) as AxiosError
      expect(failed.response?.data).toEqual({ a: 1 })
      for (const { config } of [failed, failed.response ?? {}]) {
        expect(config).toMatchObject({ baseURL: server.url, url: '/1', adapter })
        expect((await api.request(config as object)).data).toEqual({ a: 1 })
      }
    },
  )

  it('rejects with its own timeout errors while a call waits for a token', async () => {
    ground.env.fail('token', { kind: 'hang' })
    const api = attached()
    const clarified = { transitional: { clarifyTimeoutError: true }, timeoutErrorMessage: 'late' }
    const calls = [api.get('/c', { timeout: 50 }), api.get('/d', { timeout: 50, ...clarified })]
    const late = await Promise.all(calls.map(rejectionOf))
    for (const error of late) expect(error).toBeInstanceOf(copy.AxiosError)
    const message = 'timeout of 50ms exceeded'
    expect(late).toMatchObject([
      { code: 'ECONNABORTED', message, config: { url: '/c' } },
      { code: 'ETIMEDOUT', message: 'late' },
    ])
  })
})

describe('createAuthInterceptor', () => {
  it.each<[string, () => AxiosStatic, (copy: AxiosStatic) => unknown]>([
    ['the imported copy', () => axios, (copy) => copy.AxiosError],
    ['the copy that require() returns', requiredCopy, (copy) => copy.AxiosError],
    ['an unknown copy, with the error of the imported copy', unknownCopy, () => axios.AxiosError],
  ])(
    'rejects with the timeout error of the copy while a call waits for a token: %s',
    async (_, load, errorOf) => {
      const copy = load()
      const { provider } = rig([hang])
      const config = { baseURL: MERCHANT_URL, timeout: 20, adapter: answering() }
      const api = axiosWith(provider, config, { how: 'createAuthInterceptor', copy })
      const error = await rejectionOf(api.get('/1'))
      expect((error as Error).constructor).toBe(errorOf(copy))
      expect(error).toMatchObject({
        code: 'ECONNABORTED',
        message: 'timeout of 20ms exceeded',
        config: { url: '/1' },
      })
      await provider.close()
    },
  )
})

describe('an unknown copy of axios', () => {
  it('calls the caller’s adapter once, with the token, and creates no instance for it', async () => {
    const sent: boolean[] = []
    const api = unknownCopy().create({ baseURL: MERCHANT_URL })
    attachAuth(api, rig().provider)
    api.create = () => expect.unreachable()
    const adapter: AxiosAdapter = (config) => {
      sent.push(config.headers.has('authorization'))
      return answering()(config)
    }
    await api.get('/1', { adapter })
    expect(sent).toEqual([true])
  })

  it('shows no token on the error of a response stream that fails after the call', async () => {
    await using server = await scripted((_request, response) => {
      response.write('abc')
      setImmediate(() => response.end('defg'))
    })
    const config = { adapter: 'fetch', responseType: 'stream', maxContentLength: 3 } as const
    const api = axiosWith(provided({ apiUrls: [server.url] }), config, { copy: unknownCopy() })
    const { data } = await api.get<Readable>(server.url)
    const error = await rejectionOf(Readable.from(data).toArray())
    expect(error).toMatchObject({
      message: 'maxContentLength size of 3 exceeded',
      config: { url: server.url },
    })
    expect(inspect(error, { depth: 9, showHidden: true })).not.toContain('Bearer ')
  })

  it('can attach the token and interceptors, which run once, to every instance in its create()', async () => {
    const copy = unknownCopy()
    const api = copy.create({ baseURL: ground.env.merchantUrl })
    const attaching = (one: AxiosInstance): void => {
      const { create } = one
      one.create = (config) => {
        const created = create(config)
        attaching(created)
        attachAuth(created, ground.tokens)
        created.interceptors.response.use((answer) => ({ ...answer, data: [answer.data] }))
        return created
      }
    }
    attaching(api)
    const made = api.create()
    expect((await made.get('/orders')).data).toEqual([expect.objectContaining({ api: 'merchant' })])
    ground.env.fail('token', { kind: 'hang' })
    ground.env.revoke()
    const late = rejectionOf(api.create({ timeout: 50 }).get('/orders'))
    expect(await late).toMatchObject({ code: 'ECONNABORTED' })
    expect(ground.sent()).toHaveLength(2)
  })

  it.each([{}, { adapter: 'http' }, { adapter: 'fetch' }])(
    'can have an instance without create(): %o',
    async (config) => {
      const copy = unknownCopy()
      const api = new copy.Axios({ baseURL: ground.env.merchantUrl, ...config } as never) as AxiosInstance
      expect(api.create).toBeUndefined()
      attachAuth(api, ground.tokens)
      ground.env.fail('merchant', { kind: 'status', status: 401 })
      expect((await api.post('/1', 'text')).status).toBe(200)
      expect(ground.sent().map(({ status, body }) => `${status} ${body}`)).toEqual(['401 text', '200 text'])
      const failed = await rejectionOf(api.request({ url: 'http://127.0.0.1:1/' }))
      expect(failed).toBeInstanceOf(copy.AxiosError)
    },
  )
})

/** An instance of an unknown copy, with an interceptor that changes the config of its calls. */
function changedInstance(
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

describe('a default that an interceptor deleted', () => {
  it('is not restored: a header and params', async () => {
    const api = changedInstance({ headers: { 'X-Key': 'mine' }, params: { a: '1' } }, (config) => {
      config.headers.delete('X-Key')
      delete config.params
    })
    await api.get('/1')
    const [sent] = ground.sent()
    expect([sent?.path, sent?.headers['x-key']]).toEqual(['/merchant/1', undefined])
  })

  it('does not decide where the call goes: baseURL', async () => {
    await using elsewhere = await scripted((_, response) => void response.end())
    const api = changedInstance({ baseURL: elsewhere.url, allowAbsoluteUrls: false }, (config) => {
      config.url = `${ground.env.merchantUrl}${config.url}`
      delete config.baseURL
    })
    await api.get('/1')
    expect(elsewhere.seen.map(({ headers }) => headers.authorization)).toEqual([])
    expect(ground.sent().map(({ path, status }) => `${path} ${status}`)).toEqual(['/merchant/1 200'])
  })

  it('does not decide where the call goes: socketPath', async () => {
    const seen = await onSocket(async (socketPath) => {
      const api = changedInstance({ socketPath }, (config) => {
        delete config.socketPath
      })
      await api.get('/1')
    })
    expect(seen).toEqual([])
    expect(ground.sent().map(({ status }) => status)).toEqual([200])
  })
})
