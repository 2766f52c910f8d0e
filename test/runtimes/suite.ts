/**
 * What the package promises on every runtime, once each, as users get it: installed from its tarball. Started by run.ts
 * with each runtime. Everything else is tested on Node.js alone.
 */
import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import axios, { AxiosError } from 'axios'
import {
  type AuthEvent,
  type Clock,
  createAuthFetch,
  createTokenProvider,
  defineEnvironments,
  type TokenProvider,
  type TokenProviderOptions,
  TokenRequestError,
  TokenResponseError,
} from 'merchant-auth'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { createFileTokenStore } from 'merchant-auth/file'
import { type SandboxEnvironment, startSandbox } from 'merchant-auth/testing'

const { bun, deno, node } = process.versions
console.log(deno ? `Deno ${deno}` : bun ? `Bun ${bun}` : `Node.js ${node}`)

/** A clock that the check sets forward. */
class MovedClock implements Clock {
  aheadMs = 0
  monotonicMs = (): number => performance.now() + this.aheadMs
  epochMs = (): number => Date.now() + this.aheadMs
  sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, ms)
      signal?.addEventListener('abort', () => {
        clearTimeout(timer)
        reject(signal.reason)
      })
    })
}

interface World {
  readonly service: SandboxEnvironment
  readonly events: AuthEvent[]
  provider(options?: Partial<TokenProviderOptions>): TokenProvider
}

let failed = 0

/** Runs a check with its own sandbox. A check that fails does not stop the others. */
async function check(name: string, run: (world: World) => Promise<void>): Promise<void> {
  const sandbox = await startSandbox()
  const { environment, clientId, clientSecret } = sandbox.test
  const events: AuthEvent[] = []
  const providers: TokenProvider[] = []
  try {
    const onEvent = (event: AuthEvent): unknown => events.push(event)
    const provider: World['provider'] = (options) => {
      const made = createTokenProvider({
        environment,
        clientId,
        clientSecret,
        onEvent,
        ...options,
      } as TokenProviderOptions)
      providers.push(made)
      return made
    }
    await run({ service: sandbox.test, events, provider })
    console.log(`✓ ${name}`)
  } catch (error) {
    failed += 1
    console.log(`✗ ${name}\n${inspect(error)}`)
  } finally {
    await Promise.all(providers.map((made) => made.close()))
    await sandbox.close()
  }
}

async function failureOf(promise: Promise<unknown>): Promise<unknown> {
  return await promise.then(
    () => assert.fail('it resolved'),
    (error: unknown) => error,
  )
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5))
}

const require = createRequire(import.meta.url)
const ENTRIES = ['', '/axios', '/redis', '/file', '/undici', '/opentelemetry', '/testing']

for (const entry of ENTRIES.map((path) => `merchant-auth${path}`))
  await check(`import and require() of ${entry} provide the same objects`, async () => {
    const [imported, required] = [await import(entry), require(entry)]
    assert.ok(Object.keys(imported).length > 0)
    assert.deepEqual(Object.keys(required), Object.keys(imported))
    for (const name of Object.keys(imported)) assert.equal(required[name], imported[name], name)
  })

await check('200 calls at once make one token request with the documented fields', async (world) => {
  const tokens = world.provider()
  const all = await Promise.all(Array.from({ length: 200 }, () => tokens.getToken()))
  assert.equal(new Set(all).size, 1)
  const [request, ...more] = world.service.requests('token')
  assert.equal(more.length, 0)
  assert.equal(request?.headers['content-type'], 'application/json')
  const fields = ['audience', 'client_id', 'client_secret', 'grant_type']
  assert.deepEqual(Object.keys(request?.fields ?? {}).sort(), fields)
})

await check('a token is renewed in the background, and replaced when it has expired', async (world) => {
  world.service.configure({ lifetimeSeconds: 100 })
  const clock = new MovedClock()
  const tokens = world.provider({ clock, refreshAheadMs: 20_000 })
  const first = await tokens.getToken()
  clock.aheadMs += 90_000
  assert.equal(await tokens.getToken(), first)
  await until(() => world.events.some(({ type }) => type === 'token-renewed'))
  const second = tokens.currentToken()
  assert.notEqual(second?.value, first.value)
  clock.aheadMs += 95_000 // the margin is 5 %
  assert.equal(tokens.currentToken(), undefined)
  assert.notEqual((await tokens.getToken()).value, second?.value)
  assert.equal(world.service.counts.token, 3)
})

/** Sends a POST, and resolves with the status and the body that the API received. */
type Send = (url: string, body: string) => Promise<{ status: number; body: unknown }>

