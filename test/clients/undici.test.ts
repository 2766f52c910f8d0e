// Which calls of undici's get the token, and what is sent (contract 5.1, 5.3).
import { PassThrough, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { Agent, Client, type Dispatcher, errors, fetch, pipeline, request, stream } from 'undici'
import { describe, expect, it } from 'vitest'
import { rejectionOf, scripted, useGround } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { agentWith, at, closing, createAuthDispatch, held, noting, passedOn, Told } from './undici-calls.ts'

const ground = useGround()
const url = (path = '/orders') => ground.env.merchantUrl + path

describe('a call of undici’s', () => {
  it('carries the token, by request, fetch, stream and pipeline', async () => {
    const dispatcher = agentWith(createAuthDispatch(ground.tokens))
    const asked = await request(url('/r?a=1'), { dispatcher, method: 'POST', body: 'x' })
    expect(asked.statusCode).toBe(200)
    expect(await asked.body.json()).toMatchObject({ api: 'merchant', body: 'x' })
    expect((await fetch(url('/f'), { dispatcher, method: 'POST', body: 'y' })).status).toBe(200)
    const sink = new PassThrough()
    await stream(url('/s'), { dispatcher, method: 'GET' }, ({ statusCode }) => {
      expect(statusCode).toBe(200)
      return sink
    })
    expect(JSON.parse(String(await buffer(sink)))).toMatchObject({ api: 'merchant' })
    const piped = pipeline(url('/p'), { dispatcher, method: 'PUT' }, ({ body }) => body)
    expect(JSON.parse(String(await buffer(Readable.from([Buffer.from('z')]).pipe(piped))))).toMatchObject({
      body: 'z',
    })
    expect(ground.env.counts).toMatchObject({ token: 1, unauthorized: 0 })
  })

  it('waits for the first token, and a hundred calls for the same one', async () => {
    const dispatcher = agentWith(createAuthDispatch(ground.tokens))
    const answers = await Promise.all(
      Array.from({ length: 100 }, async () => {
        const { statusCode, body } = await request(url(), { dispatcher })
        await body.dump()
        return statusCode
      }),
    )
    expect(new Set(answers)).toEqual(new Set([200]))
    expect(ground.env.counts.token).toBe(1)
  })

  it('is made at once with a token at hand, and says what the dispatcher says', () => {
    const { seen, returned, headers } = passedOn({})
    expect(seen).toHaveLength(1)
    expect(returned).toBe(false)
    expect(headers).toEqual({ Authorization: 'Bearer the.one.token' })
  })

  it.each<[string, unknown, unknown]>([
    ['none', undefined, { Authorization: 'Bearer the.one.token' }],
    ['null', null, { Authorization: 'Bearer the.one.token' }],
    [
      'an object',
      { a: 'b', c: ['d', 'e'] },
      { a: 'b', c: ['d', 'e'], Authorization: 'Bearer the.one.token' },
    ],
    ['a flat list', ['a', 'b'], ['a', 'b', 'Authorization', 'Bearer the.one.token']],
    ['Headers', new Headers({ a: 'b' }), ['a', 'b', 'Authorization', 'Bearer the.one.token']],
    ['a Map', new Map([['a', 'b']]), ['a', 'b', 'Authorization', 'Bearer the.one.token']],
    ['an iterator', [['a', 'b']].values(), ['a', 'b', 'Authorization', 'Bearer the.one.token']],
    ['one that is not set', { authorization: undefined }, { Authorization: 'Bearer the.one.token' }],
    [
      'another of that length',
      { 'accept-thing': '1' },
      { 'accept-thing': '1', Authorization: 'Bearer the.one.token' },
    ],
  ])('has the header beside the caller’s own: %s', (_, headers, expected) => {
    const before = Array.isArray(headers) ? structuredClone(headers) : { ...(headers as object) }
    expect(passedOn({ headers }).headers).toEqual(expected)
    if (headers) expect(Array.isArray(headers) ? headers : { ...(headers as object) }).toEqual(before)
  })

  it.each<[string, () => unknown]>([
    ['an object', () => ({ AUTHORIZATION: 'mine' })],
    ['null in an object', () => ({ authorization: null })],
    ['a flat list', () => ['x', 'y', 'authorization', 'mine']],
    ['Headers', () => new Headers({ authorization: 'mine' })],
    ['a Map', () => new Map([['Authorization', 'mine']])],
  ])('keeps a header of that name of the caller’s own: %s', async (_, own) => {
    const headers = own()
    const { options, first, handler } = passedOn({ headers })
    expect(Object.entries(options?.headers ?? {}).flat(2)).not.toContain('Bearer the.one.token')
    expect(first?.handler).toBe(handler)
  })

  it('is not renewed with a header of the caller’s own, which is sent as it is', async () => {
    const dispatcher = agentWith(createAuthDispatch(ground.tokens))
    const headers = [['Authorization', 'Bearer mine']].values()
    const { statusCode } = await request(url(), { dispatcher, headers: headers as never })
    expect(statusCode).toBe(401)
    expect(ground.sent()).toHaveLength(1)
    expect(ground.env.counts.token).toBe(0)
    expect(ground.events).toMatchObject([{ type: 'token-withheld', reason: 'own-header', url: url() }])
  })

  it('may be made by a Client', async () => {
    const { origin, pathname } = new URL(url())
    const client = closing(new Client(origin)).compose(createAuthDispatch(ground.tokens))
    const { statusCode } = await client.request({ origin, path: pathname, method: 'GET' })
    expect(statusCode).toBe(200)
  })

  it('shows an Agent’s factory the origin as it was given', async () => {
    const given: unknown[] = []
    const factory = (origin: string | URL, options: object) => {
      given.push(origin)
      return new Client(origin, options)
    }
    const dispatcher = closing(new Agent({ factory })).compose(createAuthDispatch(ground.tokens))
    const { origin, pathname: path } = new URL(url())
    for (const one of [new URL(origin), origin])
      await dispatcher.request({ origin: one, path, method: 'GET' })
    expect(given).toEqual([new URL(origin), origin])
    expect(given[0]).toBeInstanceOf(URL)
  })

  it('has the header and the scheme that are asked for', () => {
    const { options } = passedOn({}, held(), { header: 'X-Token', scheme: '' })
    expect(options).toMatchObject({ headers: { 'X-Token': 'the.one.token' }, maxRedirections: 0 })
    expect(passedOn({}).options).not.toHaveProperty('maxRedirections')
  })

  it('goes on with the caller’s own handler where nothing is renewed', () => {
    const { first, handler } = passedOn({}, held(), { renewOnStatus: [] })
    expect(first?.handler).toBe(handler)
    expect(first?.options.headers).toEqual({ Authorization: 'Bearer the.one.token' })
  })

  it('is left to undici where it is malformed', async () => {
    const dispatcher = agentWith(createAuthDispatch(held()))
    const told = new Told()
    dispatcher.dispatch(undefined as never, told)
    expect(told.error).toBeInstanceOf(errors.InvalidArgumentError)
    const given = { origin: at, path: '/merchant/x', method: 'GET' } as const
    expect(() => dispatcher.dispatch(given, {})).toThrow(errors.InvalidArgumentError)
    expect(() => dispatcher.dispatch(given, null as never)).toThrow(errors.InvalidArgumentError)
  })

  it('is the one that was asked for, although it waited for a token', async () => {
    let give: (value: ReturnType<typeof token>) => void = () => {}
    const tokens = provided({
      apiUrls: [`${at}/merchant`],
      get: () => new Promise((resolve) => (give = resolve)),
    })
    const given = { origin: new URL(at), headers: { a: '1' } as Record<string, string>, query: { q: '1' } }
    const { seen, returned, handler } = passedOn(given, tokens)
    expect([returned, seen.length, handler.events]).toEqual([true, 0, ['start']])
    given.headers['a'] = '2'
    given.query.q = '2'
    given.origin.host = 'evil.example'
    give(token('late.token'))
    await expect.poll(() => seen.length).toBe(1)
    expect(String(seen[0]?.options.origin)).toBe(`${at}/`)
    expect(seen[0]?.options).toMatchObject({
      headers: { a: '1', Authorization: 'Bearer late.token' },
      query: { q: '1' },
    })
  })

  it('fails as getToken does', async () => {
    ground.env.fail('token', { kind: 'status', status: 400 })
    const dispatcher = agentWith(createAuthDispatch(ground.tokens))
    const error = await rejectionOf(request(url(), { dispatcher }))
    expect(error).toMatchObject({ name: 'TokenRequestError', status: 400 })
    expect(ground.sent()).toHaveLength(0)
  })

  it('fails where the dispatch throws after the wait', async () => {
    const tokens = provided({ apiUrls: [at] })
    const dispatch = createAuthDispatch(tokens)((() => {
      throw new Error('no')
    }) as never) as Dispatcher['dispatch']
    const told = new Told()
    expect(dispatch({ origin: at, path: '/', method: 'GET' }, told)).toBe(true)
    await told.ended
    expect(told.error?.message).toBe('no')
  })

  it('refuses wrong options', () => {
    expect(() => createAuthDispatch(ground.tokens, { header: 'a b' })).toThrow(/header/)
    expect(() => createAuthDispatch({} as never)).toThrow(/tokens/)
  })

  it('shows interim answers', async () => {
    await using server = await scripted((_, response) => {
      response.writeEarlyHints({ link: '</a>; rel=preload' })
      response.end('done')
    })
    const tokens = provided({ current: token('early.token'), apiUrls: [server.url] })
    const infos: number[] = []
    const { statusCode } = await request(server.url, {
      dispatcher: agentWith(createAuthDispatch(tokens)),
      onInfo: ({ statusCode: status }) => infos.push(status),
    })
    expect([statusCode, infos]).toEqual([200, [103]])
  })

  it('shows an interceptor below only its own copies', async () => {
    const seen: Dispatcher.DispatchOptions[] = []
    const dispatcher = agentWith(noting(seen), createAuthDispatch(ground.tokens))
    await ground.tokens.getToken()
    const { origin, pathname } = new URL(url())
    const options = { origin, path: pathname, method: 'GET', headers: Object.freeze(['a', 'b']) } as const
    await dispatcher.request(Object.freeze(options) as never)
    expect(seen[0]).not.toBe(options)
    expect(options.headers).toEqual(['a', 'b'])
  })
})
