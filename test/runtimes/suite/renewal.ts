/** A 401: one renewal, and the same call once more, with the same bytes. For fetch, and for both adapters of axios. */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import axios from 'axios'
import { type AttachOptions, createAuthFetch, type TokenProvider } from 'merchant-auth'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { check, group } from './harness.ts'
import { inWorld, type World } from './world.ts'

/** A POST by some client: the status of the answer, whatever it is. */
type Post = (url: string, body: unknown) => Promise<number>
type Client = (tokens: TokenProvider, attach?: AttachOptions) => Post

const fetchClient: Client = (tokens, attach) => {
  const authFetch = createAuthFetch(tokens, attach)
  return async (url, body) => {
    const init = { method: 'POST', body: body as string, duplex: 'half' } as const
    return (await authFetch(url, init)).status
  }
}

const axiosClient =
  (adapter: 'http' | 'fetch'): Client =>
  (tokens, attach) => {
    const api = axios.create({ adapter, validateStatus: () => true })
    attachAuth(api, tokens, attach)
    return async (url, body) => (await api.post(url, body)).status
  }

function form(): FormData {
  const data = new FormData()
  data.append('note', 'two äpples')
  data.append('file', new File([Uint8Array.of(0, 1, 254, 255)], 'a "b".bin', { type: 'image/png' }))
  return data
}

const BYTES = Uint8Array.of(0, 255, 13, 10, 128)

/** Bodies that can be sent again. */
const BODIES: Readonly<Record<string, () => unknown>> = {
  'a string': () => 'two äpples',
  'a Buffer': () => Buffer.from(BYTES),
  'a view': () => new Uint8Array([...BYTES, ...BYTES]).subarray(2, 7),
  'an ArrayBuffer': () => BYTES.slice().buffer,
  'a FormData': form,
  'a Blob': () => new Blob([BYTES], { type: 'image/png' }),
  URLSearchParams: () => new URLSearchParams({ note: 'two äpples' }),
}

function chunks(): Uint8Array[] {
  return ['two ', 'apples'].map((text) => new TextEncoder().encode(text))
}

const webStream = (): ReadableStream => {
  const left = chunks()
  return new ReadableStream({
    pull(controller) {
      const chunk = left.shift()
      if (chunk === undefined) controller.close()
      else controller.enqueue(chunk)
    },
  })
}

const CLIENTS: readonly { name: string; client: Client; stream: () => unknown }[] = [
  { name: 'fetch', client: fetchClient, stream: webStream },
  { name: "axios' http adapter", client: axiosClient('http'), stream: () => Readable.from(chunks()) },
  { name: "axios' fetch adapter", client: axiosClient('fetch'), stream: webStream },
]

for (const { name, client, stream } of CLIENTS) {
  group(`401: one renewal, and the call once more: ${name}`)

  for (const [what, body] of Object.entries(BODIES)) {
    check(`${what} is sent again, byte for byte`, () =>
      inWorld(async (world) => {
        const tokens = world.provider()
        const post = client(tokens)
        await tokens.getToken()
        world.service.revoke()
        assert.equal(await post(`${world.service.merchantUrl}/orders`, body()), 200)
        assertRepeated(world)
      }),
    )
  }

  check('a stream is sent once', () =>
    inWorld(async ({ service, provider }) => {
      const tokens = provider()
      const post = client(tokens)
      await tokens.getToken()
      service.revoke()
      assert.equal(await post(`${service.merchantUrl}/orders`, stream()), 401)
      assert.deepEqual(
        service.requests('merchant').map(({ body }) => body?.toString()),
        ['two apples'],
      )
      assert.equal(await post(`${service.merchantUrl}/orders`, 'the next'), 200)
      assert.equal(service.counts.token, 2)
    }),
  )

  check('50 calls at once share one renewal, while the other API goes on', () =>
    inWorld(async ({ service, provider }) => {
      const tokens = provider()
      const post = client(tokens)
      await tokens.getToken()
      service.revoke()
      const urls = Array.from({ length: 50 }, (_, index) =>
        index % 2 ? service.merchantUrl : service.inStoreUrl,
      )
      const statuses = await Promise.all(urls.map((url) => post(`${url}/orders`, 'body')))
      assert.deepEqual(new Set(statuses), new Set([200]))
      assert.equal(service.counts.token, 2)
    }),
  )

  check('a header of another name, without a scheme', () =>
    inWorld(async (world) => {
      const { service, provider } = world
      service.configure({ header: 'X-Access-Token', scheme: '' })
      const tokens = provider()
      const post = client(tokens, { header: 'X-Access-Token', scheme: '' })
      await tokens.getToken()
      service.revoke()
      assert.equal(await post(`${service.merchantUrl}/orders`, 'body'), 200)
      assertRepeated(world)
      for (const { headers } of service.requests('merchant')) {
        assert.match(headers['x-access-token'] ?? '', /^\[token .+\]$/)
        assert.equal(headers['authorization'], undefined)
      }
    }),
  )

  check('an API that refuses every token costs one renewal, and its caller sees the 401', () =>
    inWorld(async ({ service, provider }) => {
      service.configure({ rejectAllTokens: true })
      const post = client(provider())
      for (let time = 0; time < 3; time += 1) {
        assert.equal(await post(`${service.merchantUrl}/orders`, 'body'), 401)
      }
      assert.equal(service.counts.token, 2)
      assert.equal(service.counts.merchant, 4)
    }),
  )
}