function axiosClient(adapter: 'http' | 'fetch') {
  return (tokens: TokenProvider): Send => {
    const api = axios.create({ adapter })
    attachAuth(api, tokens)
    return async (url, body) => {
      const { status, data } = await api.post(url, body)
      return { status, body: data.body }
    }
  }
}

function fetchClient(authFetch: typeof fetch): Send {
  return async (url, body) => {
    const response = await authFetch(url, { method: 'POST', body })
    return { status: response.status, body: ((await response.json()) as { body: unknown }).body }
  }
}

type Dispatch = (
  options: { readonly headers?: unknown; readonly [name: string]: unknown },
  handler: object,
) => void

/** undici, as far as it is used here. */
interface Undici {
  Agent: new () => { compose(interceptor: unknown): unknown; close(): Promise<void> }
  request(
    url: string,
    options: object,
  ): Promise<{ statusCode: number; body: { json(): Promise<{ body: unknown }> } }>
}

function undiciClient({ Agent, request }: Undici, createAuthDispatch: (tokens: TokenProvider) => unknown) {
  return (tokens: TokenProvider): Send => {
    const dispatcher = new Agent().compose(createAuthDispatch(tokens))
    return async (url, body) => {
      const response = await request(url, { method: 'POST', body, dispatcher })
      return { status: response.statusCode, body: (await response.body.json()).body }
    }
  }
}

const CLIENTS: Record<string, (tokens: TokenProvider) => Send> = {
  fetch: (tokens) => fetchClient(createAuthFetch(tokens)),
  "axios' http adapter": axiosClient('http'),
  "axios' fetch adapter": axiosClient('fetch'),
}

async function checkClient(name: string, create: (tokens: TokenProvider) => Send): Promise<void> {
  await check(`${name}: calls at once share a token, and calls with a 401 a renewal`, async (world) => {
    const { service } = world
    const send = create(world.provider())
    const all = async (): Promise<void> => {
      const bodies = Array.from({ length: 10 }, (_, n) => `${n} äpples`)
      const sent = bodies.map((body) => send(`${service.merchantUrl}/orders`, body))
      const expected = bodies.map((body) => ({ status: 200, body }))
      assert.deepEqual(await Promise.all(sent), expected)
    }
    await all()
    assert.equal(service.counts.token, 1)
    service.revoke()
    await all()
    assert.equal(service.counts.token, 2)
    assert.equal(service.counts.unauthorized, 10)
  })
}

for (const [name, create] of Object.entries(CLIENTS)) await checkClient(name, create)

await check('createAuthFetch as the global fetch renews the token', async (world) => {
  const before = globalThis.fetch
  globalThis.fetch = createAuthFetch(world.provider(), { fetch: before })
  try {
    const url = `${world.service.merchantUrl}/orders`
    assert.equal((await fetch(url)).status, 200)
    world.service.revoke()
    assert.equal((await fetch(url)).status, 200)
    assert.equal(world.service.counts.token, 2)
  } finally {
    globalThis.fetch = before
  }
})

await check('the plain interceptor attaches the token, and detach() stops attaching it', async (world) => {
  const tokens = world.provider()
  const plain = axios.create({ baseURL: world.service.merchantUrl })
  plain.interceptors.request.use(createAuthInterceptor(tokens))
  assert.equal((await plain.get('/orders')).status, 200)
  const api = axios.create({ baseURL: world.service.merchantUrl, validateStatus: () => true })
  const detach = attachAuth(api, tokens)
  assert.equal((await api.get('/orders')).status, 200)
  detach()
  assert.equal((await api.get('/orders')).status, 401)
})

await check("a signal or a timeout ends its caller's wait for a token, and no other", async (world) => {
  const { service } = world
  service.configure({ tokenLatencyMs: 1_000 })
  const tokens = world.provider()
  const url = `${service.merchantUrl}/orders`
  const caller = new AbortController()
  const { signal } = caller
  const api = axios.create()
  attachAuth(api, tokens)
  const failures = [
    failureOf(tokens.getToken({ signal })),
    failureOf(createAuthFetch(tokens)(url, { signal })),
    failureOf(api.get(url, { signal })),
    failureOf(api.get(url, { timeout: 10 })),
  ]
  const patient = tokens.getToken()
  await until(() => service.counts.token === 1)
  caller.abort(new Error('gone'))
  const [byToken, byFetch, byAxios, late] = await Promise.all(failures)
  assert.deepEqual([byToken, byFetch], [signal.reason, signal.reason])
  assert.ok(axios.isCancel(byAxios))
  assert.ok(late instanceof AxiosError && late.code === 'ECONNABORTED', inspect(late))
  assert.equal(tokens.currentToken(), undefined)
  assert.ok((await patient).value)
  assert.equal(service.counts.token, 1)
})

