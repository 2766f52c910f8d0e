// Attaching the token to an axios instance, and detaching it: where the header goes, and what attachAuth rejects (contract 5.1 to 5.3, 6).
import axios, { AxiosError, AxiosHeaders, type CreateAxiosDefaults } from 'axios'
import { ConfigurationError, TokenRequestError } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { describe, expect, it } from 'vitest'
import { ADAPTERS, functionAdapter, rejectionOf, scripted, useGround } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { rig } from '../token/harness.ts'

const ground = useGround()
const withheld = () =>
  ground.events.flatMap((event) => (event.type === 'token-withheld' ? [event.reason] : []))

describe('an axios instance with the token', () => {
  it.each<[string, CreateAxiosDefaults['adapter']]>([
    ['a name in a list', ['http']],
    ['a name that is of no use here, and another', ['xhr', 'fetch']],
    ['a function', functionAdapter],
  ])('sends it by the adapter of its defaults, or of the call: %s', async (_, adapter) => {
    for (const [defaults, config] of [
      [{ adapter }, {}],
      [{}, { adapter }],
    ] as [CreateAxiosDefaults, CreateAxiosDefaults][]) {
      const { status } = await ground.api(defaults).get(`${ground.env.inStoreUrl}/sales`, config as object)
      expect(status).toBe(200)
    }
    expect(withheld()).toEqual([])
  })

  it('may be the default instance', async () => {
    const detach = attachAuth(axios, ground.tokens)
    try {
      expect((await axios(`${ground.env.merchantUrl}/y`)).status).toBe(200)
    } finally {
      detach()
    }
    expect(await rejectionOf(axios.get(`${ground.env.merchantUrl}/x`))).toMatchObject({ status: 401 })
  })

  it('rejects with an AxiosError for a 401 that cannot be renewed, and as getToken does without a token', async () => {
    ground.env.configure({ rejectAllTokens: true })
    const error = await rejectionOf(ground.api().post('/orders', { a: 1 }))
    expect(error).toBeInstanceOf(AxiosError)
    const response = { status: 401, data: { error: 'invalid_token' } }
    expect(error).toMatchObject({ code: 'ERR_BAD_REQUEST', response })
    expect(ground.sent()).toHaveLength(2)
    ground.env.fail('token', { kind: 'status', status: 400, body: { error: 'invalid_client' } })
    const api = axios.create()
    attachAuth(api, ground.provider())
    expect(await rejectionOf(api.get(ground.env.merchantUrl))).toBeInstanceOf(TokenRequestError)
  })

  it('rejects with the API’s own 401 where no other token can be had, and resolves with it where that is asked for', async () => {
    for (const validateStatus of [undefined, () => true]) {
      const tokens = ground.provider()
      await tokens.getToken()
      ground.env.revoke()
      ground.env.fail('token', { kind: 'status', status: 400 })
      const api = axios.create({ baseURL: ground.env.merchantUrl, ...(validateStatus && { validateStatus }) })
      attachAuth(api, tokens)
      const response = { status: 401, data: { error: 'invalid_token' } }
      if (validateStatus) expect(await api.get('/orders')).toMatchObject(response)
      else expect(await rejectionOf(api.get('/orders'))).toMatchObject({ response })
    }
    expect(ground.sent()).toHaveLength(2)
  })

  it('resolves with the API’s answer where validateStatus takes it, after a renewal too', async () => {
    await ground.tokens.getToken()
    ground.env.revoke()
    const api = ground.api({ validateStatus: () => true })
    expect((await api.get('/orders')).status).toBe(200)
    ground.env.configure({ rejectAllTokens: true })
    expect((await api.get('/orders')).status).toBe(401)
  })

  it.each(ADAPTERS)('leaves requests with credentials of their own as they are: %s', async (adapter) => {
    await using api401 = await scripted((_, response) => void response.writeHead(401).end())
    const provider = ground.provider({ environment: { ...ground.env.environment, apiUrls: [api401.url] } })
    const api = axios.create({ adapter, validateStatus: () => true })
    attachAuth(api, provider)
    await api.get(`${api401.url}/x`, { auth: { username: 'u', password: 'p' } })
    await api.get(`${api401.url.replace('//', '//u:p@')}/x`)
    const basic = 'Basic dTpw'
    expect(api401.seen.map(({ headers }) => headers.authorization)).toEqual([basic, basic])
    expect(withheld()).toEqual(['own-credentials', 'own-credentials'])
    expect(ground.env.counts.token).toBe(0)
  })

  it.each(ADAPTERS)('sends it under another name beside credentials of the caller: %s', async (adapter) => {
    ground.env.configure({ header: 'X-Custom', scheme: '' })
    const api = ground.api({ adapter }, { header: 'X-Custom', scheme: '' })
    const { data } = await api.get('/orders', { auth: { username: 'u', password: 'p' } })
    expect(data.headers).toMatchObject({ 'x-custom': `[token ${data.jti}]`, authorization: '[hidden]' })
  })

  it.each<[string, Record<string, unknown>, unknown]>([
    ['as long as the name of the token’s', { 'X-Merchant-Id': '1' }, 'Bearer current.token'],
    ['set to undefined, which axios does not send', { Authorization: undefined }, 'Bearer current.token'],
    ['in another spelling', { aUTHORIZATION: 'Own one' }, 'Own one'],
    ['set to false, which axios takes for "none"', { Authorization: false }, false],
  ])('regards a header of the caller’s: %s', async (_, headers, expected) => {
    let sent: unknown
    const api = axios.create({
      adapter: async (config) => {
        sent = config.headers.get('authorization')
        return { status: 200, statusText: '', data: '', headers: {}, config }
      },
    })
    attachAuth(api, provided({ current: token('current.token') }))
    await api.get('https://api.test.example/merchant/x', { headers: headers as Record<string, string> })
    expect(sent).toBe(expected)
  })

  it('emits the URL of a withheld call without user info, query and fragment', async () => {
    const adapter = async (config: object) => ({ data: '', status: 200, statusText: '', headers: {}, config })
    await ground.api({ adapter: adapter as never }).get('https://u:p@elsewhere.example/path?secret=1#x')
    const event = { type: 'token-withheld', reason: 'destination', url: 'https://elsewhere.example/path' }
    expect(ground.events).toEqual([expect.objectContaining(event)])
  })

  it('sends a static token, and takes headers of axios’ own class', async () => {
    await using server = await scripted((_, response) => void response.end())
    const api = axios.create({ baseURL: server.url })
    attachAuth(api, provided({ current: token('abc-static'), apiUrls: [server.url] }))
    await api.get('/x', { headers: new AxiosHeaders({ a: 'b' }) })
    expect(server.seen[0]?.headers).toMatchObject({ authorization: 'Bearer abc-static', a: 'b' })
  })
})

