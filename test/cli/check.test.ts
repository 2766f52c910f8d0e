// `check`: what its findings rest on, its exit codes, its JSON, and what it never says.
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Sandbox, startSandbox } from 'merchant-auth/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { noteSecret } from '../support/recorded.ts'
import { certificate, startHttps } from './certificates.ts'
import { run, type Variables, variablesFor } from './rig.ts'

let sandbox: Sandbox
let variables: Variables
beforeEach(async () => {
  sandbox = await startSandbox()
  noteSecret(sandbox.test.clientSecret)
  variables = variablesFor(sandbox.test)
})
afterEach(() => sandbox.close())

interface Step {
  readonly step: string
  readonly result: string
  readonly text: string
  readonly advice?: string
  readonly code?: string
  readonly cause?: string
  readonly status?: number
  readonly error?: string
  readonly data?: Record<string, unknown>
}

async function check(
  args: readonly string[],
  changed: Variables = {},
): Promise<{ code: number; steps: readonly Step[] }> {
  const { code, stdout } = await run(['check', '--json', ...args], { ...variables, ...changed })
  const { ok, exitCode, steps } = JSON.parse(stdout)
  expect({ ok, exitCode }).toEqual({ ok: code === 0, exitCode: code })
  return { code, steps }
}

function jwt(claims: unknown): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${part({ alg: 'none' })}.${part(claims)}.c2lnbmF0dXJl`
}

/** Lets the token endpoint give out this token. */
function giveOut(value: string, expires_in = 3600): void {
  noteSecret(value)
  sandbox.test.fail('token', {
    kind: 'json',
    body: { access_token: value, expires_in, token_type: 'Bearer' },
  })
}

describe('check', () => {
  it('makes one token request, and one call', async () => {
    const { code, steps } = await check(['--call', `${sandbox.test.merchantUrl}/orders`])
    expect(code).toBe(0)
    expect(sandbox.test.counts).toMatchObject({ token: 1, merchant: 1 })
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
    const { environment, clientId } = sandbox.test
    expect(steps[0]?.data).toEqual({
      tokenEndpoint: `${environment.authUrl}/oauth/token`,
      audience: environment.audience,
      apiUrls: environment.apiUrls,
      clientId,
      secretSource: 'MERCHANT_AUTH_CLIENT_SECRET',
    })
    expect(steps[3]?.data).toMatchObject({ lifetimeMs: 3_600_000, scope: 'merchant' })
    expect(sandbox.test.requests('merchant')[0]).toMatchObject({ method: 'GET', path: '/merchant/orders' })
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
    ['half an answer', { kind: 'truncated-body' }, 6, { step: 'token', code: 'ERR_TOKEN_RESPONSE' }],
    ['no JSON', { kind: 'text', body: 'hello' }, 6, { step: 'token', code: 'ERR_TOKEN_RESPONSE' }],
  ] as const)(
    'makes one attempt where the token endpoint answers with %s, and tells programs',
    async (_, fault, code, last) => {
      sandbox.test.fail('token', fault)
      const outcome = await check([])
      expect(outcome.code).toBe(code)
      expect(outcome.steps.at(-1)).toMatchObject({ result: 'failed', ...last })
      expect(sandbox.test.counts.token).toBe(1)
    },
  )

  it('names every option that is wrong, its variable and its flag, and asks nobody', async () => {
    const { code, steps } = await check(['--auth-url', 'http://auth.example', '--timeout-ms', 'soon'], {
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
    expect(sandbox.test.counts.token).toBe(0)
  })

  it('warns of a secret with a quote or a blank at an end, and does not show it', async () => {
    noteSecret('"wrong horse"')
    const { steps } = await check([], { MERCHANT_AUTH_CLIENT_SECRET: '"wrong horse"' })
    expect(steps[1]).toMatchObject({ step: 'options', result: 'warning' })
    expect(JSON.stringify(steps)).not.toContain('horse')
  })

  it('tells a port that speaks no TLS, and a certificate for another host', async () => {
    const { port } = new URL(sandbox.test.environment.authUrl)
    const plain = await check(['--auth-url', `https://localhost:${port}`])
    expect(plain).toMatchObject({ code: 4 })
    expect(plain.steps.at(-1)).toMatchObject({ step: 'tls', cause: 'ERR_SSL_WRONG_VERSION_NUMBER' })
    expect(plain.steps.map(({ step }) => step)).toEqual(['options', 'name', 'connection', 'tls'])

    await using server = await startHttps(await certificate('other.example'))
    const other = await check(['--auth-url', `https://localhost:${server.port}`])
    expect(other.steps.at(-1)).toMatchObject({ step: 'tls', result: 'failed' })
  })

  it('tells a server that closes the connection without an answer, as one does that wants TLS', async () => {
    await using server = await startHttps(await certificate('localhost'))
    const { code, steps } = await check(['--auth-url', `http://localhost:${server.port}`])
    expect(code).toBe(4)
    expect(steps.at(-1)).toMatchObject({ step: 'answer', cause: 'UND_ERR_SOCKET' })
    expect(steps.at(-1)?.advice).toContain('https:')
  })

  it('says from which file the secret comes, and what is wrong with that', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'merchant-auth-check-'))
    try {
      const file = join(folder, 'secret')
      await writeFile(file, `${sandbox.test.clientSecret}\n`)
      const good = await check(['--client-secret-file', file], { MERCHANT_AUTH_CLIENT_SECRET: 'another' })
      expect(good.code).toBe(0)
      expect(good.steps[0]?.data).toMatchObject({ secretSource: `the file ${file}` })

      const none = await check(['--client-secret-file', join(folder, 'none')])
      expect(none.code).toBe(3)
      expect(none.steps[0]?.text).toContain(
        'MERCHANT_AUTH_CLIENT_SECRET_FILE (--client-secret-file): names a file that cannot be read (ENOENT)',
      )

      const dotenv = join(folder, '.env')
      await writeFile(
        dotenv,
        `MERCHANT_AUTH_AUDIENCE=https://not.this\nMERCHANT_AUTH_CLIENT_ID='test-client'\n`,
      )
      const fromFile = await check(['--dotenv', dotenv], { MERCHANT_AUTH_CLIENT_ID: '' })
      expect(fromFile.code).toBe(0) // the variables that are set go first
      const missing = await check(['--dotenv', join(folder, 'none')])
      expect(missing).toMatchObject({
        code: 3,
        steps: [{ text: '--dotenv: names a file that cannot be read (ENOENT)' }],
      })
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  it('ends at once by Ctrl-C, with the exit code of a shell', async () => {
    sandbox.test.fail('token', { kind: 'hang' })
    const running = run(['check'], variables)
    await expect.poll(() => sandbox.test.counts.token).toBe(1)
    running.interrupt()
    expect(await running).toMatchObject({ code: 130, stderr: '' })
  })
})

