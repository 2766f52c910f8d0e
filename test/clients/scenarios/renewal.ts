/** Which calls carry the token, and which responses of an API renew it. */
import assert from 'node:assert/strict'
import { ProviderClosedError, TokenRequestError } from 'merchant-auth'
import type { Driver } from '../drivers.ts'
import { blockedFetch, failureOf, MovedClock, until, type World } from '../world.ts'
import { counted, type Scenario } from './scenario.ts'

const CUSTOM = { header: 'X-Access-Token', scheme: '' }

/** A client whose token was revoked: its next call gets a 401. */
export async function withRevokedToken({ service, provider }: World, driver: Driver, attach = {}) {
  const tokens = provider({ clock: new MovedClock() })
  const send = driver.create(tokens, attach)
  await tokens.getToken()
  service.revoke()
  return { tokens, send, url: `${service.merchantUrl}/orders` }
}

const costOf = ({ service }: World): string =>
  `${counted(service.counts.token, 'token request')}, ${counted(service.counts.merchant, 'send')}`

const CARRIED: Omit<Scenario, 'group'>[] = [
  {
    name: 'concurrent calls below each of the apiUrls',
    run: async (world, driver) => {
      const { service } = world
      const send = driver.create(world.provider())
      const urls = [`${service.merchantUrl}/orders?a=1`, `${service.inStoreUrl}/sales`]
      const calls = Array.from({ length: 20 }, (_, at) =>
        send({ url: urls[at % 2] ?? '', headers: { 'X-Mine': '1' } }),
      )
      for (const { status, text } of await Promise.all(calls)) {
        const { headers, jti } = JSON.parse(text)
        assert.deepEqual(
          [status, headers.authorization, headers['x-mine']],
          [200, `Bearer [token ${jti}]`, '1'],
        )
      }
      assert.equal(service.counts.token, 1)
      assert.deepEqual(
        new Set(world.events.map(({ type }) => type)),
        new Set(['token-requested', 'token-acquired']),
      )
      return '200; 1 token request'
    },
  },
  {
    name: 'the token in a custom header without a scheme, renewed',
    run: async (world, driver) => {
      world.service.configure(CUSTOM)
      const { send, url } = await withRevokedToken(world, driver, CUSTOM)
      const { status } = await send({ url, headers: { Authorization: 'Basic abc' } })
      assert.equal(status, 200)
      for (const { headers } of world.service.requests('merchant')) {
        assert.match(headers['x-access-token'] ?? '', /^\[token .+\]$/)
        assert.equal(headers['authorization'], '[hidden]') // the caller's own
      }
      assert.equal(costOf(world), '2 token requests, 2 sends')
      return `${status}; ${costOf(world)}`
    },
  },
  {
    name: 'the token in headers with odd names',
    run: async (world, driver) => {
      const api = await world.host((_, response) => response.end())
      const tokens = world.provider({ environment: { ...world.service.environment, apiUrls: [api.url] } })
      const { value } = await tokens.getToken()
      const names = [
        'constructor',
        'toString',
        'hasOwnProperty',
        'valueOf',
        'X-Token',
        'Cookie',
        'x!#$%&*+^`|~',
      ]
      for (const header of names) {
        await driver.create(tokens, { header })({ url: api.url, method: 'POST', body: 'abc' })
        const carried = Object.entries(api.seen.at(-1)?.headers ?? {}).filter(([, sent]) =>
          String(sent).includes(value),
        )
        assert.deepEqual(carried, [[header.toLowerCase(), `Bearer ${value}`]])
      }
      return 'the token in that header alone'
    },
  },
  {
    name: 'the caller sets the header itself',
    run: async (world, driver) => {
      const send = driver.create(world.provider())
      for (const name of ['Authorization', 'aUTHORIZATION']) {
        const { status } = await send({ url: world.service.merchantUrl, headers: { [name]: 'Own one' } })
        assert.equal(status, 401)
      }
      assert.equal(costOf(world), '0 token requests, 2 sends')
      const reasons = world.events.map((event) => event.type === 'token-withheld' && event.reason)
      assert.deepEqual(reasons, ['own-header', 'own-header'])
      return '401; 0 token requests, 1 send'
    },
  },
  {
    name: 'another origin, which responds with 401',
    run: async (world, driver) => {
      const other = await world.host((_, response) => response.writeHead(401).end())
      const send = driver.create(world.provider())
      const { status } = await send({ url: `${other.url}/merchant?secret=1#x` })
      assert.equal(status, 401)
      assert.deepEqual(
        other.seen.map(({ path, headers }) => [path, headers['authorization']]),
        [['/merchant?secret=1', undefined]],
      )
      assert.equal(costOf(world), '0 token requests, 0 sends')
      assert.deepEqual(
        world.events.map((event) => event.type === 'token-withheld' && [event.reason, event.url]),
        [['destination', `${other.url}/merchant`]],
      )
      return '401; no token, 0 token requests'
    },
  },
  {
    name: 'the token request fails',
    run: async (world, driver) => {
      const send = driver.create(world.provider())
      world.service.fail('token', { kind: 'status', status: 400, body: { error: 'invalid_client' } })
      const error = await failureOf(send({ url: world.service.merchantUrl }))
      assert.ok(error instanceof TokenRequestError)
      assert.deepEqual([error.status, error.error], [400, 'invalid_client'])
      assert.equal(costOf(world), '1 token request, 0 sends')
      return `${error.name}; ${costOf(world)}`
    },
  },
  {
    name: 'the provider is closed during the wait for the first token',
    run: async (world, driver) => {
      const blocked = blockedFetch()
      const tokens = world.provider({ fetch: blocked.fetch })
      const error = failureOf(driver.create(tokens)({ url: world.service.merchantUrl }))
      await until(() => blocked.count() === 1)
      await tokens.close()
      blocked.release()
      assert.ok((await error) instanceof ProviderClosedError)
      assert.equal(world.service.counts.merchant, 0)
      return 'ProviderClosedError; 0 sends'
    },
  },
]

