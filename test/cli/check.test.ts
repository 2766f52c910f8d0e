// `check`: its steps, its options, the claims of the token, the API call and the report.
import { createHash } from 'node:crypto'
import fs, { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { startSandbox } from 'merchant-auth/testing'
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Finding } from '../../src/cli/report.ts'
import { isOfKind, kindsIn } from '../support/failures.ts'
import { isWindows } from '../support/platform.ts'
import { noteSecret } from '../support/recorded.ts'
import { listening } from '../testing/calls.ts'
import { assertionsFor, check, eachWithSandbox, folder, issue, jwt, run, type Variables } from './rig.ts'

const at = eachWithSandbox()

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')

describe('check', () => {
  it('names the variables for another token endpoint, and takes each as a flag, too', async () => {
    await using sandbox = await startSandbox({
      tokenPath: '/token',
      tokenEndpointAuthMethod: 'client_secret_basic',
    })
    const { MERCHANT_AUTH_TOKEN_PATH: path, ...others } = sandbox.test.variables
    const place = { ...at, variables: { ...others, MERCHANT_AUTH_AUDIENCE: 'x' } }
    const post = { MERCHANT_AUTH_TOKEN_ENDPOINT_AUTH_METHOD: '' }
    const adviceOf = async (args: readonly string[]) => (await check(place, args, post)).last?.advice
    expect(await adviceOf([])).toContain('MERCHANT_AUTH_TOKEN_PATH')
    const args = ['--token-path', String(path)]
    expect(await adviceOf(args)).toContain('MERCHANT_AUTH_TOKEN_ENDPOINT_AUTH_METHOD=client_secret_basic')
    sandbox.test.fail('token', { kind: 'json', body: { access_token: 'a.b.c' } })
    args.push('--token-endpoint-auth-method', 'client_secret_basic', '--body-format', 'form')
    expect(await adviceOf(args)).toContain('MERCHANT_AUTH_LIFETIME_IF_MISSING_SECONDS')
    sandbox.test.fail('token', { kind: 'json', body: { access_token: '00D!a|b' } })
    args.push('--lifetime-if-missing-seconds', '60', '--api-url', `merchant=${sandbox.test.merchantUrl}`)
    expect((await check(place, args, { ...post, MERCHANT_AUTH_AUDIENCE: '' })).code).toBe(0)
  })

  it('shows the remaining quotas, after a failure, too', async () => {
    at.test.configure({ quota: '5/h,10/d' })
    for (const _ of [1, 2]) await run(['token'], at.variables)
    const failed = await check(at, [], { MERCHANT_AUTH_CLIENT_SECRET: 'not the secret' })
    expect(failed.steps.at(-2)).toMatchObject({ result: 'ok', text: '2 of 5 token requests left (per_hour)' })
    const { steps } = await check(at, [])
    expect(steps.filter(({ text }) => text.includes('requests left'))).toMatchObject([
      {
        result: 'warning',
        text: '1 of 5 token requests left (per_hour)',
        advice: expect.toSatisfy(isOfKind('low-quota')),
        data: { name: 'per_hour', remaining: 1 },
      },
      { result: 'ok', text: '6 of 10 token requests left (per_day)' },
    ])
  })

  it.each([
    [
      'a variable that does not exist',
      { MERCHANT_AUTH_TIMEOUT: '5' },
      'warning',
      'MERCHANT_AUTH_TIMEOUT is not a variable of this package',
      'Did you mean MERCHANT_AUTH_TIMEOUT_MS?',
    ],
    [
      'a URL without a path',
      { MERCHANT_AUTH_API_URLS: 'merchant=https://api.example' },
      'info',
      'every URL of https://api.example gets the token',
      undefined,
    ],
    [
      'an API with almost the usual name',
      { MERCHANT_AUTH_API_URLS: 'Merchant=https://api.example/m' },
      'warning',
      'no API URL has the name merchant: programs that read apiUrls.merchant fail',
      'Write merchant instead of Merchant.',
    ],
    [
      'API URLs without names',
      { MERCHANT_AUTH_API_URLS: 'https://api.example/m' },
      'warning',
      'the API URLs have no names: programs that read apiUrls.merchant fail',
      'Write merchant=https://…, or read apiUrls[0].',
    ],
    [
      'APIs with other names',
      { MERCHANT_AUTH_API_URLS: 'shop=https://api.example/m' },
      'info',
      'no API URL has the name merchant: programs that read apiUrls.merchant fail',
      undefined,
    ],
  ])('points out %s', async (_, variables, result, text, advice) => {
    const { code, steps } = await check(at, [], variables)
    expect(code).toBe(0)
    const found = steps.filter((step) => step.step === 'options').slice(1)
    expect(found).toMatchObject([{ result, text: expect.stringContaining(text) }])
    expect(found[0]?.advice).toBe(advice)
  })

  it.each([
    ['a space at its end', 'CLIENT_SECRET', 'not-a-secret ', 'begins or ends with a space or a quote'],
    ['an invisible character', 'CLIENT_SECRET', 'not\u200b-a-secret', 'an invisible character'],
    ['a line break', 'CLIENT_SECRET', 'not-a\nsecret', 'a line break'],
    ['letters in place of a line break', 'CLIENT_SECRET', 'not-a-secret\\n', 'or ends with \\n'],
    ['an invisible character in the client id', 'CLIENT_ID', 'test\u00ad-client', 'the client ID contains'],
  ])('warns of %s', async (_, name, value, text) => {
    const { steps } = await check(at, [], { [`MERCHANT_AUTH_${name}`]: value })
    const warnings = steps.filter(({ step, result }) => step === 'options' && result === 'warning')
    expect(warnings).toMatchObject([{ text: expect.stringContaining(text) }])
  })

  it.each([
    ['19 characters', 'x'.repeat(19), '19 characters'],
    ['20 characters', 'x'.repeat(20), `20 characters, SHA-256 ${sha256('x'.repeat(20)).slice(0, 8)}…`],
  ])(
    'shows the length of a secret of %s, and only of a long one a part of its hash',
    async (_, secret, shown) => {
      noteSecret(secret)
      const { steps } = await check(at, [], { MERCHANT_AUTH_CLIENT_SECRET: `${secret}\n` })
      const [{ text = '', data = {} } = {}] = steps
      expect(text).toMatch(new RegExp(`^client secret from MERCHANT_AUTH_CLIENT_SECRET, ${shown}$`, 'm'))
      expect(data).toMatchObject({ secretLength: secret.length })
      expect('secretSha256' in data).toBe(secret.length >= 20)
    },
  )

  it.each([
    ['CLIENT_SECRET', '@Microsoft.KeyVault(SecretUri=https://v.example/secrets/s)', '@Microsoft.KeyVault(…)'],
    ['CLIENT_SECRET', 'op://vault/merchant/secret', 'op://…'],
    ['CLIENT_ID', 'vault:secret/data/merchant#id', 'vault:…'],
    ['AUDIENCE', '"arn:aws:secretsmanager:eu-west-1:1:secret:a"', 'arn:aws:…'],
    ['URL', 'op://vault/merchant/url', 'op://…'],
  ])('names a reference to a vault in %s that nobody resolved', async (variable, value, shown) => {
    noteSecret(value)
    const { steps } = await check(at, [], { [`MERCHANT_AUTH_${variable}`]: value })
    expect(steps.filter(({ text }) => text.includes('a vault'))).toEqual([
      {
        step: 'options',
        result: 'warning',
        text: `MERCHANT_AUTH_${variable} is a reference to a vault (${shown}) that nobody resolved`,
        advice: expect.toSatisfy(isOfKind('unresolved-reference')),
      },
    ])
  })

  it('names a reference to a vault in the file of the secret', async () => {
    const file = join(folder(), 'secret')
    writeFileSync(file, 'op://vault/merchant/secret\n')
    const { steps } = await check(at, ['--client-secret-file', file])
    expect(steps).toContainEqual(
      expect.objectContaining({
        text: `the file ${file} is a reference to a vault (op://…) that nobody resolved`,
      }),
    )
  })

  it('names the working directory for a relative path that cannot be read, and never what may be a secret', async () => {
    const cwd = process.cwd()
    const none = await check(at, ['--dotenv', './none/.env'])
    expect(none.last?.text).toBe(
      `--dotenv: names the file ./none/.env, which cannot be read (ENOENT); the working directory is ${cwd}`,
    )
    const secret = 'Sw0rdfish/of-the/wrong+variable'
    noteSecret(secret)
    const wrong = await check(at, [], {
      MERCHANT_AUTH_CLIENT_SECRET: undefined,
      MERCHANT_AUTH_CLIENT_SECRET_FILE: secret,
    })
    expect(wrong.last?.text).toMatch(
      /: names a file that cannot be read \(ENOENT\); the working directory is \//,
    )
    expect(JSON.stringify(wrong.steps)).not.toContain('Sw0rdfish')
  })

  it.skipIf(isWindows)('names the user that may not read a file (Windows has no IDs)', async () => {
    const denied = Object.assign(new Error('denied'), { code: 'EACCES' })
    const { readFile } = fs.promises
    using _ = vi
      .spyOn(fs.promises, 'readFile')
      .mockImplementation(((file: string, ...rest: []) =>
        file === '/run/secrets/x' ? Promise.reject(denied) : readFile(file, ...rest)) as never)
    syncBuiltinESMExports()
    onTestFinished(() => syncBuiltinESMExports())
    const { last } = await check(at, ['--dotenv', '/run/secrets/x'])
    expect(last?.text).toMatch(/cannot be read \(EACCES\); the user ID is \d+$/)
  })

  it('accepts an assertion from a file and additional token request fields', async () => {
    const sign = await assertionsFor(at)
    at.test.configure({ tokenParameters: ['organization'] })
    const file = join(folder(), 'assertion')
    const args = ['--client-assertion-file', file, '--token-parameter', 'organization=org_1']
    writeFileSync(file, `${await sign()}\n`)
    const { code, stdout } = await run(['check', ...args], at.variables)
    expect(stdout).toContain(`assertion      from the file ${file}`)
    expect(stdout).toContain('parameter      organization=org_1')
    expect(stdout).not.toContain(readFileSync(file, 'utf8').trim())
    expect(code).toBe(0)
    expect(at.test.requests('token').at(-1)?.fields).toMatchObject({ organization: 'org_1' })
    const used = await run(['check', ...args], at.variables)
    expect(kindsIn(used.stdout)).toEqual(['assertion'])
    writeFileSync(file, await sign())
    const unknown = await run(['check', ...args, '--token-parameter', 'resource=x'], at.variables)
    expect(kindsIn(unknown.stdout)).toEqual(['fields'])
    expect(unknown.stdout).toContain('(MERCHANT_AUTH_TOKEN_PARAMETERS)')
    const { length } = at.test.requests('token')
    const store = await run(['token', ...args, '--store', 'redis://127.0.0.1:1'], at.variables)
    expect(store).toMatchObject({ code: 2, stderr: expect.stringContaining('A store needs a client secret') })
    expect(at.test.requests('token')).toHaveLength(length)
  })

  it('reads the API URLs from a YAML block in --dotenv, and MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS', async () => {
    const { merchant, inStore } = at.test.environment.apiUrls
    const dotenv = join(folder(), '.env')
    const insecure = 'MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS'
    writeFileSync(
      dotenv,
      `MERCHANT_AUTH_API_URLS="merchant=${merchant}\ninStore=${inStore}"\n${insecure}=yes`,
    )
    const args = ['--dotenv', dotenv]
    const rejected = await check(at, args, { MERCHANT_AUTH_API_URLS: '' })
    expect(rejected).toMatchObject({ code: 3, last: { text: `${insecure}: must be true or false` } })
    const variables = { MERCHANT_AUTH_API_URLS: '', [insecure]: 'true' }
    const { code, steps } = await check(at, [...args, '--call', `${inStore}/orders`], variables)
    expect(code).toBe(0)
    expect(steps.find(({ data }) => data)?.data).toMatchObject({ apiUrls: { merchant, inStore } })
    const url = ['--auth-url', 'http://sandbox.invalid:4000']
    const allowed = await check(at, url, { [insecure]: 'true' })
    expect(allowed.last?.step).toBe('name')
  })

  it('makes exactly one token request and one API call', async () => {
    const { code, steps } = await check(at, ['--call', `${at.test.merchantUrl}/orders`])
    expect(code).toBe(0)
    expect(at.test.counts).toMatchObject({ token: 1, merchant: 1 })
    const { environment, clientId } = at.test
    expect(steps[0]?.data).toEqual({
      tokenEndpoint: `${environment.authUrl}/oauth/token`,
      audience: environment.audience,
      apiUrls: environment.apiUrls,
      clientId,
      secretSource: 'MERCHANT_AUTH_CLIENT_SECRET',
      secretLength: at.test.clientSecret.length,
      secretSha256: sha256(at.test.clientSecret).slice(0, 8),
    })
    expect(steps[3]?.data).toMatchObject({ lifetimeMs: 3_600_000, scope: 'merchant' })
  })

  it('reports every invalid option with its variable and its flag, and requests no token', async () => {
    const { code, steps } = await check(at, ['--auth-url', 'http://auth.example', '--timeout-ms', 'soon'], {
      MERCHANT_AUTH_CLIENT_ID: '',
      MERCHANT_AUTH_API_URLS: 'https://api.example,api',
    })
    expect(code).toBe(3)
    expect(steps).toHaveLength(1)
    expect(steps[0]?.text.split('\n')).toEqual([
      expect.stringMatching(/^MERCHANT_AUTH_CLIENT_ID \(--client-id\): /),
      expect.stringMatching(/^MERCHANT_AUTH_TIMEOUT_MS \(--timeout-ms\): /),
      expect.stringMatching(/^MERCHANT_AUTH_URL \(--auth-url\): /),
      expect.stringMatching(/^MERCHANT_AUTH_API_URLS\[1\] \(--api-url\): /),
    ])
    expect(at.test.counts.token).toBe(0)
  })

  it('suggests --dotenv if variables are missing and there is a file .env that was not read', async () => {
    const path = folder()
    const cwd = vi.spyOn(process, 'cwd').mockReturnValue(path)
    onTestFinished(() => cwd.mockRestore())
    const dotenv = join(path, '.env')
    writeFileSync(dotenv, 'OTHER=1\n')
    const { steps } = await check(at, [], { MERCHANT_AUTH_URL: '' })
    expect(steps[0]?.advice).toBe('A file .env is here. Read it with:\nnpx merchant-auth check --dotenv .env')
    const read = await check(at, ['--dotenv', dotenv], { MERCHANT_AUTH_URL: '' })
    expect(read.steps[0]?.advice).toBe('Set MERCHANT_AUTH_URL (or --auth-url).')
    const { stderr } = await run(['token'])
    expect(stderr).toMatch(
      / {2}→ A file .env is here\. Read it with:\n {4}npx merchant-auth token --dotenv .env\n$/,
    )
  })

  it('warns about a quoted secret, without showing it', async () => {
    noteSecret('"wrong horse"')
    const { steps } = await check(at, [], { MERCHANT_AUTH_CLIENT_SECRET: '"wrong horse"' })
    expect(steps[1]).toMatchObject({ step: 'options', result: 'warning' })
    expect(JSON.stringify(steps)).not.toContain('horse')
  })

  it('reads the secret and other variables from files, and reports files that cannot be read', async () => {
    const path = folder()
    const [file, dotenv, missing] = [join(path, 'secret'), join(path, '.env'), join(path, 'none')]
    writeFileSync(file, `${at.test.clientSecret}\n`)
    const good = await check(at, ['--client-secret-file', file], { MERCHANT_AUTH_CLIENT_SECRET: 'another' })
    expect(good.code).toBe(0)
    expect(good.steps[0]?.data).toMatchObject({ secretSource: `the file ${file}` })

    const none = await check(at, ['--client-secret-file', missing], { MERCHANT_AUTH_URL: '' })
    expect(none.code).toBe(3)
    expect(none.steps[0]?.text.split('\n')).toEqual([
      expect.stringMatching(/^MERCHANT_AUTH_CLIENT_SECRET_FILE \(--client-secret-file\): .*ENOENT/),
      expect.stringMatching(/^MERCHANT_AUTH_URL \(--auth-url\): /),
    ])

    // Variables that are set take precedence.
    writeFileSync(dotenv, `MERCHANT_AUTH_AUDIENCE=https://not.this\nMERCHANT_AUTH_CLIENT_ID='test-client'\n`)
    expect((await check(at, ['--dotenv', dotenv], { MERCHANT_AUTH_CLIENT_ID: '' })).code).toBe(0)
    expect(await check(at, ['--dotenv', missing])).toMatchObject({
      code: 3,
      steps: [{ text: `--dotenv: names the file ${missing}, which cannot be read (ENOENT)` }],
    })
  })

  it.each(['~/.env', "'.env'", '%USERPROFILE%\\.env', '$HOME/.env'])(
    'rejects a path that the shell did not expand: --dotenv=%s',
    async (path) => {
      const { code, steps } = await check(at, [`--dotenv=${path}`])
      expect(code).toBe(3)
      expect(steps).toMatchObject([{ text: expect.stringMatching(/^--dotenv: must not /) }])
    },
  )

  it.each(['redis', 'none', 'tokens', '"./tokens"'])('rejects --store %s', async (store) => {
    const { code, steps } = await check(at, ['--store', store])
    expect(code).toBe(3)
    expect(steps).toMatchObject([{ text: expect.stringMatching(/^MERCHANT_AUTH_STORE \(--store\): must /) }])
  })

  it('knows the variables of Kubernetes for a Service named merchant-auth, and those of Windows in any case', async () => {
    const address = '10.0.0.7'
    const ofKubernetes = {
      MERCHANT_AUTH_SERVICE_HOST: address,
      MERCHANT_AUTH_SERVICE_PORT: '80',
      MERCHANT_AUTH_SERVICE_PORT_HTTP: '80',
      MERCHANT_AUTH_PORT: `tcp://${address}:80`,
      MERCHANT_AUTH_PORT_80_TCP: `tcp://${address}:80`,
      MERCHANT_AUTH_PORT_80_TCP_PROTO: 'tcp',
      MERCHANT_AUTH_PORT_80_TCP_PORT: '80',
      MERCHANT_AUTH_PORT_80_TCP_ADDR: address,
      MERCHANT_AUTH_SANDBOX_PORT: `tcp://${address}:80`, // of a Service named merchant-auth-sandbox
    }
    const unknown = async (more: Variables) =>
      (await check(at, [], more)).steps.filter(({ text }) => text.includes('is not a variable'))
    expect(await unknown(ofKubernetes)).toEqual([])
    // process.env of Windows has each variable by any spelling of its name.
    const { MERCHANT_AUTH_URL } = at.variables
    expect(await unknown({ Merchant_Auth_Url: MERCHANT_AUTH_URL, MERCHANT_AUTH_URL })).toEqual([])
    expect(await unknown({ Merchant_Auth_Url: 'https://other.example' })).toMatchObject([
      { advice: 'Did you mean MERCHANT_AUTH_URL?' },
    ])
  })

  it('warns about a $ in --dotenv, which other readers replace', async () => {
    const dotenv = join(folder(), '.env')
    const name = 'MERCHANT_AUTH_CLIENT_SECRET'
    const warnings = async (text: string, more: Variables = {}) => {
      writeFileSync(dotenv, text)
      const { steps } = await check(at, ['--dotenv', dotenv], { [name]: undefined, ...more })
      return steps.filter(({ text }) => text.includes('contains a $'))
    }
    noteSecret('Sw0rd$fish-7')
    for (const value of ['Sw0rd$fish-7', "'Sw0rd$fish-7'", '"Sw0rd$fish-7"'])
      expect(await warnings(`${name}=${value}\n`)).toEqual([
        {
          step: 'options',
          result: 'warning',
          text: `${name} contains a $ in the file ${dotenv}: Next.js, Vite, Nuxt, Docker Compose and dotenv-expand, but not Node.js, replace $NAME and similar in it`,
          advice: `If one of them reads this file, put the secret in a file of its own, which ${name}_FILE names.`,
        },
      ])
    expect(await warnings(`${name}=Swordfish-7\n`)).toEqual([])
    expect(await warnings(`${name}=Sw0rd$fish-7\n`, { [name]: at.test.clientSecret })).toEqual([])
  })

  it('warns of a proxy in the file, which Node.js reads when it starts', async () => {
    const dotenv = join(folder(), '.env')
    writeFileSync(dotenv, 'HTTPS_PROXY=http://proxy.example:8080\nNODE_OPTIONS=--use-env-proxy\n')
    const { steps } = await check(at, ['--dotenv', dotenv], { HTTPS_PROXY: '', NODE_OPTIONS: '' })
    expect(steps).toContainEqual(
      expect.objectContaining({
        result: 'warning',
        text: `the file ${dotenv} sets NODE_OPTIONS and HTTPS_PROXY, which Node.js reads when it starts: this command goes without`,
        advice: `Run: node --env-file=${dotenv} node_modules/merchant-auth/dist/cli/main.js check`,
      }),
    )
  })

  it('drops a byte order mark, and warns where Node.js does not', async () => {
    const dotenv = join(folder(), '.env')
    const file = join(folder(), 'secret')
    writeFileSync(file, `\ufeff${at.test.clientSecret}`)
    const flags = ['--dotenv', dotenv, '--client-secret-file', file]
    const marks = async (text: string) => {
      writeFileSync(dotenv, `\ufeff${text}\n`)
      const { code, steps } = await check(at, flags, { MERCHANT_AUTH_CLIENT_ID: '' })
      expect(code).toBe(0)
      return steps.filter(({ text }) => text.includes('byte order mark'))
    }
    const dropped = {
      result: 'info',
      text: `the file ${file} began with a byte order mark, which was dropped`,
    }
    const warning = {
      result: 'warning',
      text: `the file ${dotenv} begins with a byte order mark, so node --env-file does not set MERCHANT_AUTH_CLIENT_ID`,
      advice: expect.stringContaining('Save it as UTF-8 without a byte order mark.'),
    }
    expect(await marks('export MERCHANT_AUTH_CLIENT_ID=test-client')).toMatchObject([warning, dropped])
    expect(await marks('# a comment\nMERCHANT_AUTH_CLIENT_ID=test-client')).toMatchObject([dropped])
  })

  it.each([
    ['at a #', 'Sword#fish-7', true],
    ['at its first character', '#Swordfish-7', true],
    ['not before a comment', 'Swordfish-7 # of the #1 client', false],
    ['not in quotes', "'Sword#fish-7'", false],
  ])('says that Node.js cuts an unquoted value in --dotenv %s', async (_, value, isCut) => {
    noteSecret('fish-7')
    const dotenv = join(folder(), '.env')
    const name = 'MERCHANT_AUTH_CLIENT_SECRET'
    writeFileSync(dotenv, `export ${name}=${value}\nMERCHANT_AUTH_URL=https://unused.example#1\n`)
    const { steps } = await check(at, ['--dotenv', dotenv], { [name]: undefined })
    expect(steps.filter(({ text }) => text.includes('cut'))).toEqual(
      isCut
        ? [
            {
              step: 'options',
              result: 'warning',
              text: `${name} is cut at its first # in the file ${dotenv}, because it is not in quotes`,
              advice: `Write ${name}='…'.`,
            },
          ]
        : [],
    )
  })

  it('names the variables of --dotenv that the shell sets otherwise', async () => {
    const { MERCHANT_AUTH_URL, MERCHANT_AUTH_AUDIENCE } = at.variables
    const dotenv = join(folder(), '.env')
    writeFileSync(
      dotenv,
      [
        `MERCHANT_AUTH_AUDIENCE="${MERCHANT_AUTH_AUDIENCE}"`,
        `MERCHANT_AUTH_URL=${MERCHANT_AUTH_URL}/other`,
        'MERCHANT_AUTH_CLIENT_ID=another',
        'MERCHANT_AUTH_CLIENT_SECRET=another-secret',
      ].join('\n'),
    )
    const overridden = async (...args: string[]) =>
      (await check(at, ['--dotenv', dotenv, ...args])).steps.filter(({ text }) => text.includes('the shell'))
    expect(await overridden('--auth-url', `${MERCHANT_AUTH_URL}/oauth/token`)).toEqual([
      {
        step: 'options',
        result: 'warning',
        text: `the file ${dotenv} sets MERCHANT_AUTH_CLIENT_ID and MERCHANT_AUTH_CLIENT_SECRET to other values than the shell, which takes precedence`,
        advice: 'To use the file: unset MERCHANT_AUTH_CLIENT_ID MERCHANT_AUTH_CLIENT_SECRET',
      },
    ])
    writeFileSync(dotenv, `MERCHANT_AUTH_URL=${MERCHANT_AUTH_URL}\nMERCHANT_AUTH_TIMEOUT_MS=5000\n`)
    expect(await overridden()).toEqual([])
  })

  it('warns about the file before it rejects the options', async () => {
    const dotenv = join(folder(), '.env')
    writeFileSync(dotenv, `MERCHANT_AUTH_URL=${at.variables['MERCHANT_AUTH_URL']}\n`)
    const { code, steps } = await check(at, ['--dotenv', dotenv], { MERCHANT_AUTH_URL: 'nowhere' })
    expect(code).toBe(3)
    expect(steps).toMatchObject([{ result: 'warning' }, { result: 'failed', code: 'ERR_CONFIGURATION' }])
  })

  it.each([
    ['MERCHANT_AUTH_URL', 'https://auth.test.example.com', ' (--auth-url)'],
    ['MERCHANT_AUTH_AUDIENCE', 'https://api.test.example.com', ' (--audience)'],
    ['MERCHANT_AUTH_API_URLS', 'merchant=https://api.test.example.com/merchant', ' (--api-url)'],
    ['MERCHANT_AUTH_CLIENT_ID', 'your-client-id', ' (--client-id)'],
    ['MERCHANT_AUTH_CLIENT_SECRET', 'your-client-secret', ' (--client-secret-file)'],
  ])('recognizes the placeholder of %s, and requests no token', async (name, value, flag) => {
    noteSecret('your-client-secret')
    const { code, steps } = await check(at, [], { [name]: value })
    expect(code).toBe(3)
    expect(steps.map(({ text }) => text)).toEqual([
      `${name}${flag}: still has the value of an example: replace it with your own`,
    ])
    expect(at.test.counts.token).toBe(0)
  })

  it.each(['undefined', 'null', '[object Promise]'])('warns about the text %s', async (text) => {
    const { steps } = await check(at, [], { MERCHANT_AUTH_AUDIENCE: text, MERCHANT_AUTH_CLIENT_SECRET: text })
    const warnings = steps.filter(({ result }) => result === 'warning').map((step) => step.text)
    const said = 'is the word for a missing value, such as undefined or null'
    expect(warnings).toEqual([`the client secret ${said}`, `the audience ${said}`])
  })

  it('recognizes the placeholder in a secret file', async () => {
    const file = join(folder(), 'secret')
    writeFileSync(file, 'your-client-secret\n')
    const { code, last } = await check(at, ['--client-secret-file', file])
    expect(code).toBe(3)
    expect(last?.text).toMatch(/^MERCHANT_AUTH_CLIENT_SECRET_FILE .* of an example/)
  })

  const ORIGIN = 'https://service.example'
  it.each<[result: Finding['result'] | undefined, authUrl: string, apiUrls: string]>([
    ['warning', `${ORIGIN}/merchant`, `merchant=${ORIGIN}/merchant,inStore=${ORIGIN}/in-store`],
    ['info', `${ORIGIN}/merchant/v1/oauth/token`, `merchant=${ORIGIN}/merchant`], // perhaps that of the whole service
    [undefined, ORIGIN, `merchant=${ORIGIN}/merchant,inStore=${ORIGIN}/in-store`],
    [undefined, `${ORIGIN}/auth`, `merchant=${ORIGIN},inStore=${ORIGIN}/in-store`],
    // A base URL of the whole service, with its token endpoint.
    [undefined, `${ORIGIN}/v1`, `merchant=${ORIGIN}/v1,inStore=${ORIGIN}/v1`],
    [undefined, `${ORIGIN}/v1/auth`, `merchant=${ORIGIN}/v1,inStore=${ORIGIN}/v1/in-store`],
  ])(
    'points out before the request that the token endpoint is below an API: %s for %s and %s',
    async (result, authUrl, apiUrls) => {
      vi.stubGlobal('fetch', () => Promise.reject(new TypeError('fetch failed')))
      onTestFinished(() => void vi.unstubAllGlobals())
      const changed = { MERCHANT_AUTH_URL: authUrl, MERCHANT_AUTH_API_URLS: apiUrls }
      const { steps } = await check(at, [], changed)
      const text = `the token endpoint is below the API URL ${ORIGIN}/merchant (merchant)`
      const advice = 'MERCHANT_AUTH_URL may be the URL of the API instead of that of the token endpoint.'
      expect(steps.filter(({ text }) => text.includes('token endpoint is below'))).toEqual(
        result === undefined ? [] : [{ step: 'options', result, text, advice }],
      )
    },
  )

  it('rejects a file in UTF-16, with the line that works in Windows PowerShell 5', async () => {
    const dotenv = join(folder(), '.env')
    writeFileSync(dotenv, Buffer.from('\ufeffMERCHANT_AUTH_CLIENT_ID=x\r\n', 'utf16le'))
    const { code, last } = await check(at, ['--dotenv', dotenv])
    expect(code).toBe(3)
    expect(last?.text).toContain('| Out-File -Encoding ascii')
  })
})

