/**
 * A process that calls the API for many stores, a provider and an axios instance each: no token is mixed up, and 300 of them,
 * or as many as the first argument says, cost little.
 */
import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { AuthEvent } from 'merchant-auth'
import { type SandboxEnvironment, startSandbox } from 'merchant-auth/testing'
import { Shops } from './parts/shops.ts'

const CHAIN = Number(process.argv[2] ?? 300)

// In your service all stores have one environment. Each environment of the sandbox knows one client, so here each store
// has an environment of its own.
const sandboxes = await Promise.all([startSandbox(), startSandbox()])
const services = new Map<string, SandboxEnvironment>(
  sandboxes.flatMap((sandbox, index) => [
    [`store-${index}a`, sandbox.test],
    [`store-${index}b`, sandbox.production],
  ]),
)
const secretsAsked: string[] = []
const shopsWithEvents = new Set<string | undefined>()
const noteShop = (event: unknown): unknown => shopsWithEvents.add((event as AuthEvent).environment)
subscribe('merchant-auth', noteShop)
const shops = new Shops({
  most: 3,
  accountOf: (shopId) => {
    const { environment, clientId, clientSecret } = serviceOf(shopId)
    return {
      environment,
      clientId,
      clientSecret: async () => {
        secretsAsked.push(shopId)
        return clientSecret
      },
    }
  },
})

try {
  const [first = '', second = '', third = '', fourth = ''] = services.keys()
  const few = [first, second, third]

  // Parallel calls for three stores, and in between all tokens of one of them are revoked.
  await Promise.all(few.map((shopId) => shops.apiOf(shopId).get('/orders')))
  serviceOf(second).revoke()
  await Promise.all(
    Array.from({ length: 60 }, (_, index) => shops.apiOf(few[index % 3] ?? '').post('/orders', { index })),
  )
  for (const shopId of few) {
    // The sandbox names a token only to the environment that issued it: another store's would have no name there.
    const seen = serviceOf(shopId).requests('merchant')
    const accepted = seen.filter(({ status }) => status === 200)
    const names = new Set(seen.map(({ jti }) => jti))
    assert.equal(accepted.length, 21)
    assert.equal(names.has(undefined), false)
    assert.equal(names.size, shopId === second ? 2 : 1)
    console.log(`${shopId}: ${accepted.length} calls, ${names.size} token(s), all its own`)
  }
  assert.deepEqual(secretsAsked.toSorted(), [first, second, second, third].toSorted())

  // The fourth store takes the place of the one that was not called for the longest time. Its call continues.
  serviceOf(first).configure({ apiLatencyMs: 50 })
  const underWay = shops.apiOf(first).get('/orders')
  await Promise.all([second, third, fourth].map((shopId) => shops.apiOf(shopId).get('/orders')))
  assert.equal(shops.size, 3)
  assert.equal((await underWay).status, 200)
  await shops.apiOf(first).get('/orders')
  assert.equal(serviceOf(first).counts.token, 2, 'it was forgotten, so it needs another token')
  console.log(`A fourth store: ${shops.size} are kept, and the call of the forgotten one went on`)

  // A store leaves while a call waits for its token: it was forgotten, too, and needs another one.
  serviceOf(second).configure({ tokenLatencyMs: 5_000 })
  const waiting = assert.rejects(Promise.resolve(shops.apiOf(second).get('/orders')), {
    code: 'ERR_PROVIDER_CLOSED',
  })
  await shops.leave(second)
  await waiting
  console.log(`${second} left: the call that waited for its token was rejected`)

  unsubscribe('merchant-auth', noteShop)
  assert.deepEqual([...shopsWithEvents].toSorted(), [first, second, third, fourth])
} finally {
  await shops.close()
  assert.throws(() => shops.apiOf('store-0a'), { message: 'The shops are closed' })
  await Promise.all(sandboxes.map((sandbox) => sandbox.close()))
}

// A chain with a client for each of many stores, all in one process. Its service issues a token to any client.
const warnings: Error[] = []
process.on('warning', (warning) => warnings.push(warning))
let issued = 0
const service = createServer((request, response) => {
  response.setHeader('content-type', 'application/json')
  if (request.url !== '/oauth/token') return void response.end('{}')
  issued += 1
  const access_token = `a.b.${String(issued).padStart(800, '0')}` // as long as usual
  response.end(JSON.stringify({ access_token, expires_in: 86_400, token_type: 'Bearer', scope: 'merchant' }))
})
service.listen(0, '127.0.0.1')
await once(service, 'listening')
const url = `http://127.0.0.1:${(service.address() as AddressInfo).port}`
const environment = { authUrl: url, audience: url, apiUrls: { merchant: url } }
const chain = new Shops({
  most: CHAIN + 1,
  accountOf: (shopId) => ({
    environment,
    clientId: `client-of-${shopId}`,
    clientSecret: async () => `secret-of-${shopId}`,
  }),
})
const stores = Array.from({ length: CHAIN }, (_, index) => `store-${index + 1}`)
const call = (shopId: string): Promise<unknown> => chain.apiOf(shopId).get('/orders')

try {
  await call('store-0') // what the first call of a process loads
  const heapBefore = usedHeap()
  const createdMs = await timeOf(async () => void stores.forEach((shopId) => void chain.apiOf(shopId)))
  const firstMs = await timeOf(() => forEach(stores, call))
  const usedMb = (usedHeap() - heapBefore) / 1_000_000
  const laterMs = await timeOf(() => forEach(stores, call))
  assert.equal(issued, CHAIN + 1)
  assert.equal(process.getActiveResourcesInfo().includes('Timeout'), false)
  assert.deepEqual(warnings, [])
  console.log(
    `${CHAIN} stores: created in ${createdMs} ms, first calls ${firstMs} ms, later calls ${laterMs} ms, ` +
      `${usedMb.toFixed(1)} MB of memory, no warning`,
  )
} finally {
  service.close()
  service.closeAllConnections()
}
// None of them was closed: they hold no timer, and the process ends by itself.

/** Runs it for each, fifty at the same time. */
async function forEach<T>(items: readonly T[], run: (item: T) => Promise<unknown>): Promise<void> {
  const rest = items.values()
  const lanes = Array.from({ length: 50 }, async () => {
    for (const item of rest) await run(item)
  })
  await Promise.all(lanes)
}

async function timeOf(run: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await run()
  return Math.round(performance.now() - startedAt)
}

function usedHeap(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  return process.memoryUsage().heapUsed
}

function serviceOf(shopId: string): SandboxEnvironment {
  const sandbox = services.get(shopId)
  assert(sandbox !== undefined, `${shopId} is not a store of this chain`)
  return sandbox
}
