// Tests of a service that mock its API: with the token, a client of theirs sends what it sends without.
import ky from 'ky'
import { createAuthFetch } from 'merchant-auth'
import { HttpResponse, http } from 'msw'
import { setupServer } from 'msw/node'
import nock from 'nock'
import createClient from 'openapi-fetch'
import { describe, expect, it, onTestFinished } from 'vitest'
import { provided, token } from '../support/provided.ts'

nock.restore() // its import replaces the global fetch

const ORIGIN = 'https://api.test.example'
const TOKENS = provided({ current: token('current.token'), apiUrls: [ORIGIN] })

/** What openapi-typescript generates. */
interface Paths {
  '/orders': {
    post: {
      requestBody: { content: { 'application/json': { amount: number } } }
      responses: { 200: { content: { 'application/json': object } } }
    }
  }
}

interface Received {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** What mocks the API at `/orders`: each call is noted, and answered with the next of these statuses, then 200. */
const MOCKS: Record<string, (received: Received[], statuses: number[]) => void> = {
  msw: (received, statuses) => {
    const server = setupServer(
      http.all(`${ORIGIN}/orders`, async ({ request }) => {
        received.push({ headers: Object.fromEntries(request.headers), body: await request.text() })
        return HttpResponse.json({}, { status: statuses.shift() ?? 200 })
      }),
    )
    server.listen()
    onTestFinished(() => server.close())
  },
  nock: (received, statuses) => {
    nock.activate()
    nock(ORIGIN)
      .persist()
      .post('/orders')
      .reply(async (request: Request) => {
        received.push({ headers: Object.fromEntries(request.headers), body: await request.text() })
        return [statuses.shift() ?? 200, {}, { 'content-type': 'application/json' }]
      })
    onTestFinished(() => {
      nock.cleanAll()
      nock.restore()
    })
  },
}

const headers = { 'Idempotency-Key': 'key-1', 'X-Mine': '1' }
const form = () => new URLSearchParams({ amount: '1200' })

/** A call of each client with the fetch that it gets. */
const CALLS: Record<string, (send: typeof fetch) => Promise<unknown>> = {
  'openapi-fetch': (send) =>
    createClient<Paths>({ baseUrl: ORIGIN, fetch: send }).POST('/orders', {
      body: { amount: 1200 },
      headers,
    }),
  'openapi-fetch with a form': (send) => {
    const options = { body: { amount: 1200 }, bodySerializer: form, headers }
    return createClient<Paths>({ baseUrl: ORIGIN, fetch: send }).POST('/orders', options)
  },
  ky: (send) => ky.post(`${ORIGIN}/orders`, { fetch: send, json: { amount: 1200 }, headers }),
  'ky that retries': (send) => {
    const retry = { methods: ['post'], limit: 1, delay: () => 0 } as const
    const beforeRetry = ({ request }: { request: Request }) => request.headers.set('X-Attempt', '2')
    const hooks = { beforeRetry: [beforeRetry] }
    return ky.post(`${ORIGIN}/orders`, { fetch: send, body: form(), headers, retry, hooks } as never)
  },
  'a Request with a form': (send) =>
    send(new Request(`${ORIGIN}/orders`, { method: 'POST', body: form(), headers })),
  'a clone with a header set': (send) => {
    const clone = new Request(`${ORIGIN}/orders`, { method: 'POST', body: '{}', headers }).clone()
    clone.headers.set('X-Attempt', '2')
    return send(clone)
  },
  'a Headers': (send) => {
    const own = new Headers(headers)
    own.set('X-Attempt', '2')
    return send(`${ORIGIN}/orders`, { method: 'POST', body: form(), headers: own })
  },
  'the headers of a clone': (send) => {
    const clone = new Request(`${ORIGIN}/orders`, { method: 'POST', body: '{}', headers }).clone()
    clone.headers.set('X-Attempt', '2')
    return send(`${ORIGIN}/orders`, { method: 'POST', body: '{}', headers: clone.headers })
  },
}

describe.each(Object.entries(MOCKS))('with %s', (_, mock) => {
  it('a Request is sent with the token on it, as docs/testing.md says', async () => {
    mock([], [])
    const seen: unknown[] = []
    const wrapped: typeof fetch = async (input, init) => {
      seen.push((input as Request).headers.get('authorization'), init)
      return new Response()
    }
    const request = new Request(`${ORIGIN}/orders`, { method: 'POST', body: '{}', headers })
    await createAuthFetch(TOKENS, { fetch: wrapped })(request)
    expect(seen).toEqual(['Bearer current.token', undefined])
  })

  it.each(Object.entries(CALLS))('%s sends the same calls, with the token', async (name, call) => {
    const retried = name.includes('retries') ? [503] : []
    const received: Received[] = []
    mock(received, [...retried, ...retried.map(() => 200), ...retried])
    await call((...args) => globalThis.fetch(...args))
    const plain = received.splice(0)
    await call(createAuthFetch(TOKENS))
    const authorization = 'Bearer current.token'
    expect(plain[0]?.headers).toMatchObject({ 'idempotency-key': 'key-1' })
    expect(received).toEqual(plain.map((one) => ({ ...one, headers: { ...one.headers, authorization } })))
  })

  it('a call that is repeated after a 401 sends everything again', async () => {
    const received: Received[] = []
    mock(received, [401])
    await CALLS['openapi-fetch with a form']?.(createAuthFetch(TOKENS))
    const [first, second] = received
    expect(first?.headers).toMatchObject({
      'idempotency-key': 'key-1',
      authorization: 'Bearer current.token',
    })
    const authorization = 'Bearer second.token'
    expect(second).toEqual({ ...first, headers: { ...first?.headers, authorization } })
  })
})
