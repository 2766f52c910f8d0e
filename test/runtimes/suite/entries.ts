/** Every entry of the package, with import and with require(). */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import axios, { type AxiosError } from 'axios'
import { attachAuth } from 'merchant-auth/axios'
import { failureOf, inWorld } from '../../clients/world.ts'
import { check, group } from './harness.ts'

const require = createRequire(import.meta.url)
const installed = new URL('../../../node_modules/merchant-auth/package.json', import.meta.url)
const { exports } = JSON.parse(readFileSync(installed, 'utf8')) as { exports: Record<string, unknown> }

/** The functions that each entry must export. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  '.': [
    'createTokenProvider',
    'createAuthFetch',
    'defineEnvironments',
    'isMerchantAuthError',
    'optionsFromEnv',
  ],
  './axios': ['attachAuth', 'createAuthInterceptor'],
  './opentelemetry': ['createTelemetry'],
  './redis': ['createRedisTokenStore'],
  './testing': ['startSandbox', 'createStaticTokenProvider'],
  './undici': ['createAuthDispatch'],
}

const entries = Object.keys(exports).filter((entry) => entry !== './package.json')
const specifier = (entry: string): string => `merchant-auth${entry.slice(1)}`

group('Every entry, by `import` and by `require()`')

check('the package has its main entries', async () => {
  for (const entry of ['.', './axios', './redis', './testing']) assert.ok(entries.includes(entry), entry)
})

for (const entry of entries) {
  check(`import ${specifier(entry)} provides its functions`, async () =>
    assertFunctions(await import(specifier(entry)), entry),
  )
  check(`require ${specifier(entry)} provides its functions`, async () =>
    assertFunctions(require(specifier(entry)), entry),
  )
}

function assertFunctions(module: Record<string, unknown>, entry: string): void {
  for (const name of NAMES[entry] ?? []) assert.equal(typeof module[name], 'function', name)
  assert.ok(Object.keys(module).length > 0)
}

for (const entry of entries) {
  check(`import and require() provide the same objects: ${specifier(entry)}`, async () => {
    const imported = await import(specifier(entry))
    const required = require(specifier(entry))
    assert.deepEqual(Object.keys(required), Object.keys(imported))
    for (const name of Object.keys(imported)) assert.equal(required[name], imported[name], name)
  })
}

check('a server with a global document is not treated as a browser', async () => {
  Reflect.set(globalThis, 'document', {})
  try {
    await inWorld(async ({ provider }) => assert.ok((await provider().getToken()).value))
  } finally {
    Reflect.deleteProperty(globalThis, 'document')
  }
})

const REQUIRED = require('axios') as typeof axios & { AxiosError: typeof AxiosError }

for (const [how, copy] of Object.entries({ imported: axios, required: REQUIRED })) {
  check(`errors are instances of the caller's own copy of axios, ${how}`, () =>
    inWorld(async ({ service, provider }) => {
      const api = copy.create({ baseURL: service.merchantUrl })
      const later = copy.create({ baseURL: service.merchantUrl, timeout: 10 })
      attachAuth(api, provider())
      attachAuth(later, provider())
      service.fail('merchant', { kind: 'status', status: 404 })
      const notFound = await failureOf(api.get('/orders'))
      service.configure({ tokenLatencyMs: 1_000 })
      const timedOut = await failureOf(later.get('/orders'))
      assert.ok(notFound instanceof copy.AxiosError && timedOut instanceof copy.AxiosError)
      assert.deepEqual([notFound.status, timedOut.code], [404, 'ECONNABORTED'])
    }),
  )
}
