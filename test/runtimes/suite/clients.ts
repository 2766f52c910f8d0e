/** The scenarios of all clients in this runtime, and the behavior of single clients. */
import assert from 'node:assert/strict'
import axios, { AxiosError } from 'axios'
import { createAuthFetch } from 'merchant-auth'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { AXIOS_FETCH, AXIOS_HTTP, type Driver, FETCH } from '../../clients/drivers.ts'
import { BODIES } from '../../clients/scenarios/bodies.ts'
import { RENEWAL, withRevokedToken } from '../../clients/scenarios/renewal.ts'
import { concerns, type Scenario } from '../../clients/scenarios/scenario.ts'
import { blockedIn, SIGNALS } from '../../clients/scenarios/signals.ts'
import { failureOf, inWorld } from '../../clients/world.ts'
import { check, group } from './harness.ts'

const CLIENTS: readonly [client: string, driver: Driver][] = [
  ['fetch', FETCH],
  ["axios' http adapter", AXIOS_HTTP],
  ["axios' fetch adapter", AXIOS_FETCH],
]

/** Adds these scenarios with each of the clients to the current group. */
export function checkScenarios(scenarios: readonly Scenario[], clients = CLIENTS): void {
  for (const [client, driver] of clients) {
    for (const scenario of scenarios) {
      if (scenario.nodeOnly || !concerns(scenario, driver)) continue
      check(`${client}: ${scenario.group}: ${scenario.name}`, async () => {
        await inWorld((world) => scenario.run(world, driver))
      })
    }
  }
}

for (const client of CLIENTS) {
  group(`401: one renewal, and the call once more: ${client[0]}`)
  checkScenarios([...RENEWAL, ...BODIES], [client])
}

group('401: one renewal, and the call once more: fetch')

for (const [how, wrap] of [
  ['directly', (authFetch: typeof fetch) => authFetch],
  [
    'called asynchronously by a wrapper',
    (authFetch: typeof fetch): typeof fetch =>
      async (input, init) => {
        await new Promise((resolve) => setTimeout(resolve, 0))
        return await authFetch(input, init)
      },
  ],
] as const) {
  check(`createAuthFetch as the global fetch, ${how}, renews the token`, () =>
    inWorld(async ({ service, provider }) => {
      const before = globalThis.fetch
      const tokens = provider() // its token requests use the global fetch too
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

for (const [client, driver] of CLIENTS) {
  check(`${client}: a streamed response after a 401 is complete`, () =>
    inWorld(async (world) => {
      const { tokens, url } = await withRevokedToken(world, driver)
      const adapter = client.includes('http') ? 'http' : 'fetch'
      const api = axios.create({ adapter, responseType: 'stream' })
      attachAuth(api, tokens)
      const stream =
        client === 'fetch'
          ? (await createAuthFetch(tokens)(url, { method: 'POST', body: 'two äpples' })).body
          : (await api.post(url, 'two äpples')).data
      const parts: Uint8Array[] = []
      for await (const part of stream as AsyncIterable<Uint8Array>) parts.push(part)
      assert.equal(JSON.parse(Buffer.concat(parts).toString()).body, 'two äpples')
      assert.equal(world.service.counts.merchant, 2)
    }),
  )
}

check('axios: the plain interceptor attaches the token, and detach() stops attaching it', () =>
  inWorld(async ({ service, provider }) => {
    const tokens = provider()
    const plain = axios.create({ baseURL: service.merchantUrl })
    plain.interceptors.request.use(createAuthInterceptor(tokens))
    assert.equal((await plain.get('/orders')).status, 200)
    const api = axios.create({ baseURL: service.merchantUrl, validateStatus: () => true })
    const detach = attachAuth(api, tokens)
    assert.equal((await api.get('/orders')).status, 200)
    detach()
    assert.equal((await api.get('/orders')).status, 401)
    assert.equal(service.counts.token, 1)
  }),
)

group('A caller that aborts or times out while it waits')
checkScenarios(SIGNALS)

for (const adapter of ['http', 'fetch'] as const) {
  check(`axios' ${adapter} adapter: a timeout ends the wait for a token`, () =>
    inWorld(async (world) => {
      const blocked = await blockedIn(world, 'the first token')
      const api = axios.create({ adapter })
      attachAuth(api, blocked.tokens)
      const late = await failureOf(api.get(blocked.url, { timeout: 10 }))
      assert.ok(late instanceof AxiosError && !axios.isCancel(late), String(late))
      assert.equal(late.code, adapter === 'http' ? 'ECONNABORTED' : 'ETIMEDOUT')
      assert.equal(late.message, 'timeout of 10ms exceeded')
      blocked.release()
    }),
  )
}

check('10 000 waits with one signal cause no warning and leave no listener', () =>
  inWorld(async ({ service, provider }) => {
    service.configure({ tokenLatencyMs: 30 })
    const warnings: Error[] = []
    const onWarning = (warning: Error): unknown => warnings.push(warning)
    process.on('warning', onWarning)
    const { signal } = new AbortController()
    const listenerCount = countListeners(signal)
    try {
      const tokens = provider()
      const waits = Array.from({ length: 10_000 }, () => tokens.getToken({ signal }))
      assert.equal(new Set((await Promise.all(waits)).map(({ value }) => value)).size, 1)
      await new Promise((resolve) => setTimeout(resolve, 0)) // warnings are emitted asynchronously
      assert.deepEqual(warnings, [])
      assert.equal(listenerCount(), 0)
      assert.equal(service.counts.token, 1)
    } finally {
      process.off('warning', onWarning)
    }
  }),
)

/** Counts the listeners of a signal that have not been removed. */
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