/** Statuses and challenges, and whether they renew the token. */
const STATUSES: readonly [
  name: string,
  status: number,
  challenge: string,
  attach: object,
  renewed: boolean,
][] = [
  ['401', 401, '', {}, true],
  ['401, insufficient_scope', 401, 'Bearer error="insufficient_scope"', {}, false],
  ['401, renewOnStatus []', 401, '', { renewOnStatus: [] }, false],
  ['401, renewOnStatus [419]', 401, '', { renewOnStatus: [419] }, false],
  ['419, renewOnStatus [401, 419]', 419, '', { renewOnStatus: [401, 419] }, true],
  ['403', 403, '', {}, false],
  ['500', 500, '', {}, false],
]

const REJECTED: Omit<Scenario, 'group'>[] = [
  ...STATUSES.map(
    ([name, status, challenge, attach, renewed]): Omit<Scenario, 'group'> => ({
      name,
      run: async (world, driver) => {
        const send = driver.create(world.provider(), attach)
        const headers: Record<string, string> = challenge === '' ? {} : { 'www-authenticate': challenge }
        world.service.fail('merchant', { kind: 'status', status, headers })
        const answer = await send({ url: world.service.merchantUrl })
        assert.equal(answer.status, renewed ? 200 : status)
        assert.equal(costOf(world), renewed ? '2 token requests, 2 sends' : '1 token request, 1 send')
        return renewed ? 'renewed, sent again; 200' : 'not renewed; the API’s answer'
      },
    }),
  ),
  {
    name: '401, insufficient_scope in the second of two WWW-Authenticate headers',
    run: async (world, driver) => {
      const challenges = ['Basic realm="merchant"', 'Bearer error="insufficient_scope"']
      const api = await world.host((_, response) =>
        response.writeHead(401, { 'www-authenticate': challenges }).end(),
      )
      const tokens = world.provider({ environment: { ...world.service.environment, apiUrls: [api.url] } })
      assert.equal((await driver.create(tokens)({ url: api.url })).status, 401)
      assert.deepEqual([world.service.counts.token, api.seen.length], [1, 1])
      return 'not renewed; the API’s answer'
    },
  },
  {
    name: '401 to 50 concurrent calls of both APIs',
    run: async (world, driver) => {
      const { send } = await withRevokedToken(world, driver)
      const { merchantUrl, inStoreUrl } = world.service
      const calls = Array.from({ length: 50 }, (_, at) =>
        send({ url: at % 2 ? merchantUrl : inStoreUrl, method: 'POST', body: 'body' }),
      )
      assert.deepEqual(new Set((await Promise.all(calls)).map(({ status }) => status)), new Set([200]))
      assert.equal(world.service.counts.token, 2)
      return 'one renewal for all; 200'
    },
  },
  {
    name: '401 to every token, three calls in sequence',
    run: async (world, driver) => {
      world.service.configure({ rejectAllTokens: ['merchant'] })
      const send = driver.create(world.provider({ clock: new MovedClock() }))
      for (let nth = 0; nth < 3; nth += 1) {
        const { status, text } = await send({ url: world.service.merchantUrl, method: 'POST', body: '1' })
        assert.deepEqual([status, JSON.parse(text)], [401, { error: 'invalid_token' }])
      }
      assert.equal(costOf(world), '2 token requests, 4 sends')
      assert.ok(world.events.some((event) => event.type === 'renewal-suppressed' && event.api === 'merchant'))
      world.service.fail('in-store', { kind: 'status', status: 401 })
      assert.equal((await send({ url: world.service.inStoreUrl })).status, 200) // each API has its own rate limit
      return `401; ${costOf(world)}`
    },
  },
  {
    name: '401, and the token request of the renewal fails',
    run: async (world, driver) => {
      const { send, url } = await withRevokedToken(world, driver)
      world.service.fail('token', { kind: 'status', status: 400, body: { error: 'invalid_request' } })
      const { status, text } = await send({ url })
      assert.deepEqual([status, JSON.parse(text)], [401, { error: 'invalid_token' }])
      assert.equal(costOf(world), '2 token requests, 1 send')
      return 'the API’s 401'
    },
  },
  {
    name: '401, and the provider is closed during the renewal',
    run: async (world, driver) => {
      const blocked = blockedFetch(2)
      const tokens = world.provider({ fetch: blocked.fetch })
      await tokens.getToken()
      world.service.revoke()
      const answer = driver.create(tokens)({ url: world.service.merchantUrl })
      await until(() => blocked.count() === 2)
      await tokens.close()
      blocked.release()
      assert.equal((await answer).status, 401)
      return 'the API’s 401'
    },
  },
  {
    name: '401 to a token that was renewed in the meantime',
    run: async (world, driver) => {
      const { service } = world
      const tokens = world.provider({ clock: new MovedClock() })
      const rejected = await tokens.getToken()
      const arrived = Promise.withResolvers<void>()
      service.configure({
        apiLatencyMs: () => {
          arrived.resolve()
          return 30
        },
      })
      service.revoke()
      const answer = driver.create(tokens)({ url: service.merchantUrl })
      await arrived.promise
      await tokens.renewToken(rejected)
      assert.equal((await answer).status, 200)
      assert.equal(costOf(world), '2 token requests, 2 sends')
      return 'sent again at once, no renewal more; 200'
    },
  },
  {
    name: 'a call without a 401 during the renewal for another call',
    run: async (world, driver) => {
      const blocked = blockedFetch(2)
      const tokens = world.provider({ fetch: blocked.fetch })
      await tokens.getToken()
      const send = driver.create(tokens)
      world.service.fail('merchant', { kind: 'status', status: 401 })
      const rejected = send({ url: world.service.merchantUrl })
      await until(() => blocked.count() === 2)
      assert.equal((await send({ url: world.service.merchantUrl })).status, 200)
      blocked.release()
      assert.equal((await rejected).status, 200)
      return 'not held up; 200'
    },
  },
]

export const RENEWAL: readonly Scenario[] = [
  ...CARRIED.map((one) => ({ group: 'Which calls carry the token', ...one })),
  ...REJECTED.map((one) => ({ group: 'Renewal after a response of the API', ...one })),
]
