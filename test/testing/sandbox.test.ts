// The sandbox as a whole: its two separate environments, its options, and close().
import { execFile } from 'node:child_process'
import { networkInterfaces } from 'node:os'
import { promisify } from 'node:util'
import { decodeJwt, exportSPKI, generateKeyPair, SignJWT } from 'jose'
import { describe, expect, it, vi } from 'vitest'
import { createAuthFetch } from '../../src/attach/fetch.ts'
import { ConfigurationError } from '../../src/base/errors.ts'
import { defineEnvironments } from '../../src/environment/environment.ts'
import { optionsFromEnv } from '../../src/options/from-env.ts'
import type { TokenProviderOptions } from '../../src/options/options.ts'
import { startSandbox } from '../../src/testing/index.ts'
import { createTokenProvider } from '../../src/token/client-credentials-provider.ts'
import { kindsIn } from '../support/failures.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import {
  call,
  configurationError,
  echoOf,
  freePort,
  freshToken,
  goodFields,
  requestToken,
  until,
  useSandbox,
} from './calls.ts'

const CLIENT = { clientId: 'a', clientSecret: 'secret of a' }

describe('startSandbox', () => {
  const use = useSandbox()

  it('with another token endpoint accepts token requests as its options send them', async () => {
    const options = { tokenPath: '/o/token/', tokenEndpointAuthMethod: 'client_secret_basic' } as const
    await using sandbox = await startSandbox(options)
    const { environment, variables } = sandbox.test
    expect([environment.tokenPath, environment.audience]).toEqual(['/o/token/', undefined])
    for (const given of [sandbox.test.options, optionsFromEnv(variables)] as const)
      for (const bodyFormat of ['json', 'form'] as const) {
        await using tokens = createTokenProvider({ ...given, bodyFormat } as TokenProviderOptions)
        await expect(tokens.getToken()).resolves.toBeDefined()
      }
    const { MERCHANT_AUTH_TOKEN_ENDPOINT_AUTH_METHOD: _, ...post } = variables
    await using tokens = createTokenProvider(optionsFromEnv(post))
    const error = await tokens.getToken().catch((reason: Error) => reason)
    expect(kindsIn(String(error))).toEqual(['basic'])
    expect(JSON.stringify(sandbox.test.requests())).not.toContain(sandbox.test.clientSecret)
  })

  it('with HTTP Basic records what was sent, and takes assertions and any audience, too', async () => {
    const { privateKey, publicKey } = await generateKeyPair('ES256')
    const assertionKey = await exportSPKI(publicKey)
    const settings = { tokenPath: '/token', tokenEndpointAuthMethod: 'client_secret_basic' } as const
    await using sandbox = await startSandbox({ ...settings, assertionKey })
    const { environment, clientId, options } = sandbox.test
    const named = { ...environment, tokenPath: '/token', audience: 'https://any.example' }
    await using basic = createTokenProvider({ ...options, environment: named })
    await basic.getToken()
    const fields = { audience: 'https://any.example', grant_type: 'client_credentials' }
    expect(sandbox.test.requests('token').at(-1)).toMatchObject({ clientId, fields })
    expect(sandbox.test.requests('token').at(-1)?.fields).toEqual(fields)
    const claims = { iss: clientId, sub: clientId, aud: environment.authUrl, jti: '1' }
    const clientAssertion = () =>
      new SignJWT(claims).setProtectedHeader({ alg: 'ES256' }).setExpirationTime('1 min').sign(privateKey)
    await using signed = createTokenProvider({ environment, clientId, clientAssertion })
    await expect(signed.getToken()).resolves.toBeDefined()
  })

  it('starts two environments on 127.0.0.1 that defineEnvironments accepts', () => {
    const { production, test } = use.sandbox
    const environments = { production: production.environment, test: test.environment }
    expect(() => defineEnvironments(environments)).not.toThrow()
    expect([production.environment.name, test.environment.name]).toEqual(['production', 'test'])
    const { environment, merchantUrl, inStoreUrl } = test
    expect(environment.apiUrls).toEqual({ merchant: merchantUrl, inStore: inStoreUrl })
    expect(merchantUrl).toBe(`${environment.authUrl}/merchant`)
    expect(inStoreUrl).toBe(`${environment.authUrl}/in-store`)
  })

  it('starts where the environment of a test has no crypto, as that of jsdom', async () => {
    vi.stubGlobal('crypto', undefined)
    await using sandbox = await startSandbox()
    vi.unstubAllGlobals()
    expect((await requestToken(sandbox.test)).status).toBe(200)
  })

  it('starts environments that reject the client, the audience and the token of the other', async () => {
    const { production, test } = use.sandbox
    expect((await requestToken(production, { fields: goodFields(test) })).status).toBe(401)
    const fields = { ...goodFields(production), audience: test.environment.audience }
    expect((await requestToken(production, { fields })).status).toBe(403)
    const response = await call(production.merchantUrl, await freshToken(test))
    expect(response.status).toBe(401)
    expect(response.headers.get('www-authenticate')).toContain('The token is for another audience')
  })

  it('has options for a provider, whose token works for both APIs, and counts all requests', async () => {
    const before = use.env.counts
    const { merchantUrl, inStoreUrl } = use.env
    await using tokens = createTokenProvider(use.env.options)
    const { value, scope } = await tokens.getToken()
    expect(scope).toBe('merchant')
    expect((await echoOf(await call(`${merchantUrl}/orders`, value))).api).toBe('merchant')
    expect((await echoOf(await call(`${inStoreUrl}/orders`, value))).api).toBe('in-store')
    expect(use.env.counts).toEqual({ token: 1, merchant: 1, 'in-store': 1, issued: 1, unauthorized: 0 })
    expect(before).toEqual({ token: 0, merchant: 0, 'in-store': 0, issued: 0, unauthorized: 0 })
    expect(use.sandbox.production.counts).toEqual(before)
  })
})

