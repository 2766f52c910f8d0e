// The bodies of calls that get a 401: which of them every client sends again, and which it sends once.
import { createServer } from 'node:http'
import { PassThrough, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import FormDataPackage from 'form-data'
import type { TokenProvider } from 'merchant-auth'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { listening, rejectionOf, scripted, until, useGround } from '../../support/ground.ts'
import { provided, token } from '../../support/provided.ts'
import { CLIENTS, UNDICI } from '../conform.ts'
import { AXIOS_FETCH, AXIOS_FUNCTION, AXIOS_HTTP, type Driver, FETCH } from '../drivers.ts'
import { blockedFetch } from '../world.ts'

const ground = useGround()
const reject401 = () => ground.env.fail('merchant', { kind: 'status', status: 401 })
const AXIOS = [AXIOS_HTTP, AXIOS_FETCH, AXIOS_FUNCTION]
/** All but undici, which takes neither. */
const WITH_FORMS = [...AXIOS, FETCH]

/** A larger buffer, of which bodies show a part, like slices of files and of pools. */
const memory = (): ArrayBuffer => new Uint8Array([0xee, 1, 2, 3, 0xdd]).buffer
const PART = Buffer.from([1, 2, 3])

function form(): FormData {
  const data = new FormData()
  data.append('amount', '12 €')
  data.append('receipt', new File(['%PDF'], 'Beleg.pdf', { type: 'application/pdf' }))
  return data
}

/** A body, the clients that take it, and the bytes that they send. */
const REPEATED: readonly (readonly [string, readonly Driver[], () => unknown, string | Buffer])[] = [
  ['a string', CLIENTS, () => 'zwölf €', 'zwölf €'],
  ['no body', CLIENTS, () => undefined, ''],
  ['a Buffer', CLIENTS, () => Buffer.from([0xff, 0, 1]), Buffer.from([0xff, 0, 1])],
  ['a Buffer in a pool', CLIENTS, () => Buffer.from(memory(), 1, 3), PART],
  ['an ArrayBuffer', CLIENTS, memory, Buffer.from(memory())],
  ['a view of a part', [FETCH, UNDICI], () => new Uint8Array(memory(), 1, 3), PART], // axios sends its whole buffer
  ['a Blob', CLIENTS, () => new Blob(['a ', 'blob'], { type: 'text/plain' }), 'a blob'],
  ['a File', WITH_FORMS, () => new File(['a,b'], 'orders.csv', { type: 'text/csv' }), 'a,b'],
  ['URLSearchParams', WITH_FORMS, () => new URLSearchParams({ sum: '12 €' }), 'sum=12+%E2%82%AC'],
  ['an object', AXIOS, () => ({ order: { sku: 'ä' } }), '{"order":{"sku":"ä"}}'],
]

describe.each(REPEATED)('%s', (_, clients, make, bytes) => {
  it.each(clients)('is sent again after a 401 with the same bytes and headers: $name', async ({ create }) => {
    reject401()
    const headers = { 'idempotency-key': 'k-1', 'x-store-id': '0042' }
    const url = `${ground.env.merchantUrl}/orders?a=1`
    const { status } = await create(ground.tokens)({ url, method: 'PUT', headers, body: make() })
    expect(status).toBe(200)
    const [first, second] = ground.sent().map(({ method, path, headers, body }) => {
      const { authorization, ...others } = headers
      return { method, path, headers: others, body: body?.toString('latin1') ?? '' }
    })
    expect(first).toMatchObject({ method: 'PUT', path: '/merchant/orders?a=1', headers })
    expect(first?.body).toBe(Buffer.from(bytes as string).toString('latin1'))
    expect(second).toEqual(first)
  })
})

it.each(WITH_FORMS)(
  'the fields and files of a form are sent again after a 401: $name',
  async ({ create }) => {
    reject401()
    const { status } = await create(ground.tokens)({
      url: ground.env.merchantUrl,
      method: 'POST',
      body: form(),
    })
    expect(status).toBe(200)
    for (const { body } of ground.sent()) {
      // axios' fetch adapter sends a wrong content type, with the token or without it.
      const type = `multipart/form-data; boundary=${/^--(\S+)/.exec(String(body))?.[1]}`
      const received = await new Response(Uint8Array.from(body ?? []), {
        headers: { 'content-type': type },
      }).formData()
      const receipt = received.get('receipt') as File
      expect([received.get('amount'), receipt.name, await receipt.text()]).toEqual([
        '12 €',
        'Beleg.pdf',
        '%PDF',
      ])
    }
    expect(ground.sent()).toHaveLength(2)
  },
)

describe('the body of a Request', () => {
  it('is sent again after a 401 if it is a Blob', async () => {
    reject401()
    const url = new Request(ground.env.merchantUrl, { method: 'POST', body: new Blob(['of a Request']) })
    expect((await FETCH.create(ground.tokens)({ url })).status).toBe(200)
    expect(ground.sent().map(({ body }) => String(body))).toEqual(['of a Request', 'of a Request'])
  })

  it('is replaced by the body in the init, which is sent again after a 401', async () => {
    reject401()
    const url = new Request(ground.env.merchantUrl, { method: 'POST', body: 'not this one' })
    expect((await FETCH.create(ground.tokens)({ url, body: 'this one' })).status).toBe(200)
    expect(ground.sent().map(({ body }) => String(body))).toEqual(['this one', 'this one'])
  })
})

async function* generated(): AsyncGenerator<Buffer> {
  yield* [Buffer.from('one, '), Buffer.from('two')]
}

function formOfThePackage(): FormDataPackage {
  const data = new FormDataPackage()
  data.append('amount', 'one, two')
  return data
}

const FORM_TYPE = { 'content-type': 'multipart/form-data' }

/** A body that can be sent only once, and the clients that take it. */
const ONCE: readonly (readonly [string, readonly Driver[], () => unknown, Record<string, string>])[] = [
  ['a stream of Node.js', CLIENTS, () => Readable.from(generated()), {}],
  ['a ReadableStream', [AXIOS_FETCH, FETCH], () => new Blob(['one, ', 'two']).stream(), {}],
  ['an async generator', [FETCH, UNDICI], generated, {}],
  ['an iterable', [UNDICI], () => [Buffer.from('one, '), Buffer.from('two')], {}],
  ['a form of the form-data package', [AXIOS_HTTP, AXIOS_FUNCTION], formOfThePackage, {}],
  ['an object as multipart/form-data', [AXIOS_HTTP], () => ({ amount: 'one, two' }), FORM_TYPE],
]

describe.each(ONCE)('%s', (_, clients, make, headers) => {
  it.each(clients)('is sent once, and its 401 does not wait for the renewal: $name', async ({ create }) => {
    const blocked = blockedFetch(2)
    const tokens = ground.provider({ fetch: blocked.fetch })
    const send = create(tokens)
    reject401()
    const call = () => ({ url: ground.env.merchantUrl, method: 'POST', body: make(), headers })
    expect((await send(call())).status).toBe(401)
    expect(ground.sent()).toHaveLength(1)
    expect(String(ground.sent()[0]?.body)).toContain('one, two')
    await until(() => blocked.count() === 2)
    blocked.release()
    await until(() => ground.events.some(({ type }) => type === 'token-renewed'))
    expect((await send(call())).status).toBe(200)
    expect(ground.env.counts.token).toBe(2)
    expect(ground.events).toContainEqual(expect.objectContaining({ type: 'token-rejected', api: 'merchant' }))
  })
})

describe('a 401 that the API sends before it reads the body', () => {
  const LARGE = Buffer.alloc(8 * 1024 * 1024, 'two apples')

  /** An API that rejects the first token before it reads any of the body. */
  async function rejectingUnread() {
    const bodies: Buffer[] = []
    const server = createServer(async (request, response) => {
      if (request.headers.authorization === 'Bearer first.token') {
        request.on('error', () => {}) // fetch aborts such an upload
        response.writeHead(401, { 'content-length': '0' }).end(() => request.resume())
        return
      }
      bodies.push(await buffer(request))
      response.end()
    })
    const api = await listening(server)
    const tokens = provided({ current: token('first.token'), apiUrls: [api.url] })
    return { ...api, bodies, tokens }
  }

  it.each(CLIENTS)('leads to a second send of a whole Buffer: $name', async ({ create }) => {
    await using api = await rejectingUnread()
    const { status } = await create(api.tokens)({ url: api.url, method: 'POST', body: LARGE })
    expect([status, api.bodies.length, api.bodies[0]?.equals(LARGE)]).toEqual([200, 1, true])
  })

  it('leads to a second send of the whole stream of a Request', async () => {
    await using api = await rejectingUnread()
    const init = { method: 'POST', body: new Blob([LARGE]).stream(), duplex: 'half' } as const
    const { status } = await FETCH.create(api.tokens)({ url: new Request(api.url, init) })
    expect([status, api.bodies.length, api.bodies[0]?.equals(LARGE)]).toEqual([200, 1, true])
  })

  it.each(WITH_FORMS)('is returned while the caller’s stream has not ended: $name', async ({ create }) => {
    await using api = await rejectingUnread()
    const body = new PassThrough()
    body.write(Buffer.alloc(1024))
    const { status } = await create(api.tokens)({ url: api.url, method: 'POST', body })
    body.end()
    expect([status, api.bodies]).toEqual([401, []])
  })
})

describe('a stream that fails while its call waits for a token', () => {
  /** Makes a call with this body. Its token arrives after the body has failed. */
  async function outcomeOf(
    { create }: Driver,
    { body, stream, error = new Error('cut off') }: { body: unknown; stream: Readable; error?: Error | null },
  ) {
    await using server = await scripted((_, response) => response.end())
    const get: TokenProvider['getToken'] = async () => {
      stream.destroy(error ?? undefined)
      await new Promise((resolve) => setImmediate(resolve))
      return token('first.token')
    }
    const uncaught = vi.fn()
    process.on('uncaughtException', uncaught)
    onTestFinished(() => void process.off('uncaughtException', uncaught))
    const send = create(provided({ get, apiUrls: [server.url] }))
    const { message, cause } = (await rejectionOf(send({ url: server.url, method: 'POST', body }))) as Error
    await new Promise((resolve) => setImmediate(resolve))
    expect(uncaught).not.toHaveBeenCalled()
    return [message, (cause as Error | undefined)?.message]
  }

  it.each(CLIENTS)('fails the call with its error: $name', async (client) => {
    const stream = new PassThrough()
    expect(await outcomeOf(client, { body: stream, stream })).toContain('cut off')
  })

  it.each(CLIENTS)('fails the call if it is closed before its end: $name', async (client) => {
    const stream = new PassThrough()
    expect(await outcomeOf(client, { body: stream, stream, error: null })).toBeDefined()
  })

  it('fails the call of axios if it is part of a form', async () => {
    const [stream, data] = [new PassThrough(), new FormDataPackage()]
    data.append('file', stream)
    expect(await outcomeOf(AXIOS_HTTP, { body: data, stream })).toContain('cut off')
  })
})
