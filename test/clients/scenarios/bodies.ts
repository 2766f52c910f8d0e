/** Bodies of calls that get a 401: which are sent again, and with which bytes. */
import assert from 'node:assert/strict'
import type { SandboxRequest } from 'merchant-auth/testing'
import type { Call, Driver } from '../drivers.ts'
import { blockedFetch, failureOf, settled, until, type World } from '../world.ts'
import { type BodyKind, CHANGED, METHODS, ONCE, oddlyNamedForm, REPEATED, smallForm } from './body-kinds.ts'
import { withRevokedToken } from './renewal.ts'
import type { Scenario } from './scenario.ts'

/** Other runtimes decide themselves whether to send a content-length. */
const isNode = !('bun' in process.versions || 'deno' in process.versions)

/** A request in comparable form: without the token, and with a fixed boundary. */
function comparable({ method, headers, body }: SandboxRequest) {
  const {
    authorization,
    'content-length': length,
    'transfer-encoding': encoding,
    'content-type': type = '',
    ...others
  } = headers
  const text = body?.toString('latin1') ?? ''
  // The content type does not always name it: without this package, axios' fetch adapter sends a form as text.
  const boundary = /boundary=(.+)$/.exec(type)?.[1] ?? /^--(\S+?)(?:--)?\r\n/.exec(text)?.[1]
  const withFixedBoundary = (value: string): string =>
    boundary === undefined ? value : value.replaceAll(boundary, 'BOUNDARY')
  return {
    method,
    body: withFixedBoundary(text).replace(/--BOUNDARY--(?:\r\n)?$/, '--BOUNDARY--'), // older clients end it without a line break
    type: withFixedBoundary(type),
    length: isNode && [encoding, length === undefined ? 'left out' : Number(length) === body?.length],
    headers: others,
  }
}

/** Everything that is equal in the two sends of a call: all but the token. */
function exactly({ method, path, headers, body }: SandboxRequest) {
  const { authorization, ...others } = headers
  return { method, path, headers: others, body: body?.toString('latin1') }
}

/** The requests of a call without the token, and of the same call with a revoked token. */
async function sendBoth(world: World, driver: Driver, call: (url: string) => Call) {
  const bare = await driver.create()(call(`${world.service.merchantUrl}/orders`))
  assert.equal(bare.status, 401)
  const { send, url } = await withRevokedToken(world, driver)
  const { status } = await send(call(url))
  const [plain, ...sent] = world.service.requests('merchant')
  assert.ok(plain && sent[0])
  return { plain, first: sent[0], sent, status, send, url }
}

const sentTwice = (group: string, kind: BodyKind): Scenario => ({
  group,
  ...kind,
  run: async (world, driver) => {
    const { plain, first, sent, status } = await sendBoth(world, driver, kind.call)
    assert.deepEqual([status, sent.length, world.service.counts.token], [200, 2, 2])
    assert.deepEqual(exactly(sent[1] as SandboxRequest), exactly(first))
    assert.notEqual(sent[1]?.headers['authorization'], first.headers['authorization'])
    const expected = comparable(plain)
    // Without this package, axios' fetch adapter sends a form as text, which no server can parse.
    if (expected.body.startsWith('--BOUNDARY')) expected.type = 'multipart/form-data; boundary=BOUNDARY'
    assert.deepEqual(comparable(first), expected)
    assert.equal(first.headers['idempotency-key'], 'k-1')
    return 'sent twice, the same bytes; 200'
  },
})

const sentOnce = (kind: BodyKind): Scenario => ({
  group: 'Sent once: streams',
  ...kind,
  run: async (world, driver) => {
    const { plain, first, sent, status, send, url } = await sendBoth(world, driver, kind.call)
    assert.deepEqual([status, sent.length, world.service.counts.token], [401, 1, 2])
    assert.deepEqual(comparable(first), comparable(plain))
    assert.ok(comparable(first).body.length > 0)
    assert.equal((await send(kind.call(url))).status, 200)
    assert.equal(comparable(world.service.requests('merchant')[2] ?? first).body, comparable(plain).body)
    assert.equal(world.service.counts.token, 2)
    return 'sent once, whole; 401, next call 200'
  },
})

const changed = Object.entries(CHANGED).flatMap(([name, { make, change, drivers }]) =>
  ([1, 2] as const).map(
    (from): Scenario => ({
      group: `Changed by the caller during the wait for the ${from === 1 ? 'first token' : 'renewal'}`,
      name,
      drivers,
      nodeOnly: true,
      run: async (world, driver) => {
        const call = (body: unknown): Call => ({ url: world.service.merchantUrl, method: 'POST', body })
        await driver.create()(call(make()))
        const blocked = blockedFetch(from)
        const tokens = world.provider({ fetch: blocked.fetch })
        if (from === 2) await tokens.getToken()
        world.service.fail('merchant', { kind: 'status', status: 401 })
        const body = make()
        const answer = driver.create(tokens)(call(body))
        await until(() => blocked.count() === from)
        await settled()
        change(body as never)
        blocked.release()
        assert.equal((await answer).status, 200)
        const [plain, ...sent] = world.service.requests('merchant').map((one) => comparable(one).body)
        assert.deepEqual(sent, [plain, plain])
        return 'sent twice, as at the call; 200'
      },
    }),
  ),
)

