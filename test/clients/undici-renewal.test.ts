import { Readable } from 'node:stream'
import { type Dispatcher, FormData, fetch, pipeline, request } from 'undici'
import { describe, expect, it } from 'vitest'
import { apiAt, scripted, until, useGround } from '../support/ground.ts'
import { token } from '../support/provided.ts'
import { agentWith, createAuthDispatch, renewing, Told } from './undici-calls.ts'

const ground = useGround()
const url = (path = '/orders') => ground.env.merchantUrl + path

async function revoked(): Promise<Dispatcher> {
  await ground.tokens.getToken()
  ground.env.revoke()
  return agentWith(createAuthDispatch(ground.tokens))
}

type Body = Dispatcher.DispatchOptions['body']

const form = (): FormData => {
  const data = new FormData()
  data.append('a', 'x')
  data.append('file', new File(['content'], 'f.bin'))
  return data
}
const BODIES: Record<string, () => unknown> = {
  nothing: () => undefined,
  null: () => null,
  'a string': () => '{"a":"€"}',
  'a Buffer': () => Buffer.from([0xff, 1]),
  'a Uint8Array': () => new Uint8Array([1, 2, 3]).subarray(1),
  'another view': () => new DataView(new Uint8Array([4, 5]).buffer),
  'an ArrayBuffer': () => new Uint8Array([7]).buffer,
  'a Blob': () => new Blob(['blob']),
}
const ONCE: Record<string, () => unknown> = {
  'a stream': () => Readable.from([Buffer.from('once')]),
  'an iterable': () => [Buffer.from('once')],
  'an async generator': () =>
    (async function* () {
      yield Buffer.from('once')
    })(),
}
const post = (body: unknown, dispatcher: Dispatcher) =>
  request(url(), {
    dispatcher,
    method: 'POST',
    headers: { 'Idempotency-Key': 'k-1', 'content-type': 'text/plain' },
    query: { a: 'b' },
    body: body as Body & string,
  })