describe('check, where the token is a JWT', () => {
  const seconds = Math.round(Date.now() / 1000)
  const told = async (): Promise<string[]> => {
    const { code, steps } = await check([])
    expect(code).toBe(0) // for information
    return steps.flatMap(({ step, result, text }) => (step === 'jwt' ? `${result}: ${text}` : []))
  }

  it('compares its claims with what was asked for', async () => {
    giveOut(
      jwt({
        iss: 'https://id.example/',
        aud: ['https://other.example'],
        exp: seconds + 36_000,
        iat: seconds - 600,
      }),
    )
    expect(await told()).toEqual([
      'info: iss https://id.example/',
      'warning: aud https://other.example',
      expect.stringMatching(/^warning: exp /),
      expect.stringMatching(/^warning: iat .*: this machine's clock is (?:599|600|601|602) s ahead$/),
    ])
  })

  it('takes one audience of several, and claims that are missing', async () => {
    giveOut(jwt({ aud: ['https://other.example', sandbox.test.environment.audience] }))
    expect(await told()).toEqual([
      'info: iss is missing',
      `info: aud https://other.example, ${sandbox.test.environment.audience}, as asked for`,
      'info: exp is missing',
    ])
  })

  it('lets no claim steer the terminal', async () => {
    giveOut(jwt({ iss: '\u001b[2Jclear\nand more', aud: 'x'.repeat(5_000), exp: 1e300 }))
    const [iss, aud, exp] = await told()
    expect(iss).toBe('info: iss  [2Jclear and more')
    expect(aud?.length).toBeLessThan(400)
    expect(exp).toContain('exp 1e+300')
  })

  it('takes claims of any type, and repeats no secret', async () => {
    const { clientSecret, environment } = sandbox.test
    giveOut(
      jwt({
        iss: [`http://${clientSecret}/`],
        aud: [{ toString: null }, clientSecret, environment.audience],
        exp: '1795000000',
        iat: seconds,
      }),
    )
    expect(await told()).toEqual([
      'info: iss ["http://[hidden]/"]',
      `info: aud {"toString":null}, [hidden], ${environment.audience}, as asked for`,
      'info: exp "1795000000" is no number',
    ])
    giveOut(jwt({ aud: { toString: 1, valueOf: 1 } }))
    expect(await told()).toContain('warning: aud {"toString":1,"valueOf":1}')
  })

  it('cuts nothing before it is searched, in whatever case and wherever the secret stands', async () => {
    const { clientSecret } = sandbox.test
    giveOut(
      jwt({ iss: 'x'.repeat(285) + clientSecret, aud: clientSecret.toUpperCase(), exp: seconds + 3_600 }),
    )
    const said = (await told()).join('\n')
    expect(said.toLowerCase()).not.toContain(clientSecret.slice(0, 12))
    const { steps } = await check([], { MERCHANT_AUTH_CLIENT_ID: clientSecret })
    expect(JSON.stringify(steps)).not.toContain(clientSecret)
  })

  it('blames a clock that is wrong on the clock alone', async () => {
    const iat = seconds - 7_200
    giveOut(jwt({ aud: sandbox.test.environment.audience, iat, exp: iat + 3_600 }))
    expect(await told()).toEqual([
      'info: iss is missing',
      expect.stringMatching(/^info: aud /),
      expect.stringMatching(/^info: exp .*, as expires_in has it$/),
      expect.stringMatching(/^warning: iat .* s ahead$/),
    ])
  })

  it.each(['abc', 'a.b.c', jwt('text'), jwt([])])('says so where it is none: %#', async (value) => {
    giveOut(value)
    expect(await told()).toEqual(['info: the token is no JWT, so there is nothing to read in it'])
  })
})

describe('check --call', () => {
  const call = async (changed: readonly string[] = []): Promise<Step | undefined> => {
    const { code, steps } = await check([
      '--call',
      `${sandbox.test.merchantUrl}/orders?card=4711`,
      ...changed,
    ])
    expect(code).toBe(steps.at(-1)?.result === 'ok' ? 0 : 7)
    expect(JSON.stringify(steps)).not.toContain('4711')
    return steps.at(-1)
  }

  it.each([
    [403, 'a right or a scope'],
    [404, 'nothing at this URL'],
    [405, 'takes no GET'],
    [429, 'Too many calls'],
    [410, 'Check the URL'],
    [502, 'in trouble'],
  ])('says what a %i means', async (status, advice) => {
    sandbox.test.fail('merchant', { kind: 'status', status })
    expect(await call()).toMatchObject({ result: 'failed', status, advice: expect.stringContaining(advice) })
    expect(sandbox.test.counts).toMatchObject({ merchant: 1, token: 1 })
  })

  it('follows no redirect', async () => {
    sandbox.test.fail('merchant', { kind: 'redirect', location: 'https://other.example/secret?x=4711' })
    expect(await call()).toMatchObject({
      text: expect.stringMatching(/a redirect to https:\/\/other\.example$/),
    })
  })

  it('tells a hang and a reset', async () => {
    sandbox.test.fail('merchant', { kind: 'hang' })
    expect(await call(['--timeout-ms', '600'])).toMatchObject({
      text: expect.stringContaining('no answer in time'),
    })
    sandbox.test.fail('merchant', { kind: 'reset' })
    expect(await call()).toMatchObject({ cause: 'ECONNRESET' })
  })

  it('sends the token in the header that is named', async () => {
    sandbox.test.configure({ header: 'X-Token', scheme: '' })
    expect(await call()).toMatchObject({ status: 401, advice: expect.stringContaining('--header-name') })
    expect(await call(['--header-name', 'X-Token', '--scheme', ''])).toMatchObject({ result: 'ok' })
  })

  it('to a URL below none of the API URLs is not made, and costs no token', async () => {
    const { code, steps } = await check(['--call', 'https://other.example/orders?card=4711'])
    expect(code).toBe(7)
    expect(steps.at(-1)).toMatchObject({ step: 'call', result: 'failed' })
    expect(JSON.stringify(steps)).not.toContain('4711')
    expect(sandbox.test.counts).toMatchObject({ token: 0, merchant: 0, 'in-store': 0 })
  })

  it.each(['not a URL', '/orders', 'http://user:open%20sesame@127.0.0.1/merchant'])(
    'to %j makes no sense, and costs no token',
    async (url) => {
      noteSecret('open%20sesame')
      const { code, stdout, stderr } = await run(['check', `--call=${url}`], variables)
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(stderr).toMatch(
        /^merchant-auth: --call must be an absolute URL, without a user name and a password\.\n/,
      )
      expect(sandbox.test.counts.token).toBe(0)
    },
  )

  it('repeats of a challenge no token, and nothing that steers a terminal', async () => {
    const server = createServer(({ headers }, response) => {
      response.writeHead(401, { 'www-authenticate': `Bearer error="no ${headers.authorization}"` }).end()
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      giveOut('the-token-of-this-test')
      const { steps } = await check(['--api-url', url, '--call', `${url}/x`])
      expect(steps.at(-1)?.text).toMatch(/401 in \d+ ms\nBearer error="no Bearer \[hidden\]"$/)
    } finally {
      server.close()
      server.closeAllConnections()
    }
  })
})
