/** What ends the wait of a caller, and of nobody else: its signal, its time-out, its cancel token. */
import assert from 'node:assert/strict'
import axios, { AxiosError, CanceledError } from 'axios'
import { createAuthFetch, type createTokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { check, group } from './harness.ts'
import { failureOf, inWorld, until, type World } from './world.ts'

group('A caller that aborts or times out while it waits')

/** Runs a check while the token endpoint hangs; then it answers, and another caller that has waited gets its token. */
async function whileWaiting(
  run: (world: World & { tokens: ReturnType<typeof createTokenProvider> }) => Promise<void>,
): Promise<void> {
  await inWorld(async (world) => {
    world.service.configure({ tokenLatencyMs: 150 })
    const tokens = world.provider()
    const other = tokens.getToken()
    await until(() => world.service.counts.token === 1)
    await run({ ...world, tokens })
    assert.equal(tokens.currentToken(), undefined, 'the wait ends before the token comes')
    assert.ok((await other).value)
    assert.equal(world.service.counts.token, 1)
    assert.equal(world.service.counts.merchant, 0)
  })
}

check("fetch: the signal's reason", () =>
  whileWaiting(async ({ service, tokens }) => {
    const call = new AbortController()
    const failure = failureOf(
      createAuthFetch(tokens)(`${service.merchantUrl}/orders`, { signal: call.signal }),
    )
    const reason = new Error('enough')
    call.abort(reason)
    assert.equal(await failure, reason)
  }),
)

check('fetch: an AbortError, and a TimeoutError', () =>
  whileWaiting(async ({ service, tokens }) => {
    const authFetch = createAuthFetch(tokens)
    const call = new AbortController()
    const aborted = failureOf(authFetch(`${service.merchantUrl}/orders`, { signal: call.signal }))
    const late = failureOf(
      authFetch(new Request(`${service.merchantUrl}/orders`, { signal: AbortSignal.timeout(5) })),
    )
    call.abort()
    for (const [failure, name] of [
      [await aborted, 'AbortError'],
      [await late, 'TimeoutError'],
    ] as const) {
      assert.ok(failure instanceof DOMException)
      assert.equal(failure.name, name)
    }
  }),
)

for (const adapter of ['http', 'fetch'] as const) {
  check(`axios' ${adapter} adapter: a CanceledError, by signal and by cancel token`, () =>
    whileWaiting(async ({ service, tokens }) => {
      const api = axios.create({ adapter, baseURL: service.merchantUrl })
      attachAuth(api, tokens)
      const call = new AbortController()
      const source = axios.CancelToken.source()
      const failures = [
        failureOf(api.get('/orders', { signal: call.signal })),
        failureOf(api.get('/orders', { cancelToken: source.token })),
      ]
      await new Promise((resolve) => setTimeout(resolve, 0)) // into the adapter
      call.abort()
      source.cancel('enough')
      for (const failure of await Promise.all(failures)) {
        assert.ok(failure instanceof CanceledError, String(failure))
        assert.ok(axios.isCancel(failure))
      }
    }),
  )

  check(`axios' ${adapter} adapter: a time-out`, () =>
    whileWaiting(async ({ service, tokens }) => {
      const api = axios.create({ adapter, baseURL: service.merchantUrl, timeout: 10 })
      attachAuth(api, tokens)
      const failure = await failureOf(api.get('/orders'))
      assert.ok(failure instanceof AxiosError && !axios.isCancel(failure), String(failure))
      assert.equal(failure.code, adapter === 'http' ? 'ECONNABORTED' : 'ETIMEDOUT')
      assert.equal(failure.message, 'timeout of 10ms exceeded')
    }),
  )
}

check('10 000 waiters on one signal: no warning, and no listener is left', () =>
  inWorld(async ({ service, provider }) => {
    service.configure({ tokenLatencyMs: 30 })
    const warnings: Error[] = []
    const onWarning = (warning: Error): unknown => warnings.push(warning)
    process.on('warning', onWarning)
    const { signal } = new AbortController()
    const left = countListeners(signal)
    try {
      const tokens = provider()
      const waits = Array.from({ length: 10_000 }, () => tokens.getToken({ signal }))
      assert.equal(new Set((await Promise.all(waits)).map(({ value }) => value)).size, 1)
      await new Promise((resolve) => setTimeout(resolve, 0)) // warnings come a moment later
      assert.deepEqual(warnings, [])
      assert.equal(left(), 0)
      assert.equal(service.counts.token, 1)
    } finally {
      process.off('warning', onWarning)
    }
  }),
)

/** How many listeners of a signal have not been taken off again. */
function countListeners(signal: AbortSignal): () => number {
  let count = 0
  const { addEventListener, removeEventListener } = signal
  signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
    count += 1
    addEventListener.apply(signal, args)
  }
  signal.removeEventListener = (...args: Parameters<typeof removeEventListener>) => {
    count -= 1
    removeEventListener.apply(signal, args)
  }
  return () => count
}
