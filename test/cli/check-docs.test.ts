// docs/command.md shows the actual output of `check` for a correct configuration and for each failure. With UPDATE_DOCS=1 this
// file writes it there.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as tls from 'node:tls'
import type { Fault } from 'merchant-auth/testing'
import { describe, expect, it, onTestFinished } from 'vitest'
import { noteSecret } from '../support/recorded.ts'
import { freePort } from '../testing/calls.ts'
import { certificate, startHttps } from './certificates.ts'
import { eachWithSandbox, folder, run, type Variables } from './rig.ts'

const file = new URL('../../docs/command.md', import.meta.url)
let page = readFileSync(file, 'utf8')
const at = eachWithSandbox()

/** The command and its output, as the first block below a heading shows them. */
function blockBelow(heading: string): string {
  const start = page.indexOf(`\n### ${heading}\n`)
  expect(start, `docs/command.md has the heading "${heading}"`).toBeGreaterThan(-1)
  return /^```text\n(.*?)^```$/ms.exec(page.slice(start))?.[1] ?? ''
}

function expectBlock(heading: string, output: string, comparable = (text: string): string => text): void {
  const block = blockBelow(heading)
  if (process.env['UPDATE_DOCS'] === '1' && comparable(output) !== comparable(block)) {
    page = page.replace(block, () => output)
    writeFileSync(file, page)
    return
  }
  expect(comparable(output)).toBe(comparable(block))
}

/** The output of a run of `check`, with the values of the page in place of those that differ each time. */
async function outputOf(args: readonly string[], changed: Variables = {}): Promise<string> {
  const { code, stdout, stderr } = await run(['check', ...args], { ...at.variables, ...changed })
  expect(stderr).toBe('')
  const { port } = new URL(at.test.environment.authUrl)
  return `$ ${['npx merchant-auth check', ...args].join(' ')}\n${stdout}$ echo $?\n${code}\n`
    .replace(/(?<=(?:127\.0\.0\.1|localhost):)\d+/g, (found) => (found === port ? '4000' : '4001'))
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '2026-11-21T13:00:00Z')
    .replace(/\b\d+ ms\b/g, '12 ms')
    .replace(/(?<=SHA-256 )[0-9a-f]{8}/, '1a2b3c4d')
    .replace(/(?<=is valid for )\d+ s/, '3580 s')
    .replace(/\((?:::1, )?127\.0\.0\.1(?:, ::1)?\)/, '(127.0.0.1)') // localhost
}

/** The same output without the details of the options, which are correct. */
async function briefOutputOf(args: readonly string[] = [], changed: Variables = {}): Promise<string> {
  const all = await outputOf(args, changed)
  const brief = all.replace(/^✓ Options {5}token endpoint.*?(?=^[✓✗!])/ms, '✓ Options     …\n')
  expect(brief).not.toBe(all)
  return brief
}

/** In errors of TLS, from Node.js 24 on. */
const HINT = '; if the root CA is installed locally, try running Node.js with --use-system-ca'

describe('docs/command.md shows the output of check below the heading', () => {
  it('Everything is correct', async () => {
    const all = await outputOf(['--call', `${at.test.merchantUrl}/orders`])
    expectBlock('Everything is correct', all)
  })

  it('The token is shared', async () => {
    const directory = join(folder(), 'tokens')
    const args = ['--store', directory]
    expect(await run(['token', ...args], at.variables)).toMatchObject({ code: 0 })
    const brief = (await briefOutputOf(args)).replaceAll(directory, '/var/lib/my-service/tokens')
    expectBlock('The token is shared', brief)
  })

  it('The store cannot be used', async () => {
    const args = ['--store', `redis://127.0.0.1:${await freePort()}`]
    expectBlock('The store cannot be used', await briefOutputOf(args))
  })

  it('Options are missing', async () => {
    const all = await outputOf([], { MERCHANT_AUTH_AUDIENCE: '', MERCHANT_AUTH_CLIENT_SECRET: undefined })
    expectBlock('Options are missing', all)
  })

  it('The name does not resolve', async () => {
    const brief = await briefOutputOf([], { MERCHANT_AUTH_URL: 'https://auth.invalid' })
    // Without a DNS server the code and the advice differ.
    const isOffline = brief.includes('EAI_AGAIN')
    const withoutAdvice = (text: string) => text.replace(/ {14,}→.*$/ms, '').replace('EAI_AGAIN', 'ENOTFOUND')
    expectBlock('The name does not resolve', brief, isOffline ? withoutAdvice : undefined)
  })

  it('The certificate has expired', async () => {
    const expired = await certificate('localhost', [-20, -1])
    const url = `https://localhost:${await startHttps(expired)}`
    const before = tls.getCACertificates('default')
    tls.setDefaultCACertificates([...before, expired.cert])
    onTestFinished(() => tls.setDefaultCACertificates(before))
    expectBlock('The certificate has expired', await briefOutputOf([], { MERCHANT_AUTH_URL: url }))
  })

  const fail = (fault: Fault) => () => void at.test.fail('token', fault)
  const HTML: Fault = { kind: 'text', body: '<title>Please log in</title>', contentType: 'text/html' }
  it.each<[heading: string, arrange: () => unknown, args?: () => readonly string[]]>([
    [
      'Nothing listens on the port',
      async () => ({ MERCHANT_AUTH_URL: `http://127.0.0.1:${await freePort()}` }),
    ],
    [
      'The certificate is signed by an unknown authority',
      async () => {
        const port = await startHttps(await certificate('localhost'))
        return { MERCHANT_AUTH_URL: `https://localhost:${port}` }
      },
    ],
    ['The client secret is wrong', () => ({ MERCHANT_AUTH_CLIENT_SECRET: 'wrong horse' })],
    ['The audience is wrong', () => ({ MERCHANT_AUTH_AUDIENCE: 'https://production.sandbox.example' })],
    ['The token endpoint returns HTML', fail(HTML)],
    ['The token endpoint redirects', fail({ kind: 'redirect', location: 'https://login.example/' })],
    ['The token endpoint hangs', fail({ kind: 'hang' }), () => ['--timeout-ms', '1000']],
    ['The token endpoint fails', fail({ kind: 'status', status: 503, retryAfter: 30 })],
    [
      'An API rejects the token',
      () => at.test.configure({ rejectAllTokens: true }),
      () => ['--call', `${at.test.inStoreUrl}/orders`],
    ],
  ])('%s', async (heading, arrange, args) => {
    noteSecret('wrong horse')
    const changed = (await arrange()) as Variables | undefined
    const brief = await briefOutputOf(args?.(), changed)
    expectBlock(heading, brief, (text) => text.replace(HINT, ''))
  })
})
