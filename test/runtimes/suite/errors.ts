/** Failures of the token endpoint, and the log output of callers. */
import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import {
  ConfigurationError,
  createTokenProvider,
  isMerchantAuthError,
  TokenRequestError,
  TokenResponseError,
} from 'merchant-auth'
import { FAULTS, logOutput } from '../../clients/scenarios/faults.ts'
import { REDIRECTS } from '../../clients/scenarios/redirects.ts'
import { closedPort, failureOf, inWorld } from '../../clients/world.ts'
import { checkScenarios } from './clients.ts'
import { check, differs, group, isDeno } from './harness.ts'

/** For faults that have to outlast the retries of a runtime itself. */
const FOREVER = { times: Number.POSITIVE_INFINITY }

group('Errors')

check('a wrong secret rejects with ERR_TOKEN_STATUS, without retries', () =>
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

check('an HTML page rejects with a TokenResponseError', () =>
  inWorld(async ({ service, provider }) => {
    service.fail('token', { kind: 'text', body: '<h1>Hello</h1>', contentType: 'text/html' })
    const failure = await failureOf(provider().getToken())
    assert.ok(failure instanceof TokenResponseError)
    assert.equal(failure.issues[0]?.field, 'body')
  }),
)

check('a body of 10 MiB, plain or compressed, rejects with a TokenResponseError', () =>
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

check('a truncated body is retried, then rejects with ERR_TOKEN_NETWORK', () =>
  inWorld(async ({ service, provider }) => {
    service.fail('token', { kind: 'truncated-body' }, { times: 2 })
    const failure = await failureOf(provider({ retries: 1 }).getToken())
    assert.ok(failure instanceof TokenRequestError, String(failure))
    assert.deepEqual([failure.code, failure.attempts], ['ERR_TOKEN_NETWORK', 2])
    assert.match(failure.message, /incomplete response/)
  }),
)

check('a refused or reset connection rejects with ERR_TOKEN_NETWORK', () =>
  inWorld(async ({ service, provider }) => {
    const environment = { ...service.environment, authUrl: `http://127.0.0.1:${await closedPort()}` }
    service.fail('token', { kind: 'reset' }, FOREVER)
    const lacksCode = differs(
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
      assert.equal(failure.message.includes(code), !lacksCode, failure.message)
      assert.match(inspect(failure), lacksCode ? /Connection (refused|reset)/ : new RegExp(code))
    }
  }),
)

check('a 503 with Retry-After is retried', () =>
  inWorld(async ({ service, provider }) => {
    service.fail('token', { kind: 'status', status: 503, retryAfter: 0 }, { times: 2 })
    assert.ok((await provider().getToken()).value)
    assert.equal(service.counts.token, 3)
  }),
)

check('a hanging token endpoint rejects with ERR_TOKEN_TIMEOUT', () =>
  inWorld(async ({ service, provider }) => {
    service.fail('token', { kind: 'hang' }, FOREVER)
    const failure = await failureOf(provider({ timeoutMs: 100, retries: 0 }).getToken())
    assert.ok(failure instanceof TokenRequestError)
    assert.equal(failure.code, 'ERR_TOKEN_TIMEOUT')
  }),
)

check('concurrent callers each get their own error object', () =>
  inWorld(async ({ service, provider }) => {
    service.fail('token', { kind: 'status', status: 400, body: { error: 'invalid_request' } })
    const tokens = provider()
    const failures = await Promise.all([1, 2, 3].map(() => failureOf(tokens.getToken())))
    assert.equal(new Set(failures).size, 3)
    for (const failure of failures) assert.equal((failure as TokenRequestError).error, 'invalid_request')
  }),
)

check('all invalid options are reported in one ConfigurationError', async () => {
  const environment = { authUrl: 'http://auth.example', audience: '', apiUrls: [] }
  assert.throws(
    () => createTokenProvider({ environment, clientId: '', clientSecret: '' }),
    (error) => error instanceof ConfigurationError && error.problems.length >= 5,
  )
})

group('No secret and no token in what is printed')
checkScenarios(FAULTS)

check('tokens, providers and token endpoint errors show no secret and no token in log output', () =>
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
    const rejected = await failureOf(provider().getToken())
    const environment = { ...service.environment, authUrl: `http://127.0.0.1:${await closedPort()}` }
    const unreachable = await failureOf(provider({ environment, retries: 0 }).getToken())
    for (const [what, value] of Object.entries({ tokens, token, rejected, unreachable })) {
      const text = logOutput(value)
      assert.ok(!text.includes(clientSecret), `the secret, in the log output of ${what}: ${text}`)
      assert.ok(!text.includes(head), `the token, in the log output of ${what}: ${text}`)
    }
  }),
)

group('Redirects take neither the secret nor the token along')
checkScenarios(REDIRECTS)

for (const status of [301, 302, 303, 307, 308]) {
  check(`a ${status} from the token endpoint is not followed`, () =>
    inWorld(async ({ service, provider, host }) => {
      const other = await host((_, response) => response.end('{}'))
      service.fail('token', { kind: 'redirect', status, location: `${other.url}/oauth/token` })
      const failure = await failureOf(provider().getToken())
      assert.deepEqual(other.seen, [])
      assert.ok(failure instanceof TokenRequestError, String(failure))
      assert.deepEqual({ code: failure.code, status: failure.status }, { code: 'ERR_TOKEN_REDIRECT', status })
      assert.equal(service.counts.token, 1)
    }),
  )
}

check('a redirect of the token endpoint to itself is not followed', () =>
  inWorld(async ({ service, provider }) => {
    service.fail('token', { kind: 'redirect', location: `${service.environment.authUrl}/oauth/token` })
    const failure = await failureOf(provider().getToken())
    assert.equal((failure as TokenRequestError).code, 'ERR_TOKEN_REDIRECT')
    assert.equal(service.counts.token, 1)
  }),
)
