/** What goes wrong at the token endpoint, and where the secret and the token never go. */
import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import axios from 'axios'
import {
  ConfigurationError,
  createAuthFetch,
  createTokenProvider,
  isMerchantAuthError,
  TokenRequestError,
  TokenResponseError,
} from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { check, differs, group, isDeno } from './harness.ts'
import { closedPort, failureOf, inWorld } from './world.ts'

/** For faults that outlast what a runtime does again by itself. */
const FOREVER = { times: Number.POSITIVE_INFINITY }

group('Errors')

check('a wrong secret', () =>
  inWorld(async ({ provider }) => {
    const failure = await failureOf(provider({ clientSecret: 'swordfish' }).getToken())
    assert.ok(failure instanceof TokenRequestError && isMerchantAuthError(failure))
    const { code, status, error, attempts, retryable } = failure
    assert.deepEqual(
      { code, status, error, attempts, retryable },
      { code: 'ERR_TOKEN_STATUS', status: 401, error: 'invalid_client', attempts: 1, retryable: false },
    )
  }),
)

check('a page in HTML', () =>
  inWorld(async ({ service, provider }) => {
    service.fail('token', { kind: 'text', body: '<h1>Hello</h1>', contentType: 'text/html' })
    const failure = await failureOf(provider().getToken())
    assert.ok(failure instanceof TokenResponseError)
    assert.equal(failure.issues[0]?.field, 'body')
  }),
)

check('a body of 10 MiB, and a compressed one', () =>
  inWorld(async ({ service, provider }) => {
    for (const [fault, reason] of [
      [{ kind: 'huge-body' }, /longer than 65536 bytes/],
      [{ kind: 'huge-body', gzip: true }, /longer than 65536 bytes/],
    ] as const) {
      service.fail('token', fault)
      const failure = await failureOf(provider().getToken())
      assert.ok(failure instanceof TokenResponseError, `${fault.kind}: ${failure}`)
      assert.match(failure.message, reason)
    }
  }),
)

check('a body that breaks off', () =>
  inWorld(async ({ service, provider }) => {
    service.fail('token', { kind: 'truncated-body' }, { times: 2 })
    const failure = await failureOf(provider({ retries: 1 }).getToken())
    assert.ok(failure instanceof TokenRequestError, String(failure))
    assert.deepEqual([failure.code, failure.attempts], ['ERR_TOKEN_NETWORK', 2])
    assert.match(failure.message, /broke off/)
  }),
)

check('nobody listens, and a connection that is reset', () =>
  inWorld(async ({ service, provider }) => {
    const environment = { ...service.environment, authUrl: `http://127.0.0.1:${await closedPort()}` }
    service.fail('token', { kind: 'reset' }, FOREVER)
    const nameless = differs(
      isDeno,
      "The errors of Deno's `fetch` have no code such as `ECONNREFUSED`. The message of a `TokenRequestError` does not name the reason; its `cause` does, in words.",
    )
    for (const [options, code] of [
      [{ environment }, 'ECONNREFUSED'],
      [{}, 'ECONNRESET'],
    ] as const) {
      const failure = await failureOf(provider({ ...options, retries: 0 }).getToken())
      assert.ok(failure instanceof TokenRequestError)
      assert.equal(failure.code, 'ERR_TOKEN_NETWORK')
      assert.equal(failure.message.includes(code), !nameless, failure.message)
      assert.match(inspect(failure), nameless ? /Connection (refused|reset)/ : new RegExp(code))
    }
  }),
)

check('a failure is retried, after what Retry-After asks for', () =>
  inWorld(async ({ service, provider }) => {
    service.fail('token', { kind: 'status', status: 503, retryAfter: 0 }, { times: 2 })
    assert.ok((await provider().getToken()).value)
    assert.equal(service.counts.token, 3)
  }),
)

check('a token endpoint that hangs', () =>
  inWorld(async ({ service, provider }) => {
    service.fail('token', { kind: 'hang' }, FOREVER)
    const failure = await failureOf(provider({ timeoutMs: 100, retries: 0 }).getToken())
    assert.ok(failure instanceof TokenRequestError)
    assert.equal(failure.code, 'ERR_TOKEN_TIMEOUT')
  }),
)

