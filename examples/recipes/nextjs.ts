/** The module of a Next.js application, with a global fetch that caches as that of Next.js may, and after a hot reload. */
import assert from 'node:assert/strict'
import { startSandbox } from 'merchant-auth/testing'
import { serviceEnv } from './support/service-env.ts'

await using sandbox = await startSandbox()
const { merchantUrl } = sandbox.test
Object.assign(process.env, serviceEnv(sandbox.test))

/** Caches every successful response to the same request, POST requests included, unless the call says `no-store`. */
const cache = new Map<string, Response>()
const nodeFetch = globalThis.fetch
let lastInit: RequestInit | undefined
globalThis.fetch = async (input, init) => {
  lastInit = init
  if (init?.cache === 'no-store') return await nodeFetch(input, init)
  const key = JSON.stringify([input, init?.method, [...new Headers(init?.headers)], init?.body])
  const cached = cache.get(key)
  if (cached !== undefined) return cached.clone()
  const response = await nodeFetch(input, init)
  if (response.ok) cache.set(key, response.clone())
  return response
}

// Two copies of the module share one token.
const { merchantFetch } = await import('./nextjs/merchant.ts')
const reloaded: typeof import('./nextjs/merchant.ts') = await import(`${'./nextjs/merchant.ts'}?reloaded`)
assert.notEqual(reloaded.merchantFetch, merchantFetch)
assert.equal((await merchantFetch(`${merchantUrl}/orders/1`)).status, 200)
assert.equal((await reloaded.merchantFetch(`${merchantUrl}/orders/2`)).status, 200)
assert.equal(sandbox.test.counts.token, 1)
console.log('two calls, a hot reload between them: one token request')

// Calls keep the options that are those of Next.js.
const options = { cache: 'force-cache', next: { revalidate: 60 } } as const
await merchantFetch(`${merchantUrl}/orders/1`, options)
assert.partialDeepStrictEqual(lastInit, options)

// The token request says `no-store`, so that a renewal does not get the revoked token from the cache.
sandbox.test.revoke()
assert.equal((await merchantFetch(`${merchantUrl}/orders/3`)).status, 200)
assert.equal(sandbox.test.counts.token, 2)
console.log('a revocation: the token request is sent again')
