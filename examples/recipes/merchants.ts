/** A platform that calls the API for many merchants: a provider and an axios instance each, and no token mixed up. */
import assert from 'node:assert/strict'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createTokenProvider } from 'merchant-auth'
import { type SandboxEnvironment, startSandbox } from 'merchant-auth/testing'
import { Merchants } from './parts/merchants.ts'

// In your service all merchants have one environment. Each environment of the sandbox knows one client, so here
// each merchant has an environment of its own.
const sandboxes = await Promise.all([startSandbox(), startSandbox()])
const services = new Map<string, SandboxEnvironment>(
  sandboxes.flatMap((sandbox, index) => [
    [`merchant-${index}a`, sandbox.test],
    [`merchant-${index}b`, sandbox.production],
  ]),
)
const secretsAsked: string[] = []
const merchants = new Merchants({
  most: 3,
  accountOf: serviceOf,
  secretOf: async (merchantId) => {
    secretsAsked.push(merchantId)
    return serviceOf(merchantId).clientSecret
  },
})

try {
  const [first = '', second = '', third = '', fourth = ''] = services.keys()
  const few = [first, second, third]

  // Parallel calls for three merchants, and in between all tokens of one of them are revoked.
  await Promise.all(few.map((merchantId) => merchants.apiOf(merchantId).get('/orders')))
  serviceOf(second).revoke()
  await Promise.all(
    Array.from({ length: 60 }, (_, index) =>
      merchants.apiOf(few[index % 3] ?? '').post('/orders', { index }),
    ),
  )
  for (const merchantId of few) {
    // The sandbox names a token only to the environment that issued it: another merchant's would have no name there.
    const seen = serviceOf(merchantId).requests('merchant')
    const accepted = seen.filter(({ status }) => status === 200)
    const names = new Set(seen.map(({ jti }) => jti))
    assert.equal(accepted.length, 21)
    assert.equal(names.has(undefined), false)
    assert.equal(names.size, merchantId === second ? 2 : 1)
    console.log(`${merchantId}: ${accepted.length} calls, ${names.size} token(s), all its own`)
  }
  assert.deepEqual(secretsAsked.toSorted(), [first, second, second, third].toSorted())

  // The fourth merchant takes the place of the one that was not called for the longest time. Its call continues.
  serviceOf(first).configure({ apiLatencyMs: 50 })
  const underWay = merchants.apiOf(first).get('/orders')
  await Promise.all([second, third, fourth].map((merchantId) => merchants.apiOf(merchantId).get('/orders')))
  assert.equal(merchants.size, 3)
  assert.equal((await underWay).status, 200)
  await merchants.apiOf(first).get('/orders')
  assert.equal(serviceOf(first).counts.token, 2, 'it was forgotten, so it needs another token')
  console.log(`A fourth merchant: ${merchants.size} are kept, and the call of the forgotten one went on`)

  // A merchant leaves while a call waits for its token: it was forgotten, too, and needs another one.
  serviceOf(second).configure({ tokenLatencyMs: 5_000 })
  const waiting = assert.rejects(Promise.resolve(merchants.apiOf(second).get('/orders')), {
    code: 'ERR_PROVIDER_CLOSED',
  })
  await merchants.leave(second)
  await waiting
  console.log(`${second} left: the call that waited for its token was rejected`)
} finally {
  await merchants.close()
  await Promise.all(sandboxes.map((sandbox) => sandbox.close()))
}

// A thousand merchants with a token each, none of them closed: they hold no timer, and the process ends by itself.
const before = usedHeap()
const idle = Array.from({ length: 1_000 }, (_, index) =>
  createTokenProvider({
    environment: serviceOf('merchant-0a').environment,
    clientId: `client-${index}`,
    clientSecret: `made-up-${index}`,
    fetch: async () =>
      Response.json({
        access_token: `a.b.${index}`,
        expires_in: 3_600,
        token_type: 'Bearer',
        scope: 'merchant',
      }),
  }),
)
await Promise.all(idle.map((tokens) => tokens.getToken()))
assert.equal(process.getActiveResourcesInfo().includes('Timeout'), false)
const kib = (usedHeap() - before) / 1024 / idle.length
assert.equal(idle.filter((tokens) => tokens.currentToken() !== undefined).length, 1_000)
console.log(`1000 idle providers with a token each: no timer, and ${kib.toFixed(1)} KiB of memory each`)

function usedHeap(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  return process.memoryUsage().heapUsed
}

function serviceOf(merchantId: string): SandboxEnvironment {
  const service = services.get(merchantId)
  assert(service !== undefined, `${merchantId} is no merchant of this platform`)
  return service
}
