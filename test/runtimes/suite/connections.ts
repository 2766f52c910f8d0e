/** How often a call is sent if its connection is reset. This depends on the runtime, and users need to know it. */
import assert from 'node:assert/strict'
import { AXIOS_FETCH, AXIOS_HTTP, type Driver, FETCH } from '../../clients/drivers.ts'
import { inWorld, until } from '../../clients/world.ts'
import { check, differs, group, isBun, isDeno } from './harness.ts'

group('A call whose kept connection is reset is sent once')

for (const driver of [FETCH, AXIOS_HTTP, AXIOS_FETCH]) {
  for (const method of ['GET', 'POST'] as const) {
    check(`${driver.name}, ${method}`, () =>
      inWorld(async ({ service, provider }) => {
        const client = driver.create(provider())
        const send = (by: string) =>
          client({ url: service.merchantUrl, method: by, ...(by === 'POST' ? { body: 'two apples' } : {}) })
        await send('POST')
        const before = service.counts.merchant
        service.fail('merchant', { kind: 'reset' }, { times: Number.POSITIVE_INFINITY })
        await send(method).catch(() => {})
        const times = timesSent(driver, method)
        await until(() => service.counts.merchant - before >= times)
        assert.equal(service.counts.merchant - before, times)
      }),
    )
  }
}

/** How often this runtime sends such a call. */
function timesSent(client: Driver, method: 'GET' | 'POST'): number {
  const again =
    differs(
      isDeno,
      'Deno itself sends a call again, a POST too, when a connection that was kept from an earlier call breaks ([deno#36786](https://github.com/denoland/deno/issues/36786)). Give calls that must not be made twice an idempotency key.',
    ) ||
    differs(
      isBun && method === 'GET' && client !== AXIOS_HTTP,
      "Bun's `fetch` itself sends a GET again, but no POST, when a connection that was kept from an earlier call breaks.",
    )
  return again ? 2 : 1
}
