// Bodies after a 401: the scenarios of all clients, APIs that respond before they read the body, and bodies of axios alone.
import { createServer } from 'node:http'
import { PassThrough, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { AxiosError, type AxiosProgressEvent, type AxiosRequestConfig } from 'axios'
import FormDataPackage from 'form-data'
import { createAuthFetch } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { ADAPTERS, listening, rejectionOf, until, useGround } from '../support/ground.ts'
import { provided, token } from '../support/provided.ts'
import { fakeApi } from './axios-fakes.ts'
import { conform, UNDICI } from './conform.ts'
import { AXIOS_FETCH, AXIOS_HTTP, FETCH } from './drivers.ts'
import { BODIES } from './scenarios/bodies.ts'
import { smallForm } from './scenarios/body-kinds.ts'

conform(BODIES)

describe('a 401 that the API sends before it reads the body', () => {
  const LARGE = Buffer.alloc(8 * 1024 * 1024, 'two apples')

  /** An API that rejects the first token before it reads any of the body. */
  async function rejectingUnread() {
    const bodies: Buffer[] = []
    let rejected = 0
    const server = createServer(async (request, response) => {
      if (request.headers.authorization === 'Bearer first.token') {
        rejected += 1
        request.on('error', () => {}) // fetch aborts such an upload
        response.writeHead(401, { 'content-length': '0' }).end(() => request.resume())
        return
      }
      bodies.push(await buffer(request))
      response.end()
    })
    const api = await listening(server)
    const tokens = provided({ current: token('first.token'), apiUrls: [api.url] })
    return { ...api, bodies, rejected: () => rejected, tokens }
  }
  const DRIVERS = [AXIOS_HTTP, AXIOS_FETCH, FETCH]

  function form(): FormData {
    const data = new FormData()
    data.append('file', new Blob([LARGE]))
    return data
  }
  const BODIES = { 'a Buffer': () => LARGE, 'a Blob': () => new Blob([LARGE]), 'a form': form }
  it.each([...DRIVERS, UNDICI])('leads to a second send of the whole body: $name', async (driver) => {
    for (const [what, make] of Object.entries(BODIES)) {
      if (driver === UNDICI && what === 'a form') continue // undici only accepts its own FormData
      await using api = await rejectingUnread()
      const { status } = await driver.create(api.tokens)({ url: api.url, method: 'POST', body: make() })
      expect([status, api.rejected(), api.bodies.length]).toEqual([200, 1, 1])
      expect(api.bodies[0]?.includes(LARGE)).toBe(true)
    }
  })

  it('leads to a second send of the whole stream of a Request', async () => {
    await using api = await rejectingUnread()
    const init = { method: 'POST', body: new Blob([LARGE]).stream(), duplex: 'half' } as const
    const { status } = await FETCH.create(api.tokens)({ url: new Request(api.url, init) })
    expect([status, api.rejected(), api.bodies[0]?.equals(LARGE)]).toEqual([200, 1, true])
  })

  it.each(DRIVERS)('does not lead to a second send of a stream that has not ended: $name', async (driver) => {
    await using api = await rejectingUnread()
    const answered = Promise.withResolvers<void>()
    const body = Readable.from(
      (async function* () {
        yield Buffer.alloc(1024)
        await answered.promise
        yield Buffer.alloc(1024)
      })(),
    )
    const { status } = await driver.create(api.tokens)({ url: api.url, method: 'POST', body })
    answered.resolve()
    expect([status, api.rejected(), api.bodies]).toEqual([401, 1, []])
  })
})

describe('a body of createAuthFetch', () => {
  async function* generated() {
    yield 'x'
  }
  const tagged = (tag: string, more: object = {}) => Object.assign(more, { [Symbol.toStringTag]: tag })

  it.each<[string, unknown, boolean]>([
    ['null', null, true],
    ['a SharedArrayBuffer', new SharedArrayBuffer(2), true],
    ['an object with the tag Blob', tagged('Blob'), true],
    ['an object with the tag BlobLike', tagged('BlobLike'), false],
    ['an async iterable with the tag Blob', tagged('Blob', { [Symbol.asyncIterator]: generated }), false],
    ['a stream with the tag FormData', tagged('FormData', new PassThrough()), false],
    ['a number', 12, false],
    ['a boolean', false, false],
    ['a symbol', Symbol('x'), false],
    ['a function', () => 'x', false],
    ['an object', { a: 1 }, false],
    ['an array', ['a'], false],
    ['a Date', new Date(0), false],
    ['a form of the form-data package', new FormDataPackage(), false],
  ])('is sent again after a 401 only if its type allows it: %s', async (_, body, isSentAgain) => {
    let sends = 0
    const fetch = async () => {
      sends += 1
      return { status: 401 } as Response
    }
    const authFetch = createAuthFetch(provided({ current: token('first.token') }), { fetch })
    await authFetch('https://api.test.example/merchant', { method: 'POST', body: body as string })
    expect(sends).toBe(isSentAgain ? 2 : 1)
  })
})

describe('an axios body', () => {
  const ground = useGround()
  const revoked = async (config: AxiosRequestConfig = {}, attach = {}) => {
    await ground.tokens.getToken()
    ground.env.revoke()
    return ground.api({ proxy: false, ...config } as never, attach)
  }
  const sizes = () => ground.sent().map(({ body }) => body?.length)

  it('of the form-data package is not sent again after a 401', async () => {
    const form = new FormDataPackage()
    form.append('amount', '12 €')
    const api = await revoked({ validateStatus: () => true })
    expect((await api.post('/x', form)).status).toBe(401)
    expect(ground.sent().map(({ body }) => body?.includes('12 €'))).toEqual([true])
  })

  it.each<[type: string, boundary: string | undefined]>([
    ['multipart/form-data; boundary=abc', 'abc'],
    ['multipart/form-data;boundary=abc', 'abc'],
    ['  Multipart/Form-Data ;  Boundary=A-b-1', 'a-b-1'],
    ['multipart/form-data; boundary="a b:c"', 'a b:c'],
    ['multipart/form-data; boundary=abc; charset=utf-8', 'abc'],
    ['multipart/form-data; charset=utf-8; boundary=abc', 'abc'],
    ['multipart/form-data; charset=utf-8;boundary=abc', 'abc'],
    ['multipart/form-data; boundary=abc ; charset=utf-8', 'abc'],
    ['multipart/form-data; boundary= abc', 'abc'],
    ['multipart/form-data', undefined],
    ['multipart/form-data; charset=utf-8', undefined],
    ['multipart/form-data; boundary=', undefined],
    ['multipart/form-data; x-boundary=abc', undefined],
    ['multipart/mixed; boundary=abc', undefined],
    ['x-multipart/form-data; boundary=abc', undefined],
    ['multipart/form-data-x; boundary=abc', undefined],
  ])(
    'of FormData is sent with the boundary of its content type, else with a generated one: %j',
    async (type, boundary) => {
      const api = ground.api({ adapter: 'http' })
      await api.post('/x', smallForm(), { headers: { 'Content-Type': type } })
      const [sent] = ground.sent()
      const used = /^--(.+)\r\n/.exec(String(sent?.body))?.[1]
      expect(used).toEqual(boundary ?? expect.stringMatching(/^merchant-auth-[\da-f-]{36}$/))
      expect(sent?.headers['content-type']).toContain(used)
    },
  )

  const PROGRESS = { 'a Buffer': () => Buffer.alloc(1024 * 1024), 'a form': smallForm }
  it.each(ADAPTERS.flatMap((adapter) => Object.entries(PROGRESS).map((made) => [adapter, ...made] as const)))(
    'emits upload progress for both sends: %s, %s',
    async (adapter, _, make) => {
      const api = await revoked({ adapter })
      const ends: AxiosProgressEvent[] = []
      const onUploadProgress = (event: AxiosProgressEvent): void => {
        if (event.loaded === event.total) ends.push(event)
      }
      await api.post('/x', make(), { onUploadProgress })
      const [first, second] = sizes()
      expect(second).toBe(first)
      await until(() => ends.length >= 2)
      expect(ends.map(({ total }) => total)).toEqual([first, first])
    },
  )

  it.each(ADAPTERS)('beyond maxBodyLength is rejected by axios itself: %s', async (adapter) => {
    const over = Buffer.alloc(11)
    const form = new FormData()
    form.append('file', new Blob([over]))
    for (const body of [over, new Blob([over]), form, Readable.from([over])]) {
      const error = await rejectionOf(ground.api({ adapter }).post('/x', body, { maxBodyLength: 10 }))
      expect(error).toBeInstanceOf(AxiosError)
      const message = 'Request body larger than maxBodyLength limit'
      expect(error).toMatchObject({ code: 'ERR_BAD_REQUEST', message, config: { maxBodyLength: 10 } })
    }
    // axios counts a stream while it sends it: the API sees an aborted request.
    expect(sizes().filter((size) => size !== undefined && size > 0)).toEqual([])
    const api = await revoked({ adapter })
    await api.post('/x', Buffer.alloc(10), { maxBodyLength: 10 })
    expect(sizes().slice(-2)).toEqual([10, 10])
  })

  it('is sent both times with the timeout, the signal and the callbacks of its call', async () => {
    const { signal } = new AbortController()
    const onUploadProgress = (): void => {}
    const { api, configs } = fakeApi([{ status: 401 }])
    await api.post('/1', 'abc', { timeout: 61_234, signal, onUploadProgress })
    expect(configs).toHaveLength(2)
    for (const config of configs) {
      expect(config.timeout).toBe(61_234)
      expect(config.signal).toBe(signal)
      expect(config.onUploadProgress).toBe(onUploadProgress)
    }
  })
})
