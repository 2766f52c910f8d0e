// One provider for several clients, and one provider per environment.
import axios from 'axios'
import { createAuthFetch, createTokenProvider, defineEnvironments } from 'merchant-auth'
import { attachAuth, createAuthInterceptor } from 'merchant-auth/axios'
import { startSandbox } from 'merchant-auth/testing'
import { describe, expect, it } from 'vitest'

describe('one provider', () => {
  it('shares one token among several axios instances and fetch functions', async () => {
    await using sandbox = await startSandbox()
    const { environment, clientId, clientSecret, merchantUrl, inStoreUrl } = sandbox.test
    await using tokens = createTokenProvider({ environment, clientId, clientSecret })
    const instances = [merchantUrl, inStoreUrl].map((baseURL) => axios.create({ baseURL }))
    for (const instance of instances) attachAuth(instance, tokens)
    const plain = axios.create({ baseURL: merchantUrl })
    plain.interceptors.request.use(createAuthInterceptor(tokens))
    const fetches = [createAuthFetch(tokens), createAuthFetch(tokens)]
    const jtis = await Promise.all([
      ...[...instances, plain].map(async (api) => (await api.get('/x')).data.jti),
      ...fetches.map(async (each) => ((await (await each(merchantUrl)).json()) as { jti: string }).jti),
    ])
    expect(new Set(jtis).size).toBe(1)
    expect(sandbox.test.counts.token).toBe(1)
  })
})

describe('the providers of two environments', () => {
  it('send their tokens only to the APIs of their own environment', async () => {
    await using sandbox = await startSandbox()
    const both = [sandbox.production, sandbox.test]
    const environments = defineEnvironments({
      production: sandbox.production.environment,
      test: sandbox.test.environment,
    })
    const fetches = [environments.production, environments.test].map((environment, n) => {
      const { clientId = '', clientSecret = '' } = both[n] ?? {}
      return createAuthFetch(createTokenProvider({ environment, clientId, clientSecret }))
    })
    const urls = both.flatMap(({ merchantUrl, inStoreUrl }) => [merchantUrl, inStoreUrl])
    const statuses = fetches.map((authFetch) =>
      Promise.all(urls.map(async (url) => (await authFetch(url)).status)),
    )
    expect(await Promise.all(statuses)).toEqual([
      [200, 200, 401, 401],
      [401, 401, 200, 200],
    ])
    for (const { counts, environment, requests } of both.map((each) => ({
      counts: each.counts,
      environment: each.environment,
      requests: each.requests(),
    }))) {
      expect(counts).toMatchObject({ token: 1, merchant: 2, 'in-store': 2 })
      const fields = requests.flatMap(({ fields }) => fields?.['audience'] ?? [])
      expect(fields).toEqual([environment.audience])
      const rejected = requests.filter(({ status }) => status === 401)
      expect(rejected.map(({ headers }) => headers['authorization'])).toEqual([undefined, undefined])
    }
  })
})