describe('the variables of an environment', () => {
  it('are read by optionsFromEnv as its options', async () => {
    await using sandbox = await startSandbox()
    for (const env of [sandbox.test, sandbox.production]) {
      const { environment, clientId, clientSecret } = optionsFromEnv(env.variables)
      const { authUrl, audience, apiUrls } = env.environment
      expect(environment).toMatchObject({ authUrl, audience, apiUrls })
      expect(clientId).toBe(env.clientId)
      expect(await (clientSecret as () => Promise<string>)()).toBe(env.clientSecret)
      expect(env.variables).not.toHaveProperty('MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS')
    }
  })

  it('allow http if the host is not a loopback host, and a token can be got by them', async () => {
    await using sandbox = await startSandbox({ host: '0.0.0.0' })
    const { variables, environment } = sandbox.test
    const [address] = Object.values(networkInterfaces()).flatMap((list) =>
      (list ?? []).filter(({ family, internal }) => family === 'IPv4' && !internal),
    )
    const port = new URL(environment.authUrl).port
    expect(environment.authUrl).toBe(`http://${address?.address ?? '127.0.0.1'}:${port}`)
    expect(variables['MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS']).toBe(address && 'true')
    await using tokens = createTokenProvider(optionsFromEnv(variables))
    expect((await tokens.getToken()).scope).toBe('merchant')
    expect((await fetch(`http://127.0.0.1:${port}/merchant`)).status).toBe(401)
  })
})

describe('the clients of startSandbox', () => {
  const clients = ['store-1', 'store-2'].map((clientId) => ({ clientId, clientSecret: `${clientId}-secret` }))

  it('get tokens of their own, and requests name them', async () => {
    const reported: unknown[] = []
    await using sandbox = await startSandbox({
      clients,
      onRequest: ({ target, clientId }) => reported.push([target, clientId]),
    })
    for (const client of clients) {
      await using tokens = createTokenProvider({ ...sandbox.test.options, ...client })
      const { value } = await tokens.getToken()
      expect(decodeJwt(value).sub).toBe(client.clientId)
      expect((await call(sandbox.test.merchantUrl, value)).status).toBe(200)
    }
    await call(`${sandbox.test.merchantUrl}?secret=store-2-secret`, undefined)
    await requestToken(sandbox.test, { fields: { ...goodFields(sandbox.test), client_id: 'store-3' } })
    await sandbox.close()
    expect(reported).toEqual([
      ['token', 'store-1'],
      ['merchant', 'store-1'],
      ['token', 'store-2'],
      ['merchant', 'store-2'],
      ['merchant', undefined],
      ['token', undefined],
    ])
    expect(JSON.stringify(sandbox.test.requests())).not.toMatch(/store-\d-secret/)
  })

  it('are rejected with the secret of another one, in both environments', async () => {
    await using sandbox = await startSandbox({ clients })
    for (const env of [sandbox.test, sandbox.production]) {
      expect([env.clientId, env.clientSecret]).toEqual(['store-1', 'store-1-secret'])
      expect(env.variables['MERCHANT_AUTH_CLIENT_ID']).toBe('store-1')
      expect((await requestToken(env)).status).toBe(200)
      const fields = { ...goodFields(env), client_id: 'store-2' }
      expect((await requestToken(env, { fields })).status).toBe(401)
    }
  })

  it('have a quota each', async () => {
    await using sandbox = await startSandbox({ clients, quota: '1/h' })
    const statusOf = async ({ clientId, clientSecret }: (typeof clients)[number]) =>
      (await requestToken({ ...sandbox.test, clientId, clientSecret })).status
    const [first, second] = clients
    expect(await statusOf(first as never)).toBe(200)
    expect(await statusOf(first as never)).toBe(429)
    expect(await statusOf(second as never)).toBe(200)
  })
})

