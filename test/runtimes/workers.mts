/**
 * What the package promises on Cloudflare Workers, once each: the packed package in a bundle, in workerd. The token endpoint and
 * the APIs are in this process. A task belongs to the request that started it there, and ends with it. Started by run.ts with
 * the path of workerd.
 */
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { type SandboxEnvironment, startSandbox } from 'merchant-auth/testing'

const NEWEST = 'compatibilityDate = "2026-08-05"'
/** The oldest that the manual promises: the first one with `node:fs`. */
const OLDEST = 'compatibilityDate = "2025-09-15", compatibilityFlags = ["nodejs_compat"]'
/** workerd says so once, when a token arrives for a request that was cancelled while it waited. */
const WAITER_LEFT = 'A promise was resolved or rejected from a different request context'
const [workerd = ''] = process.argv.slice(2)
const here = fileURLToPath(new URL('.', import.meta.url))
console.log(execFileSync(workerd, ['--version'], { encoding: 'utf8' }).trim())

for (const [entry, name] of [
  [join(here, 'worker.ts'), 'worker.mjs'],
  [join(here, '../../examples/recipes/cloudflare/worker.ts'), 'recipe.mjs'],
] as const)
  execFileSync(join(here, '../../node_modules/.bin/esbuild'), [
    ...[entry, `--outfile=${join(here, name)}`, '--bundle', '--format=esm', '--log-level=error'],
    ...['--conditions=workerd,worker,browser', '--external:node:*', '--external:cloudflare:*'], // as Wrangler does
  ])

interface World {
  readonly service: SandboxEnvironment
  /** The addresses of the isolates. */
  readonly isolates: readonly string[]
}

interface Setup {
  readonly isolates?: number
  readonly script?: string
  readonly variables?: Readonly<Record<string, string>>
  readonly compatibility?: string
}

/** How long (ms) a check may take: most take a second. */
const CHECK_MS = 60_000

let failed = 0

/** Runs a check with its own sandbox and its own workerd. A check that fails does not stop the others. */
async function check(name: string, setup: Setup, run: (world: World) => Promise<void>): Promise<void> {
  const sandbox = await startSandbox()
  const { environment, clientId, clientSecret } = sandbox.test
  const variables = {
    MERCHANT_AUTH_URL: environment.authUrl,
    MERCHANT_AUTH_AUDIENCE: String(environment.audience),
    MERCHANT_AUTH_API_URLS: `merchant=${sandbox.test.merchantUrl}`,
    MERCHANT_AUTH_CLIENT_ID: clientId,
    MERCHANT_AUTH_CLIENT_SECRET: clientSecret,
    ...setup.variables,
  }
  const ending = new AbortController()
  try {
    const started = startIsolates(
      { isolates: 1, script: 'worker.mjs', compatibility: NEWEST, ...setup, variables },
      ending.signal,
    )
    const tooLong = sleep(CHECK_MS, undefined, { signal: ending.signal }).then(() => {
      throw new Error(`not done after ${CHECK_MS} ms`)
    })
    await Promise.race([started.then((isolates) => run({ service: sandbox.test, isolates })), tooLong])
    console.log(`✓ ${name}`)
  } catch (error) {
    failed += 1
    console.log(`✗ ${name}\n${inspect(error)}`)
  } finally {
    ending.abort()
    await sandbox.close()
  }
}

/** Starts a workerd with as many services of one Worker, and resolves with their addresses when they listen. */
async function startIsolates(
  { isolates, script, variables, compatibility }: Required<Setup>,
  signal: AbortSignal,
): Promise<string[]> {
  const names = Array.from({ length: isolates }, (_, nth) => `isolate-${nth}`)
  const bindings = Object.entries(variables).map(([key, value]) => `(name = "${key}", text = "${value}")`)
  const store = `(name = "TOKENS", durableObjectNamespace = (className = "TokenEntries", serviceName = "isolate-0"))`
  const hasStore = script === 'worker.mjs'
  const config = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    ${names.map((name) => `(name = "${name}", worker = .worker),`).join('\n    ')}
    (name = "loopback", network = (allow = ["local"])),
  ],
  sockets = [${names.map((name) => `(name = "${name}", address = "127.0.0.1:0", http = (), service = "${name}")`)}],
);
const worker :Workerd.Worker = (
  modules = [(name = "worker.mjs", esModule = embed "${script}")],
  ${compatibility},
  globalOutbound = "loopback",
  bindings = [${[...bindings, ...(hasStore ? [store] : [])]}],
  ${hasStore ? 'durableObjectNamespaces = [(className = "TokenEntries", uniqueKey = "tokens")],' : ''}
  durableObjectStorage = (inMemory = void),
);`
  writeFileSync(join(here, 'config.capnp'), config)
  const child = spawn(workerd, ['serve', '--control-fd=3', join(here, 'config.capnp')], {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'], // inherited, it would keep the output of this process open
    signal,
    killSignal: 'SIGKILL',
  })
  child.on('error', () => {}) // the signal
  child.stdout?.pipe(process.stdout)
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    if (!text.includes(WAITER_LEFT)) process.stderr.write(text)
  })
  const ports: string[] = []
  for await (const line of createInterface({ input: child.stdio[3] as Readable })) {
    const { event, port } = JSON.parse(line) as { event: string; port: number }
    if (event.startsWith('listen')) ports.push(`http://127.0.0.1:${port}`)
    if (ports.length === isolates) return ports
  }
  throw new Error('workerd ended before it listened')
}

