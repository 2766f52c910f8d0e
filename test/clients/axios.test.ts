// Attaching the token to an axios instance, and detaching it: where the header goes, and what attachAuth rejects.
import axios, { type AxiosAdapter, AxiosError } from 'axios'
import { attachAuth } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { ADAPTERS, apiAt, rejectionOf, scripted, useGround } from '../support/ground.ts'
import { problemsIn } from '../support/problems.ts'
import { provided, token } from '../support/provided.ts'
import { MERCHANT_URL, rig } from '../token/harness.ts'
import { answering, requiredCopy, unknownCopy } from './axios-fakes.ts'
import { axiosWith, HOWS } from './drivers.ts'

const ground = useGround()
const withheldReasons = () =>
  ground.events.flatMap((event) => (event.type === 'token-withheld' ? [event.reason] : []))

/** The problems that attachAuth reports for an instance, with this header name. */
const problemsWith = (instance: unknown, header = 'Authorization') =>
  problemsIn(() => attachAuth(instance as never, rig().provider, { header }))

describe('an axios instance with the token', () => {
  it.each([axios, requiredCopy(), unknownCopy()])(
    'can be the default instance of any copy of axios',
    async (copy) => {
      const detach = attachAuth(copy, ground.tokens)
      try {
        expect((await copy(`${ground.env.merchantUrl}/y`)).status).toBe(200)
      } finally {
        detach()
      }
      const error = await rejectionOf(copy.get(`${ground.env.merchantUrl}/x`))
      expect(error).toBeInstanceOf(copy.AxiosError)
      expect(error).toMatchObject({ status: 401 })
    },
  )

  it('rejects with an AxiosError and the API’s 401 if the API also rejects the renewed token', async () => {
    ground.env.configure({ rejectAllTokens: true })
    const error = await rejectionOf(ground.api().post('/orders', { a: 1 }))
    expect(error).toBeInstanceOf(AxiosError)
    const response = { status: 401, data: { error: 'invalid_token' } }
    expect(error).toMatchObject({ code: 'ERR_BAD_REQUEST', response })
    expect(ground.sent()).toHaveLength(2)
  })

  it('runs its adapter synchronously if a token is cached and no other interceptor is asynchronous', async () => {
    const { provider } = rig()
    await provider.getToken()
    let sent = 0
    const adapter: AxiosAdapter = (config) => {
      sent += 1
      return answering()(config)
    }
    const call = axiosWith(provider, { adapter }).get(MERCHANT_URL)
    expect(sent).toBe(1)
    await call
  })

  const WAYS = HOWS.flatMap((how) => ADAPTERS.map((adapter) => [how, adapter] as const))
  it.each(WAYS)('does not change requests with their own credentials: %s, %s', async (how, adapter) => {
    await using api401 = await scripted((_, response) => void response.writeHead(401).end())
    const tokens = ground.provider({ environment: apiAt(ground.env, api401.url) })
    const api = axiosWith(tokens, { adapter, validateStatus: () => true }, { how })
    await api.get(`${api401.url}/x`, { auth: { username: 'u', password: 'p' } })
    await api.get(`${api401.url.replace('//', '//u:p@')}/x`)
    const basic = 'Basic dTpw'
    expect(api401.seen.map(({ headers }) => headers.authorization)).toEqual([basic, basic])
    expect(withheldReasons()).toEqual(['own-credentials', 'own-credentials'])
    expect(ground.env.counts.token).toBe(0)
  })

  it.each(ADAPTERS)(
    'sends the token in a custom header beside the caller’s credentials: %s',
    async (adapter) => {
      ground.env.configure({ header: 'X-Custom', scheme: '' })
      const api = ground.api({ adapter }, { header: 'X-Custom', scheme: '' })
      for (const config of [
        { auth: { username: 'u', password: 'p' } },
        { baseURL: ground.env.merchantUrl.replace('//', '//u:p@') },
      ]) {
        const { data } = await api.get('/orders', config)
        expect(data.headers).toMatchObject({ 'x-custom': `[token ${data.jti}]`, authorization: '[hidden]' })
      }
    },
  )

  it.each<[string, Record<string, unknown>, unknown]>([
    [
      'attaches the token beside a header whose name is as long as its own',
      { 'X-Merchant-Id': '1' },
      'Bearer current.token',
    ],
    [
      'attaches the token over a header set to undefined, which axios does not send',
      { Authorization: undefined },
      'Bearer current.token',
    ],
    ['keeps a header set to false, which axios does not send', { Authorization: false }, false],
  ])('%s', async (_, headers, expected) => {
    let sent: unknown
    const adapter: AxiosAdapter = (config) => {
      sent = config.headers.get('authorization')
      return answering()(config)
    }
    const api = axiosWith(provided({ current: token('current.token') }), { adapter })
    await api.get(MERCHANT_URL, { headers: headers as Record<string, string> })
    expect(sent).toBe(expected)
  })
})

