/** The token on undici's dispatchers, of two major versions. */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { hasEntry } from './entries.ts'
import { check, group, isBun, lacks } from './harness.ts'
import { failureOf, inWorld, type World } from './world.ts'

/** undici as far as it is used here. */
interface Undici {
  readonly Agent: new () => Agent
  request(url: string, options: object): Promise<{ statusCode: number; body: { text(): Promise<string> } }>
}

interface Agent {
  compose(interceptor: unknown): object
  close(): Promise<void>
}

type CreateAuthDispatch = (tokens: unknown, attach?: object) => unknown

/** Sends a request; its status. */
type Send = (url: string, options?: object) => Promise<number>

// Names that the compiler does not look up: undici is not loaded before the checks of fetch are over.
const ENTRY: string = 'merchant-auth/undici'

for (const name of hasEntry('./undici') ? ['undici-7', 'undici'] : []) {
  const version = name === 'undici' ? 8 : 7
  group(`401: one renewal, and the call once more: undici ${version}`)

  /** Runs a check with a client; where this undici does not run, asserts that. */
  const withClient = (attach: object, run: (world: World, send: Send) => Promise<void>): Promise<void> =>
    inWorld(async (world) => {
      if (await isMissing(name)) return
      const { createAuthDispatch } = (await import(ENTRY)) as { createAuthDispatch: CreateAuthDispatch }
      const undici = (await import(name)) as Undici
      const agent = new undici.Agent()
      const dispatcher = agent.compose(createAuthDispatch(world.provider(), attach))
      try {
        await run(world, async (url, options) => {
          const { statusCode, body } = await undici.request(url, { dispatcher, ...options })
          await body.text()
          return statusCode
        })
      } finally {
        await agent.close()
      }
    })

  check('a body is sent again, byte for byte', () =>
    withClient({}, async ({ service }, send) => {
      assert.equal(await send(`${service.merchantUrl}/orders`), 200)
      service.revoke()
      const options = {
        method: 'POST',
        body: Buffer.from('two äpples'),
        headers: { 'idempotency-key': 'one' },
      }
      assert.equal(await send(`${service.merchantUrl}/orders`, options), 200)
      const [, first, second] = service.requests('merchant')
      assert.deepEqual([first?.status, second?.status], [401, 200])
      assert.equal(second?.body?.toString(), 'two äpples')
      assert.deepEqual(second?.body, first?.body)
      assert.equal(second?.headers['idempotency-key'], 'one')
      assert.equal(service.counts.token, 2)
    }),
  )

  check('a stream is sent once', () =>
    withClient({}, async ({ service }, send) => {
      assert.equal(await send(`${service.merchantUrl}/orders`), 200)
      service.revoke()
      const options = { method: 'POST', body: Readable.from([Buffer.from('two '), Buffer.from('apples')]) }
      assert.equal(await send(`${service.merchantUrl}/orders`, options), 401)
      const bodies = service.requests('merchant').map(({ body }) => body?.toString())
      assert.deepEqual(bodies, ['', 'two apples'])
    }),
  )

  check('50 calls at once ask for one token, and share one renewal', () =>
    withClient({}, async ({ service }, send) => {
      const calls = (): Promise<number[]> =>
        Promise.all(Array.from({ length: 50 }, () => send(`${service.inStoreUrl}/sales`)))
      assert.deepEqual(new Set(await calls()), new Set([200]))
      assert.equal(service.counts.token, 1)
      service.revoke()
      assert.deepEqual(new Set(await calls()), new Set([200]))
      assert.equal(service.counts.token, 2)
    }),
  )

  check('a header of another name, and a call to elsewhere', () =>
    withClient({ header: 'X-Access-Token', scheme: '' }, async ({ service, host }, send) => {
      service.configure({ header: 'X-Access-Token', scheme: '' })
      const other = await host((_, response) => response.end('there'))
      assert.equal(await send(`${service.merchantUrl}/orders`), 200)
      assert.equal(await send(`${other.url}/merchant`), 200)
      assert.equal(other.received[0]?.headers['x-access-token'], undefined)
    }),
  )

  check('a caller that aborts while it waits', () =>
    withClient({}, async ({ service }, send) => {
      service.configure({ tokenLatencyMs: 100 })
      const call = new AbortController()
      const failure = failureOf(send(`${service.merchantUrl}/orders`, { signal: call.signal }))
      call.abort()
      assert.equal(((await failure) as Error).name, 'AbortError')
      assert.equal(service.counts.merchant, 0)
    }),
  )
}

async function isMissing(name: string): Promise<boolean> {
  if (name !== 'undici') return false
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (
    lacks(!isBun && major === 22 && minor < 19, 'undici 8 needs Node.js 22.19 or newer; undici 7 does not.')
  ) {
    await assert.rejects(import(name))
    return true
  }
  const standIn = lacks(
    isBun,
    'Bun puts a package of its own in the place of `undici`, which has no `compose`. Undici itself runs there under another name: `npm install undici-7@npm:undici@7`.',
  )
  if (standIn) {
    const undici = (await import(name)) as Undici
    assert.equal(new undici.Agent().compose, undefined)
  }
  return standIn
}
