/** Redirects: those of the token endpoint are not followed, and those of an API take no token to another origin. */
import assert from 'node:assert/strict'
import axios from 'axios'
import { createAuthFetch, TokenRequestError } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { check, group } from './harness.ts'
import { failureOf, inWorld } from './world.ts'

group('Redirects take neither the secret nor the token along')

for (const status of [301, 302, 303, 307, 308]) {
  check(`the token endpoint answers ${status}`, () =>
    inWorld(async ({ service, provider, host }) => {
      const other = await host((_, response) => response.end('{}'))
      service.fail('token', { kind: 'redirect', status, location: `${other.url}/oauth/token` })
      const failure = await failureOf(provider().getToken())
      assert.deepEqual(other.received, [])
      assert.ok(failure instanceof TokenRequestError, String(failure))
      assert.deepEqual({ code: failure.code, status: failure.status }, { code: 'ERR_TOKEN_REDIRECT', status })
      assert.equal(service.counts.token, 1)
    }),
  )
}

check('the token endpoint answers with a redirect to itself', () =>
  inWorld(async ({ service, provider }) => {
    service.fail('token', { kind: 'redirect', location: `${service.environment.authUrl}/oauth/token` })
    const failure = await failureOf(provider().getToken())
    assert.equal((failure as TokenRequestError).code, 'ERR_TOKEN_REDIRECT')
    assert.equal(service.counts.token, 1)
  }),
)

const ATTACH = {
  Authorization: {},
  'a header of another name': { header: 'X-Access-Token', scheme: '' },
} as const

for (const [name, attach] of Object.entries(ATTACH)) {
  const follows = name === 'Authorization'
  for (const status of [302, 307]) {
    check(`fetch, ${name}: an API answers ${status}`, () =>
      inWorld(async ({ service, provider, host }) => {
        if ('header' in attach) service.configure(attach)
        const other = await host((_, response) => response.end('there'))
        const tokens = provider()
        const { value } = await tokens.getToken()
        const authFetch = createAuthFetch(tokens, attach)
        for (const init of [{}, { method: 'POST', body: 'two apples' }]) {
          service.fail('merchant', { kind: 'redirect', status, location: `${other.url}/merchant` })
          const response = await authFetch(`${service.merchantUrl}/orders`, init)
          assert.equal(response.status, follows ? 200 : status)
          await response.text()
        }
        assert.equal(other.received.length, follows ? 2 : 0)
        assert.ok(!JSON.stringify(other.received).includes(value))
      }),
    )

    for (const adapter of ['http', 'fetch'] as const) {
      check(`axios' ${adapter} adapter, ${name}: an API answers ${status}`, () =>
        inWorld(async ({ service, provider, host }) => {
          if ('header' in attach) service.configure(attach)
          const other = await host((_, response) => response.end('there'))
          const tokens = provider()
          const { value } = await tokens.getToken()
          const api = axios.create({ adapter, baseURL: service.merchantUrl, validateStatus: () => true })
          attachAuth(api, tokens, attach)
          const reaches = follows || adapter === 'http'
          for (const data of [undefined, 'two apples']) {
            service.fail('merchant', { kind: 'redirect', status, location: `${other.url}/merchant` })
            const answer = await api.request({
              url: '/orders',
              method: data === undefined ? 'get' : 'post',
              data,
            })
            assert.equal(answer.status, reaches ? 200 : status)
          }
          assert.equal(other.received.length, reaches ? 2 : 0)
          assert.ok(!JSON.stringify(other.received).includes(value))
        }),
      )
    }
  }
}

check('a 401 after a redirect renews nothing', () =>
  inWorld(async ({ service, provider, host }) => {
    const other = await host((_, response) => response.writeHead(401).end())
    const tokens = provider()
    const api = axios.create({ validateStatus: () => true })
    attachAuth(api, tokens)
    const redirect = (): unknown =>
      service.fail('merchant', { kind: 'redirect', location: `${other.url}/merchant` })
    const url = `${service.merchantUrl}/orders`
    redirect()
    assert.equal((await createAuthFetch(tokens)(url)).status, 401)
    for (const adapter of ['http', 'fetch']) {
      redirect()
      assert.equal((await api.get(url, { adapter })).status, 401)
    }
    assert.equal(service.counts.token, 1)
    assert.equal(other.received.length, 3)
  }),
)

check('to the same origin the token goes along', () =>
  inWorld(async ({ service, provider }) => {
    const tokens = provider()
    const api = axios.create({ validateStatus: () => true })
    attachAuth(api, tokens)
    const redirect = (): unknown =>
      service.fail('merchant', { kind: 'redirect', location: `${service.inStoreUrl}/sales` })
    const url = `${service.merchantUrl}/orders`
    redirect()
    assert.equal((await createAuthFetch(tokens)(url)).status, 200)
    for (const adapter of ['http', 'fetch']) {
      redirect()
      assert.equal((await api.get(url, { adapter })).status, 200)
    }
    assert.equal(service.counts['in-store'], 3)
  }),
)

check('a call to elsewhere goes without the token', () =>
  inWorld(async ({ service, provider, host }) => {
    const other = await host((_, response) => response.end('there'))
    const tokens = provider()
    const { value } = await tokens.getToken()
    const api = axios.create({ baseURL: service.merchantUrl })
    attachAuth(api, tokens)
    await createAuthFetch(tokens)(`${other.url}/merchant/orders`)
    await createAuthFetch(tokens)(new URL(`${service.environment.authUrl}/merchant/../elsewhere`))
    for (const adapter of ['http', 'fetch']) await api.get(`${other.url}/merchant/orders`, { adapter })
    assert.equal(other.received.length, 3)
    assert.ok(!JSON.stringify(other.received).includes(value))
    assert.ok(!JSON.stringify(service.requests()).includes('[token'))
  }),
)