describe('detaching', () => {
  it('stops sending the token, and allows attaching it again', async () => {
    const api = axios.create({ baseURL: ground.env.merchantUrl })
    const detach = attachAuth(api, ground.tokens)
    const already = { option: 'instance', reason: expect.stringMatching(/already/) }
    expect(problemsWith(api)).toEqual([already])
    detach()
    detach()
    expect(await rejectionOf(api.get('/x'))).toMatchObject({ status: 401 })
    const again = attachAuth(api, ground.tokens)
    detach() // the first detach function does not affect the second attachment
    expect(problemsWith(api)).toEqual([already])
    expect((await api.get('/x')).status).toBe(200)
    again()
  })

  it('lets calls that have already started continue without the token', async () => {
    const api = axios.create({ baseURL: ground.env.merchantUrl })
    api.interceptors.request.use(async (config) => {
      detach()
      return config
    })
    const detach = attachAuth(api, ground.tokens)
    const late = axios.create({ baseURL: ground.env.merchantUrl })
    late.interceptors.request.use(async (config) => config) // axios waits for it
    const detachLate = attachAuth(late, ground.tokens)
    const call = late.get('/x')
    await Promise.resolve()
    detachLate()
    for (const one of [call, api.get('/x')]) expect(await rejectionOf(one)).toMatchObject({ status: 401 })
    expect(ground.env.counts.token).toBe(0)
  })
})

describe('attachAuth', () => {
  it.each([
    undefined,
    { interceptors: null },
    { interceptors: {} },
    { interceptors: { request: null } },
    { interceptors: { request: {} } },
    { interceptors: { request: { use: true } } },
  ])('rejects what is not an axios instance: %j', (instance) => {
    const message = 'The token cannot be attached:\n  - instance: must be an axios instance'
    const error = expect.objectContaining({ name: 'ConfigurationError', message })
    expect(() => attachAuth(instance as never, rig().provider)).toThrow(error)
  })

  it.each([undefined, null, {}, { getToken: 'no' }])('rejects what is not a provider: %j', (tokens) => {
    const message =
      'The token cannot be attached:\n  - tokens: must be a token provider, as createTokenProvider() returns it'
    const error = expect.objectContaining({ name: 'ConfigurationError', message })
    expect(() => attachAuth(axios.create(), tokens as never)).toThrow(error)
  })

  it.each([
    ['all methods', { 'x-tOKEN': 'one' }],
    ['one method', { post: { 'X-Token': 'one' } }],
    ['common', { common: { 'X-TOKEN': 'one' } }],
    ['common, empty', { common: { 'X-TOKEN': '' } }],
  ])('rejects an instance with a default header of the same name: %s', (_, headers) => {
    const reason = expect.stringMatching(/default header X-Token[\s\S]*instance\.defaults\.headers/)
    const api = axios.create({ headers } as never)
    expect(problemsWith(api, 'X-Token')).toEqual([{ option: 'instance', reason }])
    expect(problemsWith(api)).toEqual([])
  })

  it.each([
    ['undefined', undefined],
    ['empty ones', { common: undefined, get: null, 'X-Token': undefined }],
    ['other names', { common: { 'X-Tokens': '1' }, 'X-Other': 'X-Token', 'X-Number': 1, 'X-Flag': true }],
    ['the same name, but undefined', { common: { 'X-Token': undefined } }],
  ])('accepts an instance with these default headers: %s', (_, headers) => {
    const api = axios.create()
    api.defaults.headers = headers as never
    expect(problemsWith(api, 'X-Token')).toEqual([])
  })
})