describe('the options of startSandbox', () => {
  it('are rejected if a port is in use, and no port stays open', async () => {
    const ports = { production: await freePort(), test: await freePort() }
    await using sandbox = await startSandbox({ ports: { test: ports.test } })
    expect(sandbox.test.environment.authUrl).toContain(String(ports.test))
    await expect(startSandbox({ ports })).rejects.toEqual(
      configurationError('ports.test', expect.stringContaining('EADDRINUSE')),
    )
    await expect(fetch(`http://127.0.0.1:${ports.production}`)).rejects.toThrow()
  })

  it('give both APIs one base URL, whose requests count as those of the merchant API', async () => {
    await using sandbox = await startSandbox({ sharedApiUrl: true })
    const { test: env } = sandbox
    expect(env.environment.apiUrls).toEqual({ merchant: env.merchantUrl, inStore: env.merchantUrl })
    const authFetch = createAuthFetch(createTokenProvider(env.options))
    expect((await echoOf(await authFetch(`${env.inStoreUrl}/sales`))).path).toBe('/api/sales')
    env.revoke()
    expect((await authFetch(`${env.merchantUrl}/orders`)).status).toBe(200)
    expect(env.counts).toMatchObject({ token: 2, merchant: 3, 'in-store': 0 })
  })

  it('set the initial settings of both environments', async () => {
    await using sandbox = await startSandbox({ lifetimeSeconds: 5, rejectAllTokens: ['merchant'] })
    for (const env of [sandbox.production, sandbox.test]) {
      const { expires_in } = (await (await requestToken(env)).json()) as { expires_in: number }
      expect(expires_in).toBe(5)
      const token = await freshToken(env)
      expect((await call(env.merchantUrl, token)).status).toBe(401)
      expect((await call(env.inStoreUrl, token)).status).toBe(200)
    }
  })

  it.each([
    ['lifetimeSeconds', { lifetimeSeconds: 0 }],
    ['port', { port: 4000 }],
    ['quota', { quota: '10/y' }],
    ['host', { host: '' }],
    ['host', { host: 'nowhere.invalid' }],
    ['clients', { clients: [] }],
    ['clients', { clients: [CLIENT, CLIENT] }],
    ['clients[0].clientSecret', { clients: [{ ...CLIENT, clientSecret: '' }] }],
  ])('are rejected if invalid: %s %o', async (option, options) => {
    const start = startSandbox(options as object)
    await expect(start).rejects.toBeInstanceOf(ConfigurationError)
    await expect(start).rejects.toEqual(configurationError(option))
  })
})

describe('close() of the sandbox', () => {
  it('ends pending requests, reports them before it resolves, and frees the ports', async () => {
    const reported: unknown[] = []
    await using sandbox = await startSandbox({ onRequest: ({ target }) => reported.push(target) })
    const { test: env } = sandbox
    env.configure({ apiLatencyMs: 3_600_000, tokenLatencyMs: 3_600_000 })
    env.fail('in-store', { kind: 'hang' })
    const calls = [call(env.merchantUrl, 'x'), call(env.inStoreUrl, 'x'), requestToken(env)]
    const ended = Promise.allSettled(calls)
    await until(() => env.counts.merchant + env.counts['in-store'] + env.counts.token === 3)
    await Promise.all([sandbox.close(), sandbox.close()])
    expect(reported.sort()).toEqual(['in-store', 'merchant', 'token'])
    expect((await ended).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
    expect(reported).toHaveLength(3)
    await expect(fetch(env.merchantUrl)).rejects.toThrow()
    await expect(fetch(sandbox.production.merchantUrl)).rejects.toThrow()
  })

  it('leaves nothing that keeps the process alive', async () => {
    const program = `
      import { get } from 'node:http'
      import { startSandbox } from '${new URL('../../src/testing/index.ts', import.meta.url)}'
      const sandbox = await startSandbox()
      const { test } = sandbox
      test.configure({ apiLatencyMs: 3_600_000 })
      test.fail('in-store', { kind: 'slow-body', durationMs: 3_600_000 })
      get(test.merchantUrl).on('error', () => {})
      get(test.inStoreUrl).on('error', () => {})
      while (test.counts.merchant + test.counts['in-store'] < 2) await new Promise(setImmediate)
      await sandbox.close()
      console.log(process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length)`
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--no-warnings', '--input-type=module', '--eval', program],
      { timeout: PATIENCE_MS },
    )
    expect(stdout.trim()).toBe('0')
  })
})