describe('a 401 on undici', () => {
  it.each(Object.entries(BODIES))(
    'is answered by one renewal and one repeat of the same: %s',
    async (_, body) => {
      const { statusCode, body: answer } = await post(body(), await revoked())
      expect([statusCode, ((await answer.json()) as { api: string }).api]).toEqual([200, 'merchant'])
      const [first, second, ...more] = ground.sent()
      expect(more).toEqual([])
      const { authorization: before, ...firstHeaders } = first?.headers ?? {}
      const { authorization: after, ...secondHeaders } = second?.headers ?? {}
      expect([second?.method, second?.path, secondHeaders]).toEqual([
        first?.method,
        first?.path,
        firstHeaders,
      ])
      expect(second?.path).toContain('?a=b')
      expect(second?.body?.toString('latin1')).toBe(first?.body?.toString('latin1'))
      expect(after).not.toBe(before)
      expect(ground.env.counts.token).toBe(2)
    },
  )

  it('is answered by a repeat of a form, with a boundary of its own', async () => {
    const { statusCode } = await request(url(), { dispatcher: await revoked(), method: 'POST', body: form() })
    expect(statusCode).toBe(200)
    const [first, second] = ground.sent().map(({ body, headers }) => {
      const boundary = headers['content-type']?.split('boundary=')[1] ?? 'none'
      return String(body).replaceAll(boundary, 'BOUNDARY')
    })
    expect(first).toContain('content')
    expect(second).toBe(first)
  })

  it.each(Object.entries(ONCE))('is the caller’s where the body is %s: it is sent once', async (_, body) => {
    const dispatcher = await revoked()
    const { statusCode } = await post(body(), dispatcher)
    expect(statusCode).toBe(401)
    expect(ground.sent().map(({ body: sent }) => String(sent))).toEqual(['once'])
    expect(ground.env.counts.token).toBe(2)
    expect((await post('next', dispatcher)).statusCode).toBe(200)
  })

  it('is the caller’s of pipeline, and of fetch with a body; a fetch without one is made again', async () => {
    const dispatcher = await revoked()
    const statuses: number[] = []
    const piped = pipeline(url(), { dispatcher, method: 'POST' }, ({ statusCode, body }) => {
      statuses.push(statusCode)
      return body
    })
    piped.end('piped').resume()
    await new Promise((resolve) => piped.on('end', resolve))
    ground.env.revoke()
    expect((await fetch(url(), { dispatcher, method: 'POST', body: 'x' })).status).toBe(401)
    expect(statuses).toEqual([401])
  })

  it('of a fetch without a body is answered by a repeat', async () => {
    expect((await fetch(url(), { dispatcher: await revoked() })).status).toBe(200)
    expect(ground.sent()).toHaveLength(2)
  })

  it('does not reach the handler when the call is made again: it sees one answer', async () => {
    const dispatcher = await revoked()
    const told = new Told()
    const { origin, pathname } = new URL(url())
    dispatcher.dispatch({ origin, path: pathname, method: 'GET' }, told)
    await told.ended
    expect(told.events).toEqual(['start', 'start', 'answer 200', 'end'])
    expect(told.body).not.toContain('invalid_token')
  })

  it('costs one renewal, however many calls meet it', async () => {
    const dispatcher = await revoked()
    const statuses = await Promise.all(
      Array.from({ length: 50 }, async () => {
        const { statusCode, body } = await request(url(), { dispatcher })
        await body.dump()
        return statusCode
      }),
    )
    expect(new Set(statuses)).toEqual(new Set([200]))
    expect(ground.env.counts.token).toBe(2)
  })

  it('is repeated once only, and renewals are rationed', async () => {
    ground.env.configure({ rejectAllTokens: true })
    const dispatcher = agentWith(createAuthDispatch(ground.tokens))
    expect((await request(url(), { dispatcher })).statusCode).toBe(401)
    expect(ground.sent()).toHaveLength(2)
    expect((await request(url(), { dispatcher })).statusCode).toBe(401)
    expect(ground.sent()).toHaveLength(3)
    expect(ground.events.map(({ type }) => type)).toContain('renewal-suppressed')
  })

  it.each<[string, number, Record<string, string>, object]>([
    ['a 403', 403, {}, {}],
    ['a lack of scope', 401, { 'www-authenticate': 'Bearer error="insufficient_scope"' }, {}],
    ['a 401 where nothing renews', 401, {}, { renewOnStatus: [] }],
  ])('renews nothing when it is %s', async (_, status, headers, attach) => {
    await using server = await scripted((__, response) => void response.writeHead(status, headers).end('no'))
    const { tokens, asked } = renewing(server.url)
    const dispatcher = agentWith(createAuthDispatch(tokens, attach))
    const { statusCode, body } = await request(server.url, { dispatcher })
    expect([statusCode, await body.text(), asked()]).toEqual([status, 'no', 0])
  })

  it('may be another status', async () => {
    await using server = await scripted(
      (_, response, nth) => void response.writeHead(nth === 1 ? 419 : 200).end(),
    )
    const { tokens, renew } = renewing(server.url)
    renew(token('second.token'))
    const dispatcher = agentWith(createAuthDispatch(tokens, { renewOnStatus: [419] }))
    expect((await request(server.url, { dispatcher })).statusCode).toBe(200)
  })

  it('does not hold up the calls that meet none', async () => {
    await using server = await scripted((seen, response) => {
      response.writeHead(seen.path === '/bad' ? 401 : 200).end()
    })
    const { tokens, renew, asked } = renewing(server.url)
    const dispatcher = agentWith(createAuthDispatch(tokens))
    const bad = request(`${server.url}/bad`, { dispatcher })
    await until(() => asked() === 1)
    expect((await request(`${server.url}/good`, { dispatcher })).statusCode).toBe(200)
    renew(undefined)
    expect((await bad).statusCode).toBe(401)
  })

  it('of one API spends no renewal of the other', async () => {
    await using refusing = await scripted((_, response) => void response.writeHead(401).end())
    const environment = apiAt(ground.env, ground.env.merchantUrl, refusing.url)
    const dispatcher = agentWith(createAuthDispatch(ground.provider({ environment })))
    for (let time = 0; time < 3; time += 1) await request(refusing.url, { dispatcher })
    ground.env.revoke()
    expect((await request(url(), { dispatcher })).statusCode).toBe(200)
  })
})