await check('errors of the token endpoint have their class and code, and show no secret', async (world) => {
  const { service } = world
  const fails = async (fault: Parameters<typeof service.fail>[1]): Promise<unknown> => {
    service.clearFaults()
    service.fail('token', fault, { times: Number.POSITIVE_INFINITY }) // some runtimes retry by themselves
    return await failureOf(world.provider({ retries: 0, timeoutMs: 5_000 }).getToken())
  }
  const echo = { error: 'invalid_client', error_description: `no ${service.clientSecret}` }
  const rejected = await fails({ kind: 'status', status: 401, body: echo })
  const reset = await fails({ kind: 'reset' })
  const late = await fails({ kind: 'hang' })
  const huge = await fails({ kind: 'huge-body', gzip: true })
  assert.ok(huge instanceof TokenResponseError, inspect(huge))
  const requestErrors = [rejected, reset, late] as TokenRequestError[]
  for (const error of requestErrors) assert.ok(error instanceof TokenRequestError, inspect(error))
  const codes = requestErrors.map(({ code }) => code)
  assert.deepEqual(codes, ['ERR_TOKEN_STATUS', 'ERR_TOKEN_NETWORK', 'ERR_TOKEN_TIMEOUT'])
  for (const error of [huge, ...requestErrors]) {
    const shown = inspect(error, { depth: Infinity }) + JSON.stringify(error) + error.stack
    assert.ok(!shown.includes(service.clientSecret))
  }
})

await check(
  "errors and responses of calls show no token, and are those of the caller's axios",
  async (world) => {
    const { service } = world
    const tokens = world.provider()
    const { value } = await tokens.getToken()
    for (const copy of [axios, require('axios') as typeof axios]) {
      for (const adapter of ['http', 'fetch'] as const) {
        const api = copy.create({ adapter, baseURL: service.merchantUrl })
        attachAuth(api, tokens)
        service.fail('merchant', { kind: 'status', status: 404 })
        const error = await failureOf(api.get('/orders'))
        assert.ok(error instanceof (copy as unknown as { AxiosError: typeof AxiosError }).AxiosError)
        assert.equal(error.status, 404)
        for (const shown of [tokens, error, error.toJSON(), await api.get('/orders')])
          assert.ok(!inspect(shown, { depth: Infinity }).includes(value), adapter)
      }
    }
  },
)