check('callers that wait together get an error object each', () =>
  inWorld(async ({ service, provider }) => {
    service.fail('token', { kind: 'status', status: 400, body: { error: 'invalid_request' } })
    const tokens = provider()
    const failures = await Promise.all([1, 2, 3].map(() => failureOf(tokens.getToken())))
    assert.equal(new Set(failures).size, 3)
    for (const failure of failures) assert.equal((failure as TokenRequestError).error, 'invalid_request')
  }),
)

check('wrong options, all at once', async () => {
  const environment = { authUrl: 'http://auth.example', audience: '', apiUrls: [] }
  assert.throws(
    () => createTokenProvider({ environment, clientId: '', clientSecret: '' }),
    (error) => error instanceof ConfigurationError && error.problems.length >= 5,
  )
})

group('No secret and no token in what is printed')

const bun = Reflect.get(globalThis, 'Bun') as
  | { inspect(value: unknown, options?: object): string }
  | undefined
const deno = Reflect.get(globalThis, 'Deno') as
  | { inspect(value: unknown, options?: object): string }
  | undefined

/** Everything that may stand in a log. */
function prints(value: unknown): string {
  const { message, stack } = value as Partial<Error>
  return [
    message,
    stack,
    JSON.stringify(value),
    inspect(value, { depth: Number.POSITIVE_INFINITY }),
    bun?.inspect(value, { depth: 50 }),
    deno?.inspect(value, { depth: 50, strAbbreviateSize: 1_000_000, iterableLimit: 1_000_000 }),
  ].join('\n')
}

check('tokens, providers and the errors of the token endpoint', () =>
  inWorld(async ({ service, provider }) => {
    const tokens = provider()
    const token = await tokens.getToken()
    const { clientSecret } = service
    const [head = ''] = token.value.split('.').slice(2)
    service.fail('token', {
      kind: 'status',
      status: 400,
      body: { error: 'invalid_request', error_description: `No ${clientSecret}` },
    })
    const refused = await failureOf(provider().getToken())
    const environment = { ...service.environment, authUrl: `http://127.0.0.1:${await closedPort()}` }
    const unreachable = await failureOf(provider({ environment, retries: 0 }).getToken())
    for (const [what, value] of Object.entries({ tokens, token, refused, unreachable })) {
      const text = prints(value)
      assert.ok(!text.includes(clientSecret), `the secret, in the print of ${what}: ${text}`)
      assert.ok(!text.includes(head), `the token, in the print of ${what}: ${text}`)
    }
  }),
)

for (const adapter of ['http', 'fetch'] as const) {
  check(`AxiosErrors and responses of axios' ${adapter} adapter`, () =>
    inWorld(async ({ service, provider }) => {
      const tokens = provider()
      const api = axios.create({ adapter, baseURL: service.merchantUrl })
      attachAuth(api, tokens)
      const [, , signature = ''] = (await tokens.getToken()).value.split('.')
      service.fail('merchant', { kind: 'status', status: 404, body: { error: 'not found' } })
      const notFound = await failureOf(api.post('/orders', { note: 'two apples' }))
      service.fail('merchant', { kind: 'reset' }, FOREVER)
      const reset = await failureOf(api.get('/orders'))
      service.clearFaults()
      service.fail('merchant', { kind: 'hang' }, FOREVER)
      const canceled = await failureOf(api.get('/orders', { signal: AbortSignal.timeout(30) }))
      service.clearFaults()
      const response = await api.get('/orders')
      for (const [what, value] of Object.entries({ notFound, reset, canceled, response })) {
        const text = prints(what === 'response' ? { ...(value as object), data: undefined } : value)
        assert.ok(!text.includes(signature), `the token, in the print of ${what}: ${text}`)
      }
    }),
  )
}

check('a call of fetch that fails', () =>
  inWorld(async ({ service, provider }) => {
    const tokens = provider()
    const [, , signature = ''] = (await tokens.getToken()).value.split('.')
    service.fail('merchant', { kind: 'reset' }, FOREVER)
    const reset = await failureOf(createAuthFetch(tokens)(`${service.merchantUrl}/orders`))
    service.clearFaults()
    const response = await createAuthFetch(tokens)(`${service.merchantUrl}/orders`)
    for (const value of [reset, response]) assert.ok(!prints(value).includes(signature))
  }),
)