async function call(isolate = '', query = ''): Promise<number> {
  const response = await fetch(`${isolate}/call?${query}`)
  if (response.status === 500) console.log(await response.text())
  return response.status
}

async function current(isolate = '', query = ''): Promise<string> {
  return await (await fetch(`${isolate}/current?${query}`)).text()
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  // The wait of a check that failed does not keep this process alive.
  while (!(await condition())) await sleep(5, undefined, { ref: false })
}

/** How long (ms) a call takes that ends before its token arrives; a busy machine must have sent the token request by then. */
const TIMEOUT_MS = 1_000
const TOKEN_MS = 1_500

/** Makes a call whose request ends before its token arrives. */
async function leave(
  isolate = '',
  service: SandboxEnvironment,
  how: 'cancelled' | 'timed-out',
): Promise<void> {
  if (how === 'timed-out') {
    const response = await fetch(`${isolate}/call?timeout=${TIMEOUT_MS}`)
    assert.match(await response.text(), /TimeoutError/)
  } else await cancel(isolate, () => service.counts.token === 1)
}

/** Makes a call whose request is cancelled at a moment. */
async function cancel(isolate = '', isTime: () => boolean | Promise<boolean>): Promise<void> {
  const left = request(`${isolate}/call`).on('error', () => {})
  left.end()
  const [socket] = await once(left, 'socket')
  await until(isTime)
  socket.resetAndDestroy()
}

for (const client of ['fetch', 'axios'])
  await check(
    `${client}: 24 requests share a token, and their calls with a 401 a renewal`,
    {},
    async (world) => {
      const { service, isolates } = world
      const all = (): Promise<number[]> =>
        Promise.all(Array.from({ length: 24 }, () => call(isolates[0], `client=${client}`)))
      assert.deepEqual(new Set(await all()), new Set([200]))
      assert.equal(service.counts.token, 1)
      service.revoke()
      assert.deepEqual(new Set(await all()), new Set([200]))
      assert.equal(service.counts.token, 2)
    },
  )

await check('the static provider sends its token', {}, async ({ service, isolates }) => {
  assert.equal(await call(isolates[0], 'client=static'), 401) // the sandbox did not issue it
  assert.equal(service.counts.token, 0)
})

for (const how of ['cancelled', 'timed-out'] as const) {
  await check(`a token request that is lost with a ${how} request is sent again`, {}, async (world) => {
    const { service, isolates } = world
    service.configure({ tokenLatencyMs: TOKEN_MS })
    const first = leave(isolates[0], service, how)
    await until(() => service.counts.token === 1)
    const waiting = Array.from({ length: 3 }, () => call(isolates[0]))
    await first
    assert.deepEqual(await Promise.all([...waiting, call(isolates[0])]), [200, 200, 200, 200])
    assert.equal(await call(isolates[0]), 200)
    assert.equal(service.counts.token, 2)
  })

  const variables = { WAIT_UNTIL: 'yes' }
  await check(`with waitUntil a ${how} request loses none`, { variables }, async ({ service, isolates }) => {
    service.configure({ tokenLatencyMs: TOKEN_MS })
    const first = leave(isolates[0], service, how)
    await until(() => service.counts.token === 1)
    const waiting = call(isolates[0])
    await first
    assert.deepEqual(await Promise.all([waiting, call(isolates[0])]), [200, 200])
    assert.equal(service.counts.token, 1)
  })
}