const post =
  (body: unknown, headers = {}) =>
  (url: string): Call => ({ url, method: 'POST', body, headers })

const ODD: readonly Scenario[] = [
  {
    group: 'Sent differently from the client alone',
    name: 'FormData: LF in a name, encoded as in the HTML standard',
    drivers: ['axios http'],
    run: async (world, driver) => {
      const { sent, status } = await sendBoth(world, driver, (url) => post(oddlyNamedForm('\n'))(url))
      const [first, second] = sent.map((one) => String(one.body))
      assert.match(first ?? '', /form-data; name="a %22name%22%0D%0Ain two lines"\r\n\r\n1\r\n--/)
      assert.deepEqual([second, status], [first, 200])
      return 'sent twice, the same bytes; 200'
    },
  },
  {
    group: 'Sent differently from the client alone',
    name: 'FormData with the caller’s own boundary, in lower case like the type of a Blob',
    drivers: ['axios http', 'axios fetch'],
    run: async (world, driver) => {
      const type = 'multipart/form-data; boundary=The-Callers-Own-1'
      const { plain, sent, status } = await sendBoth(world, driver, (url) =>
        post(smallForm(), { 'content-type': type })(url),
      )
      assert.equal(plain.headers['content-type'], type)
      for (const { headers, body } of sent) {
        assert.equal(headers['content-type'], type.toLowerCase())
        assert.match(String(body), /--the-callers-own-1--/)
      }
      assert.deepEqual(exactly(sent[1] as SandboxRequest), exactly(sent[0] as SandboxRequest))
      return `sent twice, the same bytes; ${status}`
    },
  },
  {
    group: 'Sent differently from the client alone',
    name: 'view of a SharedArrayBuffer',
    drivers: ['fetch'],
    run: async (world, driver) => {
      const view = new Uint8Array(new SharedArrayBuffer(4), 1, 2)
      view.set([65, 66])
      const { send, url } = await withRevokedToken(world, driver)
      const { status } = await send({ url, method: 'POST', body: view })
      assert.deepEqual(
        world.service.requests('merchant').map(({ body }) => String(body)),
        ['AB', 'AB'],
      )
      return `sent twice, the same bytes; ${status}`
    },
  },
  {
    group: 'Sent once: streams',
    name: 'object of an unknown type, whose toString may change',
    drivers: ['fetch'],
    run: async (world, driver) => {
      let conversions = 0
      const body = {
        toString: () => {
          conversions += 1
          return `text ${conversions}`
        },
      }
      const { send, url } = await withRevokedToken(world, driver)
      assert.equal((await send({ url, method: 'POST', body })).status, 401)
      assert.deepEqual(
        world.service.requests('merchant').map((one) => String(one.body)),
        ['text 1'],
      )
      return 'sent once, whole; 401, next call 200'
    },
  },
]

/** Bodies that the client itself rejects. */
const REJECTED: readonly [name: string, driver: string, call: (url: string) => Call][] = [
  ['web stream', 'axios http', (url) => post(new Blob(['a web stream']).stream())(url)],
  ['number', 'axios http', post(12)],
  ['string with GET', 'axios fetch', (url) => ({ url, method: 'GET', body: 'a body' })],
  ['string with GET', 'fetch', (url) => ({ url, method: 'GET', body: 'a body' })],
]

const rejected = REJECTED.map(
  ([name, driver, call]): Scenario => ({
    group: 'Rejected by the client itself',
    name,
    drivers: [driver],
    run: async (world, client) => {
      const { send, url } = await withRevokedToken(world, client)
      const error = (await failureOf(send(call(url)))) as Error
      const expected = (await failureOf(client.create()(call(url)))) as Error
      assert.deepEqual([error.name, error.message], [expected.name, expected.message])
      assert.equal(world.service.counts.merchant, 0)
      return 'rejected as without the token; not sent'
    },
  }),
)

export const BODIES: readonly Scenario[] = [
  ...REPEATED.map((kind) => sentTwice('Sent again after a 401', kind)),
  ...METHODS.map((kind) => sentTwice('Sent again after a 401, by method', kind)),
  ...ONCE.map(sentOnce),
  ...changed,
  ...ODD.map((one) => ({ ...one, nodeOnly: true })),
  ...rejected.map((one) => ({ ...one, nodeOnly: true })),
]
