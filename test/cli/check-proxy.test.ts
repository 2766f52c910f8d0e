// `check` behind a proxy, in a separate process, because Node.js reads the variables when it starts.
import { createServer } from 'node:http'
import { createProxy } from 'proxy'
import { describe, expect, it } from 'vitest'
import { kindsIn } from '../support/failures.ts'
import { noteSecret } from '../support/recorded.ts'
import { listening } from '../testing/calls.ts'
import { eachWithSandbox, program } from './rig.ts'

const PASSWORD = 'open sesame'
const at = eachWithSandbox()

/** Starts a proxy that requires the password. */
async function startProxy() {
  noteSecret(PASSWORD)
  const proxy = createProxy(createServer())
  const credentials = `Basic ${Buffer.from(`user:${PASSWORD}`).toString('base64')}`
  proxy.authenticate = ({ headers }) => headers['proxy-authorization'] === credentials
  const tunnels: unknown[] = []
  proxy.on('connect', (request) => tunnels.push(request))
  return { port: await listening(proxy), tunnels }
}

async function check(port: number, { password = PASSWORD, protocol = 'http' } = {}) {
  const HTTP_PROXY = `${protocol}://user:${encodeURIComponent(password)}@127.0.0.1:${port}`
  const env = { NODE_USE_ENV_PROXY: '1', ...at.variables, HTTP_PROXY }
  const { code, stdout: all } = await program(['check', '--json'], env).ended
  const last = JSON.parse(all).steps.at(-1)
  return { code, last: `${last.step}: ${last.text} ${last.advice}`, all }
}

describe('check behind a proxy', () => {
  it('uses the proxy and reports it', async () => {
    const { port, tunnels } = await startProxy()
    const { code, all } = await check(port)
    expect(code).toBe(0)
    expect(tunnels).toHaveLength(1)
    expect(all).toMatch(/"text": "127\.0\.0\.1:\d+, a proxy"/)
  })

  it('reports a rejected password, without repeating it', async () => {
    const { code, last, all } = await check((await startProxy()).port, { password: 'wrong' })
    expect(code).toBe(4)
    expect(last).toMatch(
      /^connection: the proxy 127\.0\.0\.1:\d+ did not connect to 127\.0\.0\.1:\d+ \(.*407.*\)/,
    )
    expect(kindsIn(last)).toEqual(['proxy-fails'])
    expect(all).not.toContain('wrong')
  })

  it('reports https: in the URL of a proxy that speaks http, and not TLS of the token endpoint', async () => {
    const { code, last } = await check((await startProxy()).port, { protocol: 'https' })
    expect(code).toBe(4)
    expect(last).toMatch(/^connection: cannot connect to the proxy 127\.0\.0\.1:\d+ /)
    expect(kindsIn(last)).toEqual(['no-tls'])
  })
})