for (const compatibility of [NEWEST, OLDEST])
  await check(
    `the calls whose token request is lost twice end, and the next one has a token, with ${compatibility}`,
    { compatibility },
    async ({ service, isolates }) => {
      service.configure({ tokenLatencyMs: TOKEN_MS })
      await cancel(isolates[0], () => service.counts.token === 1)
      const again = cancel(isolates[0], () => service.counts.token === 2) // it waits first, so it sends the next one
      const waiting = Array.from({ length: 3 }, () => call(isolates[0]))
      await again
      for (const status of await Promise.all(waiting)) assert.ok([200, 500].includes(status), `${status}`)
      assert.equal(await call(isolates[0]), 200)
    },
  )

await check(
  'a request that is cancelled while it waits stops no other',
  {},
  async ({ service, isolates }) => {
    service.configure({ tokenLatencyMs: 500 })
    const first = call(isolates[0])
    await until(() => service.counts.token === 1)
    await leave(isolates[0], service, 'cancelled')
    assert.deepEqual(await Promise.all([first, call(isolates[0])]), [200, 200])
    assert.equal(service.counts.token, 1)
  },
)

const LIFETIME_SECONDS = 1_000
await check(
  'a background renewal that is lost with its request stops no other, and fails no call',
  {},
  async ({ service, isolates }) => {
    service.configure({ lifetimeSeconds: LIFETIME_SECONDS, tokenLatencyMs: 100 })
    assert.equal(await call(isolates[0]), 200)
    const token = await current(isolates[0])
    assert.equal(await current(isolates[0], 'ahead=900000'), token) // begins a renewal, and ends
    assert.equal(await current(isolates[0]), token)
    await call(isolates[0], 'ahead=60000') // its call takes less time than the renewal that it begins
    assert.equal(await call(isolates[0], 'ahead=40000'), 200)
    assert.notEqual(await current(isolates[0]), token)
  },
)

await check(
  'with waitUntil a background renewal continues after the response',
  { variables: { WAIT_UNTIL: 'yes' } },
  async ({ service, isolates }) => {
    service.configure({ lifetimeSeconds: LIFETIME_SECONDS, tokenLatencyMs: 100 })
    assert.equal(await call(isolates[0]), 200)
    const token = await current(isolates[0])
    assert.equal(await current(isolates[0], 'ahead=900000'), token)
    await until(async () => (await current(isolates[0])) !== token)
    assert.equal(service.counts.token, 2)
  },
)

const ISOLATES = 10
for (const [variables, requests, compatibility] of [
  [{}, ISOLATES, NEWEST],
  [{ STORE: 'fast' }, 1, NEWEST],
  [{ STORE: 'fast' }, 1, OLDEST],
] as const)
  await check(
    `${ISOLATES} isolates that start at once make ${requests} ${requests === 1 ? 'token request with' : 'token requests without'} a Durable Object, with ${compatibility}`,
    { isolates: ISOLATES, variables, compatibility },
    async ({ service, isolates }) => {
      const statuses = await Promise.all(isolates.flatMap((isolate) => [call(isolate), call(isolate)]))
      assert.deepEqual(new Set(statuses), new Set([200]))
      assert.equal(service.counts.token, requests)
    },
  )

const impatient = { STORE: 'slow', MERCHANT_AUTH_TIMEOUT_MS: '1000' } // the time of a lease, too
await check(
  'a write and a lease that are lost with their request stop no other',
  { variables: impatient },
  async ({ service, isolates }) => {
    service.configure({ lifetimeSeconds: LIFETIME_SECONDS })
    await cancel(isolates[0], async () => (await current(isolates[0])) !== '') // its write has begun
    assert.equal(await call(isolates[0]), 200)
    assert.equal(service.counts.token, 1)
    assert.equal(await call(isolates[0], `ahead=${LIFETIME_SECONDS * 1_000}`), 200)
    assert.equal(service.counts.token, 2)
  },
)

for (const compatibility of [NEWEST, OLDEST])
  await check(
    `the Worker of the manual calls the API, with ${compatibility}`,
    { script: 'recipe.mjs', compatibility },
    async ({ service, isolates }) => {
      assert.equal((await fetch(`${isolates[0]}/orders?state=open`)).status, 200)
      assert.equal((await fetch(`${isolates[0]}/orders`, { method: 'POST' })).status, 405)
      const paths = service.requests('merchant').map(({ path }) => path)
      assert.deepEqual(paths, ['/merchant/orders?state=open'])
    },
  )

console.log(failed === 0 ? 'done' : `${failed} failed`)
process.exitCode = failed === 0 ? 0 : 1
