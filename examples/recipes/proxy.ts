/**
 * Behind a corporate proxy with a password: token request and API calls through undici's ProxyAgent, axios' `proxy`,
 * and Node.js' own NODE_USE_ENV_PROXY. It starts itself once more, for the last.
 */
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent as HttpsAgent } from 'node:https'
import type { AddressInfo } from 'node:net'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import axios from 'axios'
import { createAuthFetch, createTokenProvider, type Environment, TokenRequestError } from 'merchant-auth'
import { attachAuth } from 'merchant-auth/axios'
import { startSandbox } from 'merchant-auth/testing'
import { createProxy } from 'proxy'
import { ProxyAgent } from 'undici'
import { fetchWith } from './parts/fetch-with.ts'
import { createAuthority } from './support/certificates.ts'
import { startTap, startTlsFront } from './support/relays.ts'
import { rootCause } from './support/root-cause.ts'
import { variablesAt } from './support/variables-at.ts'

interface Service {
  readonly environment: Environment
  readonly clientId: string
  readonly clientSecret: string
  readonly ca: string
}

/** A service that knows nothing of proxies: Node.js does, by NODE_USE_ENV_PROXY and HTTPS_PROXY. */
async function runWithEnvironmentProxy({ environment, clientId, clientSecret, ca }: Service): Promise<void> {
  setDefaultCACertificates([...getCACertificates(), ca])
  const tokens = createTokenProvider({ environment, clientId, clientSecret })
  const api = axios.create({ baseURL: environment.authUrl })
  attachAuth(api, tokens)
  const { status } = await createAuthFetch(tokens)(`${environment.authUrl}/merchant/orders`)
  assert.deepEqual([status, (await api.get('/merchant/orders')).status], [200, 200])
}

async function main(): Promise<void> {
  await using sandbox = await startSandbox()
  const { environment: plain, clientId, clientSecret } = sandbox.test
  const authority = await createAuthority()
  const ca = authority.cert
  await using front = await startTlsFront(
    Number(new URL(plain.authUrl).port),
    await authority.issue('localhost'),
  )
  const url = `https://localhost:${front.port}`
  const environment = { ...plain, authUrl: url, apiUrls: [`${url}/merchant`] }

  // The proxy, and what passes through it.
  const tunnels: string[] = []
  const seen: Buffer[] = []
  const proxyServer = createProxy()
  proxyServer.authenticate = ({ headers }) =>
    headers['proxy-authorization'] === `Basic ${Buffer.from('clerk:pencil').toString('base64')}`
  proxyServer.on('connect', ({ url: target }) => tunnels.push(String(target)))
  await once(proxyServer.listen(0, '127.0.0.1'), 'listening')
  await using tap = await startTap((proxyServer.address() as AddressInfo).port, (bytes) => seen.push(bytes))
  const proxyUrl = `http://clerk:pencil@127.0.0.1:${tap.port}`
  const proxySaw = (text: string): boolean => Buffer.concat(seen).includes(text)

  // undici's fetch through the proxy, for the token request and for the calls.
  setDefaultCACertificates([...getCACertificates(), ca]) // a service with a public certificate does not need this
  Object.assign(process.env, variablesAt(sandbox.test, url), { HTTPS_PROXY: proxyUrl })
  const { authFetch, tokens } = await import('./parts/proxied-client.ts')
  const sale = await authFetch(`${url}/merchant/sales`, { method: 'POST', body: '{"amount":1200}' })
  assert.equal(sale.status, 200)
  console.log(`fetch, through the proxy: ${sale.status}`)

  // axios has a proxy option of its own; httpsAgent carries the TLS options for the service.
  const api = axios.create({
    baseURL: `${url}/merchant`,
    proxy: {
      protocol: 'http',
      host: '127.0.0.1',
      port: tap.port,
      auth: { username: 'clerk', password: 'pencil' },
    },
    httpsAgent: new HttpsAgent({ ca }),
  })
  attachAuth(api, tokens)
  const order = await api.get('/orders/1')
  assert.equal(order.status, 200)
  console.log(`axios, through the proxy: ${order.status}`)

  // Node.js' own fetch and agents take the proxy from the environment.
  if (process.allowedNodeEnvironmentFlags.has('--use-env-proxy')) {
    const env = { ...process.env, NODE_USE_ENV_PROXY: '1', HTTPS_PROXY: proxyUrl, NO_PROXY: '' }
    const child = fork(new URL(import.meta.url), { env })
    child.send({ environment, clientId, clientSecret, ca } satisfies Service)
    assert.deepEqual(await once(child, 'exit'), [0, null])
    console.log('NODE_USE_ENV_PROXY=1, fetch and axios: 200')
  }

  assert.equal(tap.connections, tunnels.length)
  assert.equal(front.connections, tunnels.length)
  assert.deepEqual([...new Set(tunnels)], [`localhost:${front.port}`])
  const token = (await tokens.getToken()).value
  assert.deepEqual([proxySaw(token), proxySaw(clientSecret)], [false, false])
  console.log(
    `The proxy opened ${tunnels.length} tunnels. All calls came by them, and it read no token and no secret.`,
  )

  // Without TLS there is nothing to hide behind: the same proxy reads all of it.
  const open = createTokenProvider({
    environment: plain,
    clientId,
    clientSecret,
    fetch: fetchWith(new ProxyAgent(proxyUrl)),
  })
  await open.getToken()
  assert.equal(proxySaw(clientSecret), true)
  console.log('The same token request without TLS: it read the secret. That is why URLs must be https.')

  const wrong = fetchWith(new ProxyAgent(proxyUrl.replace('pencil', 'crayon')))
  const refused = createTokenProvider({ environment, clientId, clientSecret, fetch: wrong, retries: 0 })
  const error: unknown = await refused.getToken().catch((reason: unknown) => reason)
  assert.ok(error instanceof TokenRequestError)
  assert.match(String(rootCause(error)), /Proxy response \(407\)/)
  console.log(`With a wrong password for the proxy: ${error.message}\n  The root cause: ${rootCause(error)}`)

  proxyServer.closeAllConnections()
  proxyServer.close()
}

if (process.send === undefined) await main()
else {
  process.once('message', async (service: Service) => {
    await runWithEnvironmentProxy(service)
    process.disconnect()
  })
}