describe('the claims of a JWT that check reads', () => {
  let seconds: number
  beforeEach(() => {
    seconds = Math.round(Date.now() / 1000)
  })
  const claims = async (): Promise<string[]> => {
    const { code, steps } = await check(at)
    expect(code).toBe(0) // claims never fail the check
    return steps.flatMap(({ step, result, text }) => (step === 'jwt' ? `${result}: ${text}` : []))
  }

  it('are compared with the request', async () => {
    const aud = ['https://other.example']
    const token = jwt({ iss: 'https://id.example/', aud, exp: seconds + 36_000, iat: seconds - 605 })
    issue(at, token)
    const { steps } = await check(at)
    const [exp] = steps.filter(({ text }) => text.startsWith('exp '))
    expect(exp?.advice).toMatch(/^According to expires_in, .* expires 33005 s earlier\.$/)
    issue(at, jwt({ aud: [], exp: seconds + 600, iat: seconds }))
    const tooLate = (await check(at)).steps.filter(({ step }) => step === 'jwt')
    expect(tooLate.map(({ text }) => text.slice(0, 4))).toEqual(['iss ', 'aud ', 'exp '])
    expect(tooLate[1]?.text).toBe('aud is missing')
    expect(tooLate[2]?.advice).toMatch(/expires 3000 s later\. If APIs reject it after exp, see docs/)
    issue(at, token)
    expect(await claims()).toEqual([
      'info: iss https://id.example/',
      'warning: aud https://other.example',
      expect.stringMatching(/^warning: exp /),
    ])
  })

  it.each([
    [365, 'ok', ''],
    [366, 'warning', 'long-life'],
  ])('come after the life of the token: %i days', async (days, result, kind) => {
    issue(at, 'opaque', days * 86_400)
    const { code, steps } = await check(at)
    expect(code).toBe(0)
    const found = steps.find(({ step }) => step === 'token')
    expect(found).toMatchObject({ result })
    expect(kindsIn(found?.advice ?? '').join()).toBe(kind)
  })

  it('may say more than ten years, as expires_in does, which counts as ten', async () => {
    const lifetimeS = 100 * 365 * 86_400
    issue(at, jwt({ exp: seconds + lifetimeS, iat: seconds }), lifetimeS)
    expect((await claims()).at(-1)).toMatch(/^info: exp 21/)
  })

  it('say from when the token is valid, if not at once', async () => {
    const { audience } = at.test.environment
    issue(at, jwt({ aud: audience, iat: 1_000_000_000, nbf: 1_000_000_000 }))
    expect((await claims()).join()).not.toContain('nbf')
    issue(at, jwt({ aud: audience, iat: 1_000_000_000, nbf: 1_000_000_005 }))
    const { steps } = await check(at)
    expect(steps).toContainEqual(
      expect.objectContaining({
        result: 'warning',
        text: 'nbf 2001-09-09T01:46:45Z',
        advice: expect.stringContaining('for 5 s after'),
      }),
    )
  })

  it('are not compared with the clock of this machine', async () => {
    issue(at, jwt({ aud: at.test.environment.audience, exp: 1_000_000_000 }))
    expect(await claims()).toContain('info: exp 2001-09-09T01:46:40Z')
  })

  it('cannot control the terminal', async () => {
    issue(at, jwt({ iss: '\u001b[2Jclear\nand more', aud: 'x'.repeat(5_000) }))
    const [iss, aud] = await claims()
    expect(iss).toBe('info: iss  [2Jclear and more')
    expect(aud?.length).toBeLessThan(400)
  })

  it('are not read from a token that is not a signed JWT', async () => {
    issue(at, 'a.b.c')
    expect(await claims()).toEqual([
      'info: the token is not a signed JWT (it is opaque or encrypted), so it has no claims to read',
    ])
  })
})

