// What `check` says of a set-up that is good, and of each fault, is what docs/command.md shows.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import * as tls from 'node:tls'
import { type Sandbox, startSandbox } from 'merchant-auth/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { noteSecret } from '../support/recorded.ts'
import { certificate, startHttps } from './certificates.ts'
import { asInDocs, run, type Variables, variablesFor } from './rig.ts'

const page = readFileSync(new URL('../../docs/command.md', import.meta.url), 'utf8')

/** The command and what it prints, as the first block below a heading has it. */
function shownBelow(heading: string): string {
  const start = page.indexOf(`\n### ${heading}\n`)
  expect(start, `docs/command.md has the heading "${heading}"`).toBeGreaterThan(-1)
  const [, block = ''] = /^```text\n(.*?)^```$/ms.exec(page.slice(start)) ?? []
  return block
}

let sandbox: Sandbox
let ports: Record<string, number>
let variables: Variables
beforeEach(async () => {
  sandbox = await startSandbox()
  const { environment, clientSecret } = sandbox.test
  noteSecret(clientSecret)
  ports = { [new URL(environment.authUrl).port]: 4000 }
  variables = variablesFor(sandbox.test)
})
afterEach(() => sandbox.close())

/** Runs `check`, and gives what a terminal would show: the command, its lines, and `echo $?`. */
async function shown(args: readonly string[], changed: Variables = {}): Promise<string> {
  const { code, stdout, stderr } = await run(['check', ...args], { ...variables, ...changed })
  expect(stderr).toBe('')
  return asInDocs(`$ ${['merchant-auth check', ...args].join(' ')}\n${stdout}$ echo $?\n${code}\n`, ports)
}

/** The same without the options, which are good. */
async function shownBriefly(args: readonly string[], changed: Variables = {}): Promise<string> {
  const said = await shown(args, changed)
  const brief = said.replace(/^✓ Options {5}token endpoint.*?(?=^[✓✗!])/ms, '✓ Options     …\n')
  expect(brief).not.toBe(said)
  return brief
}

async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

describe('docs/command.md shows what check says', () => {
  it('of a set-up that is good, with an API call', async () => {
    const said = await shown(['--call', `${sandbox.test.merchantUrl}/orders`])
    expect(said).toBe(shownBelow('All is good'))
  })

  it('of variables that are missing', async () => {
    const said = await shown([], { MERCHANT_AUTH_AUDIENCE: '', MERCHANT_AUTH_CLIENT_SECRET: undefined })
    expect(said).toBe(shownBelow('Options are missing'))
  })

  it('of a name that does not resolve', async () => {
    const said = await shownBriefly([], { MERCHANT_AUTH_URL: 'https://auth.invalid' })
    const block = shownBelow('The name does not resolve')
    // Without any name server it is another code, and another sentence.
    if (!said.includes('EAI_AGAIN')) expect(said).toBe(block)
    else
      expect(said.replace(/ {14,}→.*$/ms, '')).toBe(
        block.replace('ENOTFOUND', 'EAI_AGAIN').replace(/ {14,}→.*$/ms, ''),
      )
  })

  it('of a closed port', async () => {
    const port = await closedPort()
    ports[port] = 4001
    expect(await shownBriefly([], { MERCHANT_AUTH_URL: `http://127.0.0.1:${port}` })).toBe(
      shownBelow('Nothing listens on the port'),
    )
  })

  it('of a certificate that expired', async () => {
    const expired = await certificate('localhost', [-20, -1])
    await using server = await startHttps(expired)
    ports[server.port] = 4002
    const before = tls.getCACertificates('default')
    tls.setDefaultCACertificates([...before, expired.cert])
    try {
      expect(await shownBriefly([], { MERCHANT_AUTH_URL: `https://localhost:${server.port}` })).toBe(
        shownBelow('The certificate has expired'),
      )
    } finally {
      tls.setDefaultCACertificates(before)
    }
  })

  it("of a company's own authority", async () => {
    await using server = await startHttps(await certificate('localhost'))
    ports[server.port] = 4002
    expect(await shownBriefly([], { MERCHANT_AUTH_URL: `https://localhost:${server.port}` })).toBe(
      shownBelow('The certificate is signed by an unknown authority'),
    )
  })

  it('of a wrong secret', async () => {
    noteSecret('wrong horse')
    expect(await shownBriefly([], { MERCHANT_AUTH_CLIENT_SECRET: 'wrong horse' })).toBe(
      shownBelow('The client secret is wrong'),
    )
  })

  it('of a wrong audience', async () => {
    expect(await shownBriefly([], { MERCHANT_AUTH_AUDIENCE: 'https://production.sandbox.example' })).toBe(
      shownBelow('The audience is wrong'),
    )
  })

  it('of a token endpoint that answers HTML', async () => {
    const body = '<!doctype html><title>Please log in</title>'
    sandbox.test.fail('token', { kind: 'text', body, contentType: 'text/html' })
    expect(await shownBriefly([])).toBe(shownBelow('The token endpoint answers HTML'))
  })

  it('of one that redirects', async () => {
    sandbox.test.fail('token', { kind: 'redirect', location: 'https://login.example/' })
    expect(await shownBriefly([])).toBe(shownBelow('The token endpoint redirects'))
  })

  it('of one that hangs', async () => {
    sandbox.test.fail('token', { kind: 'hang' })
    expect(await shownBriefly(['--timeout-ms', '1000'])).toBe(shownBelow('The token endpoint hangs'))
  })

  it('of one that is in trouble', async () => {
    sandbox.test.fail('token', { kind: 'status', status: 503, retryAfter: 30 })
    expect(await shownBriefly([])).toBe(shownBelow('The token endpoint is in trouble'))
  })

  it('of an API that refuses the token', async () => {
    sandbox.test.configure({ rejectAllTokens: true })
    const said = await shownBriefly(['--call', `${sandbox.test.inStoreUrl}/orders`])
    expect(said).toBe(shownBelow('An API refuses the token'))
  })
})
