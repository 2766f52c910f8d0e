// What `check` prints for a correct configuration, and for each failure, is what docs/command.md shows.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import * as tls from 'node:tls'
import { describe, expect, it } from 'vitest'
import { noteSecret } from '../support/recorded.ts'
import { certificate, startHttps } from './certificates.ts'
import { eachWithSandbox, run, type Variables } from './rig.ts'

const page = readFileSync(new URL('../../docs/command.md', import.meta.url), 'utf8')
const at = eachWithSandbox()

/** The command and its output, as the first block below a heading shows them. */
function shownBelow(heading: string): string {
  const start = page.indexOf(`\n### ${heading}\n`)
  expect(start, `docs/command.md has the heading "${heading}"`).toBeGreaterThan(-1)
  return /^```text\n(.*?)^```$/ms.exec(page.slice(start))?.[1] ?? ''
}

/** What a terminal shows of a run of `check`, with the values of the page for those that differ each time. */
async function shown(args: readonly string[], changed: Variables = {}, port = 0): Promise<string> {
  const { code, stdout, stderr } = await run(['check', ...args], { ...at.variables, ...changed })
  expect(stderr).toBe('')
  const ports: Record<string, number> = { [new URL(at.test.environment.authUrl).port]: 4000, [port]: 4001 }
  return `$ ${['merchant-auth check', ...args].join(' ')}\n${stdout}$ echo $?\n${code}\n`
    .replace(/(?<=(?:127\.0\.0\.1|localhost):)\d+/g, (found) => String(ports[found] ?? found))
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '2026-11-21T13:00:00.000Z')
    .replace(/\b\d+ ms\b/g, '12 ms')
}

/** The same without the details of the options, which are correct. */
async function shownBriefly(
  args: readonly string[] = [],
  changed: Variables = {},
  port = 0,
): Promise<string> {
  const all = await shown(args, changed, port)
  const brief = all.replace(/^✓ Options {5}token endpoint.*?(?=^[✓✗!])/ms, '✓ Options     …\n')
  expect(brief).not.toBe(all)
  return brief
}

describe('docs/command.md shows what check prints', () => {
  it('for a correct configuration, with an API call', async () => {
    const all = await shown(['--call', `${at.test.merchantUrl}/orders`])
    expect(all).toBe(shownBelow('Everything is correct'))
  })

  it('for missing variables', async () => {
    const all = await shown([], { MERCHANT_AUTH_AUDIENCE: '', MERCHANT_AUTH_CLIENT_SECRET: undefined })
    expect(all).toBe(shownBelow('Options are missing'))
  })

  it('for a name that does not resolve', async () => {
    const brief = await shownBriefly([], { MERCHANT_AUTH_URL: 'https://auth.invalid' })
    const block = shownBelow('The name does not resolve')
    // Without a DNS server the code and the advice differ.
    const withoutAdvice = (text: string) => text.replace(/ {14,}→.*$/ms, '')
    if (!brief.includes('EAI_AGAIN')) expect(brief).toBe(block)
    else expect(withoutAdvice(brief)).toBe(withoutAdvice(block).replace('ENOTFOUND', 'EAI_AGAIN'))
  })

  it('for a closed port', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    await once(server.close(), 'close')
    const brief = await shownBriefly([], { MERCHANT_AUTH_URL: `http://127.0.0.1:${port}` }, port)
    expect(brief).toBe(shownBelow('Nothing listens on the port'))
  })

  it('for an expired certificate', async () => {
    const expired = await certificate('localhost', [-20, -1])
    await using server = await startHttps(expired)
    const before = tls.getCACertificates('default')
    tls.setDefaultCACertificates([...before, expired.cert])
    try {
      const url = `https://localhost:${server.port}`
      const brief = await shownBriefly([], { MERCHANT_AUTH_URL: url }, server.port)
      expect(brief).toBe(shownBelow('The certificate has expired'))
    } finally {
      tls.setDefaultCACertificates(before)
    }
  })

  it("for a company's own authority", async () => {
    await using server = await startHttps(await certificate('localhost'))
    const url = `https://localhost:${server.port}`
    const brief = await shownBriefly([], { MERCHANT_AUTH_URL: url }, server.port)
    expect(brief).toBe(shownBelow('The certificate is signed by an unknown authority'))
  })

  it('for a wrong secret', async () => {
    noteSecret('wrong horse')
    const brief = await shownBriefly([], { MERCHANT_AUTH_CLIENT_SECRET: 'wrong horse' })
    expect(brief).toBe(shownBelow('The client secret is wrong'))
  })

  it('for a wrong audience', async () => {
    const brief = await shownBriefly([], { MERCHANT_AUTH_AUDIENCE: 'https://production.sandbox.example' })
    expect(brief).toBe(shownBelow('The audience is wrong'))
  })

  it.each([
    [
      'The token endpoint returns HTML',
      { kind: 'text', body: '<title>Please log in</title>', contentType: 'text/html' },
    ],
    ['The token endpoint redirects', { kind: 'redirect', location: 'https://login.example/' }],
    ['The token endpoint hangs', { kind: 'hang' }],
    ['The token endpoint fails', { kind: 'status', status: 503, retryAfter: 30 }],
  ] as const)('where: %s', async (heading, fault) => {
    at.test.fail('token', fault)
    const args = fault.kind === 'hang' ? ['--timeout-ms', '1000'] : []
    expect(await shownBriefly(args)).toBe(shownBelow(heading))
  })

  it('for an API that rejects the token', async () => {
    at.test.configure({ rejectAllTokens: true })
    const brief = await shownBriefly(['--call', `${at.test.inStoreUrl}/orders`])
    expect(brief).toBe(shownBelow('An API rejects the token'))
  })
})