group('401: one renewal, and the call once more: fetch')

for (const [how, wrap] of [
  ['itself', (authFetch: typeof fetch) => authFetch],
  [
    'called by another one later',
    (authFetch: typeof fetch): typeof fetch =>
      async (input, init) => {
        await new Promise((resolve) => setTimeout(resolve, 0))
        return await authFetch(input, init)
      },
  ],
] as const) {
  check(`the fetch with the token is the global one, ${how}`, () =>
    inWorld(async ({ service, provider }) => {
      const before = globalThis.fetch
      const tokens = provider() // its token requests go by the global fetch, too
      globalThis.fetch = wrap(createAuthFetch(tokens))
      try {
        const url = `${service.merchantUrl}/orders`
        assert.equal((await fetch(url)).status, 200)
        service.revoke()
        assert.equal((await fetch(url, { method: 'POST', body: 'two apples' })).status, 200)
        assert.equal(service.counts.token, 2)
        assert.equal(service.counts.merchant, 3)
      } finally {
        globalThis.fetch = before
      }
    }),
  )
}

group('Streamed answers, and the plain interceptor of axios')

check('fetch: the body of a Request is sent again, and the answer is a stream', () =>
  inWorld(async (world) => {
    const tokens = world.provider()
    await tokens.getToken()
    world.service.revoke()
    const url = new URL(`${world.service.merchantUrl}/orders`)
    const request = new Request(url, {
      method: 'PUT',
      body: 'two äpples',
      headers: { 'idempotency-key': 'one' },
    })
    const response = await createAuthFetch(tokens)(request)
    assert.equal(response.status, 200)
    assertRepeated(world)
    const keys = world.service.requests('merchant').map(({ headers }) => headers['idempotency-key'])
    assert.deepEqual(keys, ['one', 'one'])
    const parts: Uint8Array[] = []
    for await (const part of response.body as AsyncIterable<Uint8Array>) parts.push(part)
    assert.equal(JSON.parse(Buffer.concat(parts).toString()).body, 'two äpples')
  }),
)

for (const adapter of ['http', 'fetch'] as const) {
  check(`axios' ${adapter} adapter: an answer as a stream, after a 401`, () =>
    inWorld(async (world) => {
      const tokens = world.provider()
      const api = axios.create({ adapter, responseType: 'stream' })
      attachAuth(api, tokens)
      await tokens.getToken()
      world.service.revoke()
      const { data } = await api.post(`${world.service.merchantUrl}/orders`, { note: 'two äpples' })
      assertRepeated(world)
      const parts: Uint8Array[] = []
      for await (const part of data as AsyncIterable<Uint8Array>) parts.push(part)
      assert.equal(JSON.parse(Buffer.concat(parts).toString()).body, '{"note":"two äpples"}')
    }),
  )
}

check('axios: the plain interceptor, and taking the token off again', () =>
  inWorld(async ({ service, provider }) => {
    const tokens = provider()
    const plain = axios.create({ baseURL: service.merchantUrl })
    plain.interceptors.request.use(createAuthInterceptor(tokens))
    assert.equal((await plain.get('/orders')).status, 200)
    const api = axios.create({ baseURL: service.merchantUrl, validateStatus: () => true })
    const takeOff = attachAuth(api, tokens)
    assert.equal((await api.get('/orders')).status, 200)
    takeOff()
    assert.equal((await api.get('/orders')).status, 401)
    assert.equal(service.counts.token, 1)
  }),
)

function assertRepeated({ service }: World): void {
  const [first, second, ...more] = service.requests('merchant')
  assert.deepEqual([first?.status, second?.status, more.length], [401, 200, 0])
  assert.ok((first?.body?.length ?? 0) > 0)
  assert.deepEqual(second?.body, first?.body)
  assert.equal(second?.method, first?.method)
  assert.equal(second?.headers['content-type'], first?.headers['content-type'])
  assert.equal(service.counts.token, 2)
}
