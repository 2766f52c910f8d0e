/** `merchant-auth/testing` in this runtime: the sandbox with each of its faults, and the static provider. */
import assert from 'node:assert/strict'
import { createAuthFetch } from 'merchant-auth'
import { createStaticTokenProvider, type Fault, startSandbox } from 'merchant-auth/testing'
import { failureOf, inWorld } from '../../clients/world.ts'
import { check, group } from './harness.ts'

group('`merchant-auth/testing`')

check('the API echoes the request that it received', () =>
  inWorld(async ({ service, provider }) => {
    const authFetch = createAuthFetch(provider())
    const response = await authFetch(`${service.inStoreUrl}/sales?a=b`, { method: 'PUT', body: 'two äpples' })
    const { api, method, path, query, body, jti } = (await response.json()) as Record<string, unknown>
    assert.deepEqual(
      { api, method, path, query, body },
      { api: 'in-store', method: 'PUT', path: '/in-store/sales', query: 'a=b', body: 'two äpples' },
    )
    assert.equal(typeof jti, 'string')
    assert.equal(service.requests('in-store')[0]?.headers['authorization'], `Bearer [token ${jti}]`)
  }),
)

const ANSWERED: Readonly<Record<string, [Fault, number]>> = {
  status: [{ kind: 'status', status: 429, retryAfter: 1 }, 429],
  json: [{ kind: 'json', body: { a: 1 }, status: 201 }, 201],
  text: [{ kind: 'text', body: 'hello' }, 200],
  redirect: [{ kind: 'redirect', location: '/elsewhere' }, 307],
  'slow-body': [{ kind: 'slow-body', durationMs: 20 }, 200],
  'huge-body': [{ kind: 'huge-body', bytes: 100_000, gzip: true }, 200],
}

for (const [kind, [fault, status]] of Object.entries(ANSWERED)) {
  check(`the fault ${kind} leads to its response`, () =>
    inWorld(async ({ service, provider }) => {
      const id = service.fail('merchant', fault)
      const response = await createAuthFetch(provider())(service.merchantUrl, { redirect: 'manual' })
      const text = await response.text()
      assert.equal(response.status, status)
      assert.equal(response.headers.get('x-sandbox-fault'), id)
      if (kind === 'huge-body') assert.ok(text.length >= 100_000)
    }),
  )
}

const BROKEN: Readonly<Record<string, Fault>> = {
  reset: { kind: 'reset' },
  'truncated-body': { kind: 'truncated-body' },
  'hang at the headers': { kind: 'hang' },
  'hang at the body': { kind: 'hang', at: 'body' },
}

for (const [kind, fault] of Object.entries(BROKEN)) {
  check(`the fault ${kind} fails the call until it is cleared`, () =>
    inWorld(async ({ service, provider }) => {
      const authFetch = createAuthFetch(provider())
      await authFetch(service.merchantUrl)
      service.fail('merchant', fault, { times: Number.POSITIVE_INFINITY }) // some runtimes retry by themselves
      const read = async (): Promise<unknown> =>
        (
          await authFetch(service.merchantUrl, {
            signal: AbortSignal.timeout(kind.startsWith('hang') ? 50 : 50_000),
          })
        ).text()
      const failure = (await failureOf(read())) as Error
      assert.equal(
        failure.name === 'TimeoutError',
        kind.startsWith('hang'),
        `${failure.name}: ${failure.message}`,
      )
      service.clearFaults()
      assert.equal((await authFetch(service.merchantUrl)).status, 200)
    }),
  )
}

check('close() ends connections in use and can be called again', async () => {
  const sandbox = await startSandbox()
  sandbox.production.fail('merchant', { kind: 'hang' })
  const call = failureOf(fetch(sandbox.production.merchantUrl))
  await new Promise((resolve) => setTimeout(resolve, 20))
  await Promise.all([sandbox.close(), sandbox.close()])
  assert.ok((await call) instanceof Error)
  assert.ok((await failureOf(fetch(sandbox.production.merchantUrl))) instanceof Error)
})

check('the static provider attaches its token', async () => {
  const tokens = createStaticTokenProvider({ value: 'abc' })
  const authFetch = createAuthFetch(tokens, {
    fetch: async (_input, init) => Response.json(new Headers(init?.headers).get('authorization')),
  })
  assert.equal(await (await authFetch('http://localhost/orders')).json(), 'Bearer abc')
})