await check('a redirect takes neither the secret nor the token to another origin', async (world) => {
  const arrived: unknown[] = []
  const elsewhere = createServer((request, response) => {
    arrived.push(request.headers.authorization, request.headers['x-api-token'])
    response.end('{}')
  }).listen(0, '127.0.0.1')
  await once(elsewhere, 'listening')
  const location = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/`
  const { service } = world
  const tokens = world.provider()
  const redirect = (target: 'merchant' | 'token'): unknown =>
    service.fail(target, { kind: 'redirect', location })
  for (const send of Object.values(CLIENTS)) {
    redirect('merchant')
    await send(tokens)(`${service.merchantUrl}/orders`, 'x').catch(() => {}) // the other body is not that of the API
  }
  assert.deepEqual(new Set(arrived), new Set([undefined]))
  redirect('merchant')
  const authFetch = createAuthFetch(tokens, { header: 'X-Api-Token' })
  assert.equal((await authFetch(service.merchantUrl)).status, 307)
  const count = arrived.length
  redirect('token')
  assert.ok((await failureOf(world.provider().getToken())) instanceof TokenRequestError)
  assert.equal(arrived.length, count)
  elsewhere.close()
})

await check('providers share a token through a store, which gets it encrypted', async (world) => {
  const entries = new Map<string, { value: string; ttlMs: number }>()
  const store = {
    get: async (key: string) => entries.get(key),
    set: async (key: string, value: string, ttlMs: number) => void entries.set(key, { value, ttlMs }),
  }
  const values: string[] = []
  for (let nth = 0; nth < 2; nth += 1) {
    const tokens = world.provider({ store })
    values.push((await tokens.getToken()).value)
    await tokens.close()
  }
  assert.equal(values[0], values[1])
  assert.equal(world.service.counts.token, 1)
  assert.ok(entries.size > 0 && !JSON.stringify([...entries]).includes(String(values[0])))
})

await check('a token is in files, encrypted, for the next process', async (world) => {
  const folder = mkdtempSync(join(tmpdir(), 'tokens-'))
  const values: string[] = []
  for (let nth = 0; nth < 3; nth += 1) {
    const tokens = world.provider({ store: createFileTokenStore(folder) })
    values.push((await tokens.getToken()).value)
    await tokens.close()
  }
  assert.equal(new Set(values).size, 1)
  assert.equal(world.service.counts.token, 1)
  assert.deepEqual(
    world.events.filter(({ type }) => type === 'store-failed'),
    [],
  )
  const entries = readdirSync(folder).filter((name) => name.endsWith('.entry'))
  const written = entries.map((name) => readFileSync(join(folder, name), 'utf8'))
  assert.ok(written.length > 0 && !written.join().includes(String(values[0])))
  rmSync(folder, { recursive: true })
})

await check('events reach onEvent and the diagnostics channel', async (world) => {
  const published: unknown[] = []
  const listen = (message: unknown): unknown => published.push(message)
  subscribe('merchant-auth', listen)
  const tokens = world.provider()
  await createAuthFetch(tokens)(`${world.service.merchantUrl}/orders`)
  unsubscribe('merchant-auth', listen)
  assert.deepEqual(published, world.events)
  const types = world.events.map(({ type }) => type)
  assert.deepEqual(types, ['token-requested', 'token-acquired'])
})

// V8's fast calls, which take over after some thousand, once judged a letter of Latin-1 in a URL otherwise.
await check('a host with an umlaut is recognized in every call of many', async (world) => {
  const flat = (text: string): string => Buffer.from(text, 'latin1').toString('latin1')
  const host = 'https://b\u00fccher.example'
  const created = () => ({
    authUrl: flat(`${host}/auth`),
    audience: 'a',
    apiUrls: [flat(`${host}/merchant`)],
  })
  const tokens = world.provider({
    environment: created(),
    fetch: async () => Response.json({ access_token: 'x.y.z', token_type: 'Bearer', expires_in: 3_600 }),
  })
  const counts = { fetch: 0, axios: 0, undici: 0 }
  const authFetch = createAuthFetch(tokens, {
    fetch: async (input, init) => {
      if (new Request(input, init).headers.has('authorization')) counts.fetch += 1
      return new Response()
    },
  })
  const api = axios.create({
    adapter: async (config) => {
      if (config.headers.has('Authorization')) counts.axios += 1
      return { config, data: '', headers: {}, status: 200, statusText: '' }
    },
  })
  attachAuth(api, tokens)
  const { createAuthDispatch } = await import('merchant-auth/undici')
  const intercept = createAuthDispatch(tokens) as unknown as (dispatch: Dispatch) => Dispatch
  const dispatch = intercept(({ headers }) => {
    if (/authorization/i.test(JSON.stringify(headers))) counts.undici += 1
  })
  await tokens.getToken()
  const many = 10_000
  for (let nth = 0; nth < many; nth += 1) {
    defineEnvironments({ test: created() })
    await authFetch(flat(`${host}/merchant/orders/${nth}`))
    await api.get(flat(`${host}/merchant/orders/${nth}`))
    dispatch({ origin: flat(host), path: `/merchant/${nth}`, method: 'GET' }, { onRequestStart: () => {} })
    await authFetch(flat(`https://k\u00e4se.example/${nth}`))
  }
  assert.deepEqual(counts, { fetch: many, axios: many, undici: many })
  const withheld = world.events.filter(({ type }) => type === 'token-withheld')
  assert.equal(withheld.filter((event) => 'url' in event && event.url?.startsWith('https://')).length, many)
})

await check('a server with a global document is not treated as a browser', async (world) => {
  Reflect.set(globalThis, 'document', {})
  try {
    assert.ok((await world.provider().getToken()).value)
  } finally {
    Reflect.deleteProperty(globalThis, 'document')
  }
})

// Last, because undici may replace parts of the built-in fetch. Node.js before 22.19 cannot load undici 8, and Bun has a
// package of its own in its place.
const [major = 0, minor = 0] = node.split('.').map(Number)
const undici8 = bun === undefined && (major > 22 || (major === 22 && minor >= 19) || deno !== undefined)
const { createAuthDispatch } = await import('merchant-auth/undici')
for (const name of undici8 ? ['undici-7', 'undici'] : ['undici-7'])
  await checkClient(name, undiciClient((await import(name)) as Undici, createAuthDispatch as never))

// The process stays alive while a call waits for a retry, and ends while a background renewal fails.
const sandbox = await startSandbox()
const { environment, clientId, clientSecret } = sandbox.test
const options = { environment, clientId, clientSecret }
const left = createTokenProvider(options)
await left.getToken()
await sandbox.close()
await failureOf(createTokenProvider({ ...options, timeoutMs: 5_000 }).getToken())
for (const clock of [performance, Date]) {
  const now = clock.now.bind(clock)
  Object.defineProperty(clock, 'now', { value: () => now() + 58 * 60_000 })
}
assert.ok(left.currentToken(), 'a token in its last minutes')
console.log(failed === 0 ? 'done' : `${failed} failed`)
process.exitCode = failed === 0 ? 0 : 1