describe('check --call', () => {
  const call = async (...args: readonly string[]): Promise<Finding | undefined> => {
    const { code, last } = await check(at, [
      '--call',
      `${at.test.merchantUrl}/orders?card=of-nobody`,
      ...args,
    ])
    expect(code).toBe(last?.result === 'ok' ? 0 : 7)
    expect(JSON.stringify(last)).not.toContain('of-nobody')
    return last
  }

  it.each([
    [401, 'call-rejected'],
    [403, 'call-forbidden'],
    [404, 'other-status'],
    [429, 'too-many-calls'],
    [431, 'headers-too-long'],
    [410, 'other-status'],
    [502, 'api-fails'],
  ])('explains the status %i', async (status, kind) => {
    at.test.fail('merchant', { kind: 'status', status, retryAfter: 7 })
    const last = await call()
    expect(last).toMatchObject({ result: 'failed', status })
    expect(kindsIn(last?.advice ?? '')).toContain(kind)
    expect(last?.text).toMatch(new RegExp(` returned ${status} in \\d+ ms, Retry-After: 7$`))
    expect(at.test.counts).toMatchObject({ merchant: 1, token: 1 })
  })

  it.each([
    [400, 'Request Header Or Cookie Too Large', 'Request Header Or Cookie Too Large'],
    [422, { title: 'Unknown store', detail: 'Store 7 is closed.' }, 'Unknown store: Store 7 is closed.'],
    [409, '', undefined],
  ])('reports what the API says with the status %i', async (status, body, said) => {
    at.test.fail('merchant', { kind: 'status', status, body })
    const text = (await call())?.text ?? ''
    expect(text.replace(/^.*returned /, '').replace(/ in \d+ ms/, '')).toBe(
      said ? `${status}: ${said}` : `${status}`,
    )
  })

  it('warns about a web page in place of an API', async () => {
    const page = createServer((_, response) =>
      response.writeHead(200, { 'content-type': 'text/html' }).end('<html>'),
    )
    const url = `http://127.0.0.1:${await listening(page)}/app`
    const { code, last } = await check(at, ['--call', `${url}/orders`], {
      MERCHANT_AUTH_API_URLS: `merchant=${url}`,
    })
    expect(code).toBe(0)
    expect(last).toMatchObject({
      step: 'call',
      result: 'warning',
      text: expect.stringMatching(/, as text\/html$/),
    })
  })

  it('does not follow redirects', async () => {
    at.test.fail('merchant', { kind: 'redirect', location: 'https://other.example/secret?x=of-nobody' })
    expect((await call())?.text).toMatch(/a redirect to https:\/\/other\.example$/)
  })

  it('reports a reset', async () => {
    at.test.fail('merchant', { kind: 'reset' })
    expect(await call()).toMatchObject({ cause: 'ECONNRESET' })
  })

  it('sends the token in the given header', async () => {
    at.test.configure({ header: 'X-Token', scheme: '' })
    expect(await call()).toMatchObject({
      status: 401,
      advice: expect.toSatisfy((text: string) => kindsIn(text).includes('call-rejected')),
    })
    expect(await call('--header-name', 'X-Token', '--scheme', '')).toMatchObject({ result: 'ok' })
  })

  it('neither calls a URL outside the API URLs nor requests a token for it', async () => {
    const { code, last } = await check(at, ['--call', 'https://other.example/orders?card=of-nobody'])
    expect(code).toBe(7)
    expect(last).toMatchObject({ step: 'call', result: 'failed' })
    expect(JSON.stringify(last)).not.toContain('of-nobody')
    expect(at.test.counts).toMatchObject({ token: 0, merchant: 0, 'in-store': 0 })
  })

  it('says why a URL below an API URL gets no token', async () => {
    const { last } = await check(at, ['--call', `${at.test.merchantUrl}/a%2Fb`])
    expect(last).toMatchObject({ result: 'failed', text: expect.stringContaining('an encoded slash') })
  })

  it('hides the secret in an API URL where the called one is below none', async () => {
    const urls = { MERCHANT_AUTH_API_URLS: `https://api.example/${at.test.clientSecret}` }
    const { last } = await check(at, ['--call', 'https://api.example/orders'], urls)
    expect(last?.text).toMatch(/is not below a base URL in apiUrls \(https:\/\/api\.example\/\[hidden\]\)$/)
  })

  it('hides the token in a challenge', async () => {
    const server = createServer(({ headers }, response) => {
      response.writeHead(401, { 'www-authenticate': `Bearer error="no ${headers.authorization}"` }).end()
    })
    const url = `http://127.0.0.1:${await listening(server)}`
    issue(at, 'the-token-of-this-test')
    const { last } = await check(at, ['--api-url', url, '--call', `${url}/x`])
    expect(last?.text).toMatch(/401 in \d+ ms\nBearer error="no Bearer \[hidden\]"$/)
  })
})

