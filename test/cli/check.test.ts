import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { noteSecret } from '../support/recorded.ts'
import { certificate, startHttps } from './certificates.ts'
import { check, eachWithSandbox } from './check-rig.ts'
import { run } from './rig.ts'

const at = eachWithSandbox()

describe('check', () => {
  it('makes one token request, and one call', async () => {
    const { code, steps } = await check(at, ['--call', `${at.sandbox.test.merchantUrl}/orders`])
    expect(code).toBe(0)
    expect(at.sandbox.test.counts).toMatchObject({ token: 1, merchant: 1 })
    expect(steps.map(({ step, result }) => `${step} ${result}`)).toEqual([
      'options ok',
      'connection ok',
      'answer ok',
      'token ok',
      'jwt info',
      'jwt info',
      'jwt info',
      'call ok',
    ])
    const { environment, clientId } = at.sandbox.test
    expect(steps[0]?.data).toEqual({
      tokenEndpoint: `${environment.authUrl}/oauth/token`,
      audience: environment.audience,
      apiUrls: environment.apiUrls,
      clientId,
      secretSource: 'MERCHANT_AUTH_CLIENT_SECRET',
    })
    expect(steps[3]?.data).toMatchObject({ lifetimeMs: 3_600_000, scope: 'merchant' })
    expect(at.sandbox.test.requests('merchant')[0]).toMatchObject({ method: 'GET', path: '/merchant/orders' })
  })

  it.each([
    [
      'a status',
      { kind: 'status', status: 503 },
      5,
      { step: 'answer', code: 'ERR_TOKEN_STATUS', status: 503 },
    ],
    ['a redirect', { kind: 'redirect', location: '/' }, 5, { step: 'answer', code: 'ERR_TOKEN_REDIRECT' }],
    ['a reset', { kind: 'reset' }, 4, { step: 'answer', code: 'ERR_TOKEN_NETWORK', cause: 'ECONNRESET' }],
    ['half an answer', { kind: 'truncated-body' }, 4, { step: 'answer', code: 'ERR_TOKEN_NETWORK' }],
    ['no JSON', { kind: 'text', body: 'hello' }, 6, { step: 'token', code: 'ERR_TOKEN_RESPONSE' }],
  ] as const)(
    'makes one attempt where the token endpoint answers with %s, and tells programs',
    async (_, fault, code, last) => {
      at.sandbox.test.fail('token', fault)
      const outcome = await check(at, [])
      expect(outcome.code).toBe(code)
      expect(outcome.steps.at(-1)).toMatchObject({ result: 'failed', ...last })
      expect(at.sandbox.test.counts.token).toBe(1)
    },
  )

  it('names every option that is wrong, its variable and its flag, and asks nobody', async () => {
    const { code, steps } = await check(at, ['--auth-url', 'http://auth.example', '--timeout-ms', 'soon'], {
      MERCHANT_AUTH_CLIENT_ID: '',
      MERCHANT_AUTH_API_URLS: 'https://api.example,api',
    })
    expect(code).toBe(3)
    expect(steps).toHaveLength(1)
    expect(steps[0]?.text.split('\n')).toEqual([
      'MERCHANT_AUTH_TIMEOUT_MS (--timeout-ms): must be a number of milliseconds',
      'MERCHANT_AUTH_CLIENT_ID (--client-id): is not set',
      expect.stringContaining('MERCHANT_AUTH_URL (--auth-url): must use https'),
      'MERCHANT_AUTH_API_URLS[1] (--api-url): must be an absolute URL',
    ])
    expect(at.sandbox.test.counts.token).toBe(0)
  })

  it('warns of a secret with a quote or a blank at an end, and does not show it', async () => {
    noteSecret('"wrong horse"')
    const { steps } = await check(at, [], { MERCHANT_AUTH_CLIENT_SECRET: '"wrong horse"' })
    expect(steps[1]).toMatchObject({ step: 'options', result: 'warning' })
    expect(JSON.stringify(steps)).not.toContain('horse')
  })

  it('tells a port that speaks no TLS, and a certificate for another host', async () => {
    const { port } = new URL(at.sandbox.test.environment.authUrl)
    const plain = await check(at, ['--auth-url', `https://localhost:${port}`])
    expect(plain).toMatchObject({ code: 4 })
    expect(plain.steps.at(-1)).toMatchObject({ step: 'tls', cause: 'ERR_SSL_WRONG_VERSION_NUMBER' })
    expect(plain.steps.map(({ step }) => step)).toEqual(['options', 'name', 'connection', 'tls'])

    await using server = await startHttps(await certificate('other.example'))
    const other = await check(at, ['--auth-url', `https://localhost:${server.port}`])
    expect(other.steps.at(-1)).toMatchObject({ step: 'tls', result: 'failed' })
  })

  it('tells a server that closes the connection without an answer, as one does that wants TLS', async () => {
    await using server = await startHttps(await certificate('localhost'))
    const { code, steps } = await check(at, ['--auth-url', `http://localhost:${server.port}`])
    expect(code).toBe(4)
    expect(steps.at(-1)).toMatchObject({ step: 'answer', cause: 'UND_ERR_SOCKET' })
    expect(steps.at(-1)?.advice).toContain('https:')
  })

  it('says from which file the secret comes, and what is wrong with that', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'merchant-auth-check-'))
    try {
      const file = join(folder, 'secret')
      await writeFile(file, `${at.sandbox.test.clientSecret}\n`)
      const good = await check(at, ['--client-secret-file', file], { MERCHANT_AUTH_CLIENT_SECRET: 'another' })
      expect(good.code).toBe(0)
      expect(good.steps[0]?.data).toMatchObject({ secretSource: `the file ${file}` })

      const none = await check(at, ['--client-secret-file', join(folder, 'none')])
      expect(none.code).toBe(3)
      expect(none.steps[0]?.text).toContain(
        'MERCHANT_AUTH_CLIENT_SECRET_FILE (--client-secret-file): names a file that cannot be read (ENOENT)',
      )

      const dotenv = join(folder, '.env')
      await writeFile(
        dotenv,
        `MERCHANT_AUTH_AUDIENCE=https://not.this\nMERCHANT_AUTH_CLIENT_ID='test-client'\n`,
      )
      const fromFile = await check(at, ['--dotenv', dotenv], { MERCHANT_AUTH_CLIENT_ID: '' })
      expect(fromFile.code).toBe(0) // the variables that are set go first
      const missing = await check(at, ['--dotenv', join(folder, 'none')])
      expect(missing).toMatchObject({
        code: 3,
        steps: [{ text: '--dotenv: names a file that cannot be read (ENOENT)' }],
      })
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  it('ends at once by Ctrl-C, with the exit code of a shell', async () => {
    at.sandbox.test.fail('token', { kind: 'hang' })
    const running = run(['check'], at.variables)
    await expect.poll(() => at.sandbox.test.counts.token).toBe(1)
    running.interrupt()
    expect(await running).toMatchObject({ code: 130, stderr: '' })
  })
})
