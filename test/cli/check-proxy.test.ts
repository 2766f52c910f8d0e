// `check` behind a proxy, in a process of its own, because Node.js reads the variables when it starts.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { createProxy, type ProxyServer } from 'proxy'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { noteSecret } from '../support/recorded.ts'
import { eachWithSandbox, type Variables } from './rig.ts'

const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const PASSWORD = 'open sesame'

const at = eachWithSandbox()
let proxy: ProxyServer
let tunnels: number
beforeEach(async () => {
  noteSecret(PASSWORD)
  tunnels = 0
  proxy = createProxy(createServer())
  proxy.authenticate = ({ headers }) =>
    headers['proxy-authorization'] === `Basic ${Buffer.from(`user:${PASSWORD}`).toString('base64')}`
  proxy.on('connect', () => (tunnels += 1))
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
})
afterEach(() => {
  proxy.closeAllConnections()
  proxy.close()
})

function proxyUrl(password: string, port = (proxy.address() as AddressInfo).port): string {
  return `http://user:${encodeURIComponent(password)}@127.0.0.1:${port}`
}

async function check(variables: Variables): Promise<{ code: number; last: string; all: string }> {
  const env = { PATH: process.env['PATH'], NODE_USE_ENV_PROXY: '1', ...at.variables, ...variables }
  const child = spawn(process.execPath, [main, 'check', '--json'], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [all, [code]] = await Promise.all([text(child.stdout), once(child, 'close')])
  const last = JSON.parse(all).steps.at(-1)
  return { code, last: `${last.step}: ${last.text} ${last.advice}`, all }
}

describe('check behind a proxy', () => {
  it('uses it, and says so', async () => {
    const { code, all } = await check({ HTTP_PROXY: proxyUrl(PASSWORD) })
    expect(code).toBe(0)
    expect(tunnels).toBe(1)
    expect(all).toMatch(/"text": "127\.0\.0\.1:\d+, a proxy"/)
  })

  it('reports a rejected password, without repeating it', async () => {
    const { code, last, all } = await check({ HTTP_PROXY: proxyUrl('wrong') })
    expect(code).toBe(4)
    expect(last).toMatch(
      /^connection: the proxy 127\.0\.0\.1:\d+ did not connect to 127\.0\.0\.1:\d+ \(.*407.*\)/,
    )
    expect(last).toContain('the user name and the password in HTTPS_PROXY')
    expect(all).not.toContain('wrong')
  })

  it('distinguishes a proxy that does not run from a service that does not run', async () => {
    const { code, last } = await check({ HTTP_PROXY: proxyUrl(PASSWORD, 1) })
    expect(code).toBe(4)
    expect(last).toMatch(
      /^connection: cannot connect to the proxy 127\.0\.0\.1:1 \(ECONNREFUSED\) Check HTTPS_PROXY/,
    )
  })

  it('ends in time where the proxy accepts the connection and does not respond', async () => {
    const mute = createTcpServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1')
    await once(mute, 'listening')
    try {
      const { port } = mute.address() as AddressInfo
      const variables = { HTTP_PROXY: proxyUrl(PASSWORD, port), MERCHANT_AUTH_TIMEOUT_MS: '600' }
      const { code, last } = await check(variables)
      expect(code).toBe(4)
      expect(last).toMatch(
        /^connection: the proxy 127\.0\.0\.1:\d+ did not connect to .* in time Check whether/,
      )
    } finally {
      mute.close()
    }
  })
})