describe('detaching', () => {
  it('ends it, and lets it be attached again', async () => {
    const api = axios.create({ baseURL: ground.env.merchantUrl })
    const detach = attachAuth(api, ground.tokens)
    expect(() => attachAuth(api, ground.tokens)).toThrow(ConfigurationError)
    detach()
    detach()
    expect(await rejectionOf(api.get('/x'))).toMatchObject({ status: 401 })
    const again = attachAuth(api, ground.tokens)
    detach() // of the first: it has no say in the second
    expect(() => attachAuth(api, ground.tokens)).toThrow(ConfigurationError)
    expect((await api.get('/x')).status).toBe(200)
    again()
  })

  it('lets calls that have begun go on without the token', async () => {
    const api = axios.create({ baseURL: ground.env.merchantUrl })
    api.interceptors.request.use(async (config) => {
      detach()
      return config
    })
    const detach = attachAuth(api, ground.tokens)
    const late = axios.create({ baseURL: ground.env.merchantUrl })
    late.interceptors.request.use(async (config) => config) // which axios waits for
    const off = attachAuth(late, ground.tokens)
    const call = late.get('/x')
    await Promise.resolve()
    off()
    for (const one of [call, api.get('/x')]) expect(await rejectionOf(one)).toMatchObject({ status: 401 })
    expect(ground.env.counts.token).toBe(0)
  })
})

describe('attachAuth', () => {
  function problemWith(instance: unknown, header?: string): ConfigurationError {
    try {
      attachAuth(instance as never, rig().provider, header === undefined ? {} : { header })
    } catch (error) {
      if (error instanceof ConfigurationError) return error
      throw error
    }
    throw new Error('It was attached')
  }

  it.each([
    undefined,
    null,
    'axios',
    {},
    { interceptors: null },
    { interceptors: {} },
    { interceptors: { request: null } },
    { interceptors: { request: {} } },
    { interceptors: { request: { use: true } } },
  ])('rejects what is not an axios instance: %j', (instance) => {
    const error = problemWith(instance)
    expect(error.message).toBe('The token cannot be attached:\n  - instance: must be an axios instance')
    expect(error.problems).toEqual([{ option: 'instance', reason: 'must be an axios instance' }])
    expect(error.code).toBe('ERR_CONFIGURATION')
  })

  it('rejects an instance that has a token', () => {
    const api = axios.create()
    attachAuth(api, rig().provider)
    expect(problemWith(api).problems).toMatchObject([{ option: 'instance' }])
    expect(problemWith(api).message).toMatch(/already/)
  })

  it.each([undefined, null, {}, { getToken: 'no' }])('rejects what is not a provider: %j', (tokens) => {
    const message =
      'The token cannot be attached:\n  - tokens: must be a token provider, as createTokenProvider() returns it'
    const error = expect.objectContaining({ name: 'ConfigurationError', message })
    expect(() => attachAuth(axios.create(), tokens as never)).toThrow(error)
  })

  it('rejects all that is wrong at once', () => {
    const attach = { header: 'a b', scheme: 'x y', renewOnStatus: [200] }
    expect(() => attachAuth(axios.create(), ground.tokens, attach)).toThrow(
      /header[\s\S]*scheme[\s\S]*renewOnStatus/,
    )
  })

  it.each([
    ['all methods', { 'x-tOKEN': 'one' }],
    ['one method', { post: { 'X-Token': 'one' } }],
    ['common', { common: { 'X-TOKEN': 'one' } }],
    ['common, with nothing in it', { common: { 'X-TOKEN': '' } }],
  ])('rejects an instance with a default header of that name: %s', (_, headers) => {
    const { message } = problemWith(axios.create({ headers } as never), 'X-Token')
    expect(message).toMatch(/default header X-Token[\s\S]*instance\.defaults\.headers/)
    expect(() => attachAuth(axios.create({ headers } as never), rig().provider)).not.toThrow()
  })

  it.each([
    ['none at all', undefined],
    ['nothing in them', { common: undefined, get: null, 'X-Token': undefined }],
    ['others', { common: { 'X-Tokens': '1' }, 'X-Other': 'X-Token', 'X-Number': 1, 'X-Flag': true }],
    ['one of that name for no method', { common: { 'X-Token': undefined } }],
  ])('takes an instance with these default headers: %s', (_, headers) => {
    const api = axios.create()
    api.defaults.headers = headers as never
    expect(() => attachAuth(api, rig().provider, { header: 'X-Token' })).not.toThrow()
  })
})
