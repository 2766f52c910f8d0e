// `check` behind a proxy, as a company has one: in a process of its own, as Node.js reads the variables at its start.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import { type Sandbox, startSandbox } from 'merchant-auth/testing'
import { createProxy, type ProxyServer } from 'proxy'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { noteSecret } from '../support/recorded.ts'
import { type Variables, variablesFor } from './rig.ts'

const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const PASSWORD = 'open sesame'

let sandbox: Sandbox
let proxy: ProxyServer
let tunnels: number
beforeEach(async () => {
  noteSecret(PASSWORD)
  sandbox = await startSandbox()
  noteSecret(sandbox.test.clientSecret)
  tunnels = 0
  proxy = createProxy(createServer())
  proxy.authenticate = ({ headers }) =>
    headers['proxy-authorization'] === `Basic ${Buffer.from(`user:${PASSWORD}`).toString('base64')}`
  proxy.on('connect', () => (tunnels += 1))
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
})
afterEach(async () => {
  proxy.closeAllConnections()
  proxy.close()
  await sandbox.close()
})

function proxyUrl(password: string, port = (proxy.address() as AddressInfo).port): string {
  return `http://user:${encodeURIComponent(password)}@127.0.0.1:${port}`
}

async function check(variables: Variables): Promise<{ code: number; last: string; all: string }> {
  const env = { PATH: process.env['PATH'], ...variablesFor(sandbox.test), ...variables }
  const child = spawn(process.execPath, [main, 'check', '--json'], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let all = ''
  child.stdout.on('data', (text) => (all += String(text)))
  const [code] = await once(child, 'close')
  const { steps } = JSON.parse(all)
  const { step, text, advice = '' } = steps.at(-1)
  return { code, last: `${step}: ${text} ${advice}`, all }
}

describe('check behind a proxy', () => {
  it('goes through it, and says so', async () => {
    const { code, all } = await check({ NODE_USE_ENV_PROXY: '1', HTTP_PROXY: proxyUrl(PASSWORD) })
    expect(code).toBe(0)
    expect(tunnels).toBe(1)
    expect(all).toMatch(/"text": "127\.0\.0\.1:\d+, a proxy"/)
  })

  it('tells a proxy that refuses the password, and does not repeat it', async () => {
    const { code, last, all } = await check({ NODE_USE_ENV_PROXY: '1', HTTP_PROXY: proxyUrl('wrong') })
    expect(code).toBe(4)
    expect(last).toMatch(
      /^connection: the proxy 127\.0\.0\.1:\d+ made no connection to 127\.0\.0\.1:\d+ \(.*407.*\)/,
    )
    expect(last).toContain('the user name and the password in HTTPS_PROXY')
    expect(all).not.toContain('wrong')
  })

  it('tells a proxy that is not there from a service that is not there', async () => {
    const { code, last } = await check({ NODE_USE_ENV_PROXY: '1', HTTP_PROXY: proxyUrl(PASSWORD, 1) })
    expect(code).toBe(4)
    expect(last).toMatch(
      /^connection: no connection to the proxy 127\.0\.0\.1:1 \(ECONNREFUSED\) Check HTTPS_PROXY/,
    )
  })

  it('ends in time where the proxy takes the call and stays silent', async () => {
    const mute = createTcpServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1')
    await once(mute, 'listening')
    try {
      const { port } = mute.address() as AddressInfo
      const variables = { HTTP_PROXY: proxyUrl(PASSWORD, port), MERCHANT_AUTH_TIMEOUT_MS: '600' }
      const { code, last } = await check({ NODE_USE_ENV_PROXY: '1', ...variables })
      expect(code).toBe(4)
      expect(last).toMatch(
        /^connection: the proxy 127\.0\.0\.1:\d+ made no connection to .*, in time Check whether/,
      )
    } finally {
      mute.close()
    }
  })

  it('says that a proxy is set and not used', async () => {
    const { last } = await check({ MERCHANT_AUTH_URL: 'http://127.0.0.1:2', HTTPS_PROXY: proxyUrl(PASSWORD) })
    expect(last).toContain('HTTPS_PROXY is set, but Node.js goes by it only with NODE_USE_ENV_PROXY=1.')
    expect(tunnels).toBe(0)
  })
})