describe('the report of check', () => {
  it('has a line for each step, what to do below the one that failed, and the result', async () => {
    const { stdout } = await run(['check'], { ...at.variables, MERCHANT_AUTH_CLIENT_ID: 'stranger' })
    const shapes = [
      /^✓ Options {5}token endpoint http:\S+\n( {14,}\S.*\n)+✓ Connection {2}127\.0\.0\.1:\d+\n/,
      /^✗ Response {4}the token endpoint returned 401, invalid_client: .+\n {14}→ .+\n\nFailed \(exit code 5\)\.\n$/m,
    ]
    for (const shape of shapes) expect(stdout).toMatch(shape)
  })

  it('has the same names of steps for people and in JSON', async () => {
    const args = ['--call', `${at.test.merchantUrl}/orders`]
    const { stdout } = await run(['check', ...args], at.variables)
    const { steps } = await check(at, args)
    const titles = [...stdout.matchAll(/^\S (\w+)/gm)].map(([, title = '']) => title.toLowerCase())
    expect(titles).toEqual([...new Set(steps.map(({ step }) => step))])
  })

  it('counts its warnings in JSON', async () => {
    issue(at, jwt({ aud: 'x', iat: 0, exp: 1 }))
    const { stdout } = await run(['check', '--json'], at.variables)
    expect(JSON.parse(stdout)).toMatchObject({ ok: true, warnings: 2 })
  })
})
