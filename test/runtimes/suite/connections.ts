/** How often a call is sent whose connection breaks: that is up to the runtime, and has to be known. */
import assert from 'node:assert/strict'
import axios from 'axios'
import { createAuthFetch, type TokenProvider } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { check, differs, group, isBun, isDeno } from './harness.ts'
import { inWorld, until } from './world.ts'

group('A call whose kept connection is reset is sent once')

const HTTP_ADAPTER = "axios' http adapter"

type Send = (method: 'GET' | 'POST', url: string) => Promise<unknown>

const axiosWith =
  (adapter: 'http' | 'fetch') =>
  (tokens: TokenProvider): Send => {
    const api = axios.create({ adapter, validateStatus: () => true })
    attachAuth(api, tokens)
    return (method, url) => api.request({ method, url, data: method === 'POST' ? 'two apples' : undefined })
  }

const CLIENTS: Readonly<Record<string, (tokens: TokenProvider) => Send>> = {
  fetch: (tokens) => {
    const authFetch = createAuthFetch(tokens)
    return async (method, url) =>
      (await authFetch(url, method === 'POST' ? { method, body: 'two apples' } : {})).text()
  },
  [HTTP_ADAPTER]: axiosWith('http'),
  "axios' fetch adapter": axiosWith('fetch'),
}

for (const [name, client] of Object.entries(CLIENTS)) {
  for (const method of ['GET', 'POST'] as const) {
    check(`${name}, ${method}`, () =>
      inWorld(async ({ service, provider }) => {
        const send = client(provider())
        await send('POST', service.merchantUrl)
        const before = service.counts.merchant
        service.fail('merchant', { kind: 'reset' }, { times: Number.POSITIVE_INFINITY })
        await send(method, service.merchantUrl).catch(() => {})
        const times = timesSent(name, method)
        await until(() => service.counts.merchant - before >= times)
        assert.equal(service.counts.merchant - before, times)
      }),
    )
  }
}

/** How often a runtime sends such a call. */
function timesSent(client: string, method: 'GET' | 'POST'): number {
  const again =
    differs(
      isDeno,
      'Deno itself sends a call again, a POST too, when a connection that was kept from an earlier call breaks ([deno#36786](https://github.com/denoland/deno/issues/36786)). Give calls that must not be made twice an idempotency key.',
    ) ||
    differs(
      isBun && method === 'GET' && client !== HTTP_ADAPTER,
      "Bun's `fetch` itself sends a GET again, but no POST, when a connection that was kept from an earlier call breaks.",
    )
  return again ? 2 : 1
}
