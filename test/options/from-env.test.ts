// optionsFromEnv: the options that it reads from environment variables, its errors, and files whose secret is replaced.
import { chmod, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
import { type AuthEvent, createTokenProvider, optionsFromEnv } from 'merchant-auth'
import { startSandbox } from 'merchant-auth/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { isWindows, NOT_A_DIRECTORY } from '../support/platform.ts'
import { kindsOf as kinds, problemsIn } from '../support/problems.ts'
import { noteSecret } from '../support/recorded.ts'

const SECRET = 'swordfish of the environment'
const GOOD = {
  MERCHANT_AUTH_URL: 'https://auth.example',
  MERCHANT_AUTH_AUDIENCE: 'https://api.example',
  MERCHANT_AUTH_API_URLS: 'https://api.example/merchant, https://api.example/in-store',
  MERCHANT_AUTH_CLIENT_ID: 'client-1',
  MERCHANT_AUTH_CLIENT_SECRET: SECRET,
}

let folder: string
beforeEach(async () => {
  noteSecret(SECRET)
  folder = await mkdtemp(join(tmpdir(), 'merchant-auth-env-'))
})
afterEach(() => {
  vi.unstubAllEnvs()
  return rm(folder, { recursive: true })
})

/** Paths that only a shell or a service manager would have replaced, or that docker left in quotes. */
const UNUSABLE_PATHS = [
  '"./tokens"',
  "'/var/lib/tokens'",
  '"/var/lib/tokens',
  '~/tokens',
  '~user/tokens',
  '$HOME/tokens',
  '/run/$\u007bNAME}/tokens', // with a brace
  '$(CREDENTIALS_DIRECTORY)/tokens',
  '%d/tokens',
  '/run/%n/tokens',
  '%USERPROFILE%\\tokens',
  'file:',
  ...(isWindows ? [] : ['file://host/tokens']), // \\host\tokens there
  'file:///tokens%2Fsecret',
]

type Variables = Readonly<Record<string, string | undefined>>
const kindsOf = (env: Variables) => kinds(() => optionsFromEnv(env))
const reasonsOf = (env: Variables) => problemsIn(() => optionsFromEnv(env)).map(({ reason }) => reason)

describe('optionsFromEnv', () => {
  it('reads what other token endpoints need; with a path, the audience may be unset', () => {
    const { MERCHANT_AUTH_AUDIENCE: _, ...others } = GOOD
    const { environment, ...options } = optionsFromEnv({
      ...others,
      MERCHANT_AUTH_TOKEN_PATH: ' /o/token/ ',
      MERCHANT_AUTH_TOKEN_ENDPOINT_AUTH_METHOD: 'client_secret_basic',
      MERCHANT_AUTH_BODY_FORMAT: 'form',
      MERCHANT_AUTH_LIFETIME_IF_MISSING_SECONDS: '7200',
    })
    expect(environment).toMatchObject({ authUrl: 'https://auth.example', tokenPath: '/o/token/' })
    expect('audience' in environment).toBe(false)
    expect(options).toMatchObject({
      tokenEndpointAuthMethod: 'client_secret_basic',
      bodyFormat: 'form',
      lifetimeIfMissingMs: 7_200_000,
    })
    expect(kindsOf(others)).toEqual([['MERCHANT_AUTH_AUDIENCE', 'missing']])
  })

  it.each([
    ['MERCHANT_AUTH_TOKEN_PATH', 'token'],
    ['MERCHANT_AUTH_TOKEN_PATH', "'/token'"],
    ['MERCHANT_AUTH_TOKEN_ENDPOINT_AUTH_METHOD', 'basic'],
    ['MERCHANT_AUTH_BODY_FORMAT', 'xml'],
    ['MERCHANT_AUTH_LIFETIME_IF_MISSING_SECONDS', '1h'],
  ])('rejects a %s of %s', (name, value) => {
    expect(kindsOf({ ...GOOD, [name]: value })).toEqual([[name, 'invalid']])
  })

  it('reads what a schema of the caller has made of the variables', () => {
    const parsed = { ...GOOD, MERCHANT_AUTH_TIMEOUT_MS: 5_000, MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS: true }
    const { timeoutMs, environment } = optionsFromEnv(parsed as unknown as Variables)
    expect([timeoutMs, environment?.allowInsecureRequests]).toEqual([5_000, true])
    expect(kindsOf({ ...parsed, MERCHANT_AUTH_TIMEOUT_MS: {} } as unknown as Variables)).toEqual([
      ['MERCHANT_AUTH_TIMEOUT_MS', 'invalid'],
    ])
  })

  it('returns only the options that the variables set', async () => {
    const { clientSecret, ...options } = optionsFromEnv(GOOD)
    expect(options).toEqual({
      environment: {
        authUrl: 'https://auth.example',
        audience: 'https://api.example',
        apiUrls: ['https://api.example/merchant', 'https://api.example/in-store'],
      },
      clientId: 'client-1',
    })
    expect((clientSecret as () => string)()).toBe(SECRET)
  })

  it.each([
    'MERCHANT_AUTH_URL',
    'MERCHANT_AUTH_AUDIENCE',
    'MERCHANT_AUTH_API_URLS',
    'MERCHANT_AUTH_CLIENT_ID',
  ] as const)('rejects %s in quotes, which docker and others keep, with one problem', (name) => {
    for (const quoted of [`"${GOOD[name]}"`, `'${GOOD[name]}'`, `"${GOOD[name]}`])
      expect(kindsOf({ ...GOOD, [name]: quoted })).toEqual([[name, 'invalid']])
  })

  const [merchant, inStore] = ['https://api.example/merchant', 'https://api.example/in-store']
  it.each([
    [`merchant=${merchant},inStore=${inStore}`, { merchant, inStore }],
    [` merchant = ${merchant} , inStore=${inStore},`, { merchant, inStore }],
    [`merchant=${merchant} inStore=${inStore}`, { merchant, inStore }],
    [`merchant=${merchant}\ninStore=${inStore}\n`, { merchant, inStore }], // a YAML block
    [`\r\n  merchant = ${merchant},\r\n  inStore = ${inStore}\r\n`, { merchant, inStore }],
    [`${merchant}\n\n\t${inStore}`, [merchant, inStore]],
    [`${merchant}/a=b`, [`${merchant}/a=b`]],
  ])('reads MERCHANT_AUTH_API_URLS=%j', (MERCHANT_AUTH_API_URLS, apiUrls) => {
    expect(optionsFromEnv({ ...GOOD, MERCHANT_AUTH_API_URLS }).environment.apiUrls).toEqual(apiUrls)
  })

  it.each([
    [`merchant=${merchant},${inStore}`, 'MERCHANT_AUTH_API_URLS', 'invalid'],
    [`merchant=${merchant},merchant=${inStore}`, 'MERCHANT_AUTH_API_URLS', 'invalid'],
    ['merchant=http://api.example', 'MERCHANT_AUTH_API_URLS.merchant', 'insecure'],
    [',', 'MERCHANT_AUTH_API_URLS', 'missing'],
    [`merchant=${merchant};inStore=${inStore}`, 'MERCHANT_AUTH_API_URLS', 'invalid'],
    [`merchant=${merchant}|inStore=${inStore}`, 'MERCHANT_AUTH_API_URLS.merchant', 'invalid'],
    // A reader of .env files left an escaped line break as it is.
    [`merchant=${merchant}\\ninStore=${inStore}`, 'MERCHANT_AUTH_API_URLS.merchant', 'invalid'],
    [`"merchant=${merchant}"`, 'MERCHANT_AUTH_API_URLS', 'invalid'],
  ])('rejects MERCHANT_AUTH_API_URLS=%s', (MERCHANT_AUTH_API_URLS, option, kind) => {
    expect(kindsOf({ ...GOOD, MERCHANT_AUTH_API_URLS })).toEqual([[option, kind]])
  })

  const INSECURE = { ...GOOD, MERCHANT_AUTH_URL: 'http://sandbox:4000' }
  it('allows http to other hosts with MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS=true', () => {
    const allowed = (MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS: string) =>
      optionsFromEnv({ ...INSECURE, MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS }).environment
    expect(allowed('true')).toMatchObject({ authUrl: 'http://sandbox:4000', allowInsecureRequests: true })
    expect(() => allowed('false')).toThrow(/MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS=true/)
    expect(() => allowed('')).toThrow(/MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS=true/)
  })

  it.each(['yes', '1', 'TRUE', 'true,'])('rejects MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS=%s', (text) => {
    expect(kindsOf({ ...GOOD, MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS: text })).toEqual([
      ['MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS', 'invalid'],
    ])
  })

  it('requires the names of APIs that the caller uses', () => {
    const { apiUrls } = optionsFromEnv(
      { ...GOOD, MERCHANT_AUTH_API_URLS: `merchant=${merchant}` },
      { apis: ['merchant'] },
    ).environment
    expect(new URL(apiUrls.merchant).href).toBe(merchant)
  })

  it.each([
    [
      merchant,
      ['merchant', 'inStore'],
      'gives its base URLs no names, but the program reads apiUrls.merchant and apiUrls.inStore: ' +
        'write merchant=https://…,inStore=https://…',
    ],
    [
      `Merchant=${merchant},inStore=${inStore}`,
      ['merchant', 'inStore'],
      'has the names Merchant and inStore, but the program reads apiUrls.merchant: write merchant=https://…',
    ],
    [
      `shop=${merchant}`,
      ['merchant'],
      'has the name shop, but the program reads apiUrls.merchant: write merchant=https://…',
    ],
  ])(
    'says what MERCHANT_AUTH_API_URLS=%s has instead of the names %j',
    (MERCHANT_AUTH_API_URLS, apis, reason) => {
      const variables = { ...GOOD, MERCHANT_AUTH_API_URLS }
      expect(problemsIn(() => optionsFromEnv(variables, { apis }))).toEqual([
        { option: 'MERCHANT_AUTH_API_URLS', kind: 'missing', reason },
      ])
    },
  )

  it('reads the durations', () => {
    const durations = {
      MERCHANT_AUTH_TIMEOUT_MS: '5000',
      MERCHANT_AUTH_REFRESH_AHEAD_MS: '0',
      MERCHANT_AUTH_EXPIRY_MARGIN_MS: ' 1500.5 ',
    }
    expect(optionsFromEnv({ ...GOOD, ...durations })).toMatchObject({
      timeoutMs: 5_000,
      refreshAheadMs: 0,
      expiryMarginMs: 1_500.5,
    })
  })

  it('reads process.env by default', () => {
    for (const [name, value] of Object.entries(GOOD)) vi.stubEnv(name, value)
    expect(optionsFromEnv().clientId).toBe('client-1')
  })

  it('reports all problems at once, each with its variable', () => {
    expect(kinds(() => optionsFromEnv({}, { apis: ['merchant'] }))).toEqual([
      ['MERCHANT_AUTH_CLIENT_ID', 'missing'],
      ['MERCHANT_AUTH_CLIENT_SECRET', 'missing'],
      ['MERCHANT_AUTH_URL', 'missing'],
      ['MERCHANT_AUTH_AUDIENCE', 'missing'],
      ['MERCHANT_AUTH_API_URLS', 'missing'],
    ])
    expect(reasonsOf({}).slice(0, 4)).toEqual([
      'is not set',
      'is not set, and neither is MERCHANT_AUTH_CLIENT_SECRET_FILE or MERCHANT_AUTH_CLIENT_ASSERTION_FILE',
      'is not set',
      'is not set (optional with MERCHANT_AUTH_TOKEN_PATH)',
    ])
    const wrong = {
      ...GOOD,
      MERCHANT_AUTH_URL: 'http://auth.example',
      MERCHANT_AUTH_API_URLS: 'https://api.example,ftp://api.example',
      MERCHANT_AUTH_TIMEOUT_MS: '10s',
      MERCHANT_AUTH_REFRESH_AHEAD_MS: '-1',
      MERCHANT_AUTH_EXPIRY_MARGIN_MS: '99999999999',
      MERCHANT_AUTH_LIFETIME_IF_MISSING_SECONDS: '1 h',
      MERCHANT_AUTH_TOKEN_PATH: 'token',
    }
    expect(kindsOf(wrong)).toEqual([
      ['MERCHANT_AUTH_TIMEOUT_MS', 'invalid'],
      ['MERCHANT_AUTH_REFRESH_AHEAD_MS', 'invalid'],
      ['MERCHANT_AUTH_EXPIRY_MARGIN_MS', 'invalid'],
      ['MERCHANT_AUTH_LIFETIME_IF_MISSING_SECONDS', 'invalid'],
      ['MERCHANT_AUTH_URL', 'insecure'],
      ['MERCHANT_AUTH_TOKEN_PATH', 'invalid'],
      ['MERCHANT_AUTH_API_URLS[1]', 'invalid'],
    ])
    expect(reasonsOf(wrong)).toEqual([
      'must be a number of milliseconds from 1 to 2147483647',
      'must be a number of milliseconds from 0 to 2147483647',
      'must be a number of milliseconds from 0 to 2147483647',
      'must be a number of seconds from 0.001 to 2147483',
      'must use https (http is allowed for loopback hosts, or with MERCHANT_AUTH_ALLOW_INSECURE_REQUESTS=true)',
      'must begin with one /, without a query, a fragment or white space',
      'must be an https URL',
    ])
  })

  it('points out a variable that is probably misspelled', () => {
    const { MERCHANT_AUTH_CLIENT_SECRET: _, MERCHANT_AUTH_API_URLS: apiUrls, ...rest } = GOOD
    const wrong = { ...rest, MERCHANT_AUTH_SECRET: SECRET, MERCHANT_AUTH_API_URL: apiUrls }
    expect(reasonsOf(wrong)).toEqual([
      expect.stringMatching(/^is not set.*, but MERCHANT_AUTH_SECRET is: check its spelling$/),
      'is not set, but MERCHANT_AUTH_API_URL is: check its spelling',
    ])
  })

  it('points out a byte order mark that belongs to the name of a variable', () => {
    const { MERCHANT_AUTH_URL, MERCHANT_AUTH_CLIENT_SECRET, ...rest } = GOOD
    const mark = 'begins with a byte order mark: save the .env file as UTF-8 without one'
    for (const name of ['\uFEFFMERCHANT_AUTH_URL', '\uFEFFexport MERCHANT_AUTH_URL']) {
      const variables = { ...rest, MERCHANT_AUTH_CLIENT_SECRET, [name]: MERCHANT_AUTH_URL }
      expect(reasonsOf(variables)).toEqual([`is not set, but a variable is whose name ${mark}`])
    }
    expect(reasonsOf({ ...rest, MERCHANT_AUTH_URL, '\uFEFFMERCHANT_AUTH_CLIENT_SECRET': SECRET })).toEqual([
      expect.stringContaining(mark),
    ])
  })

  it('says how a URL begins', () => {
    expect(reasonsOf({ ...GOOD, MERCHANT_AUTH_URL: 'auth.example' })).toEqual([
      'must be an absolute URL, which begins with https://',
    ])
  })

  it('asks for the .env file if no variable is set', () => {
    expect(() => optionsFromEnv({})).toThrow(/none is set: .*--env-file=\.env/)
    expect(() => optionsFromEnv({ MERCHANT_AUTH_CLIENT_ID: 'a' })).not.toThrow(/none is set/)
  })

  it('treats an empty variable as unset', () => {
    const env = { ...GOOD, MERCHANT_AUTH_TIMEOUT_MS: '', MERCHANT_AUTH_CLIENT_SECRET_FILE: '' }
    expect(optionsFromEnv(env)).not.toHaveProperty('timeoutMs')
    expect(kindsOf({ ...GOOD, MERCHANT_AUTH_CLIENT_ID: ' ' })).toEqual([
      ['MERCHANT_AUTH_CLIENT_ID', 'missing'],
    ])
  })

  it('rejects a second secret, and a secret file that is missing, empty or in UTF-16', async () => {
    const { MERCHANT_AUTH_CLIENT_SECRET: _, ...rest } = GOOD
    const file = join(folder, 'secret')
    const option = 'MERCHANT_AUTH_CLIENT_SECRET_FILE'
    const withFile = () => problemsIn(() => optionsFromEnv({ ...rest, [option]: file }))
    const unusable = (reason: string) => [
      { option, kind: 'unavailable', reason: expect.stringContaining(reason) },
    ]
    expect(withFile()).toEqual(unusable('cannot be read (ENOENT)'))
    await writeFile(file, '\n')
    expect(withFile()).toEqual(unusable('empty'))
    for (const text of ['\uFEFFsecret\r\n', 'secret']) {
      await writeFile(file, text, 'utf16le')
      expect(withFile()).toEqual(unusable('UTF-16'))
    }
    await writeFile(file, 'x')
    expect(kindsOf({ ...GOOD, [option]: file })).toEqual([[option, 'conflict']])
  })

  it.each(['\n', '\r\n', '\r', '\n\n'])('reads a secret without %j at its end', async (end) => {
    const secretOf = async (more: Variables) => {
      const { clientSecret } = optionsFromEnv({ ...GOOD, MERCHANT_AUTH_CLIENT_SECRET: undefined, ...more })
      return await (clientSecret as () => string | Promise<string>)()
    }
    const file = join(folder, 'secret')
    await writeFile(file, ` ${SECRET} ${end}`)
    expect(await secretOf({ MERCHANT_AUTH_CLIENT_SECRET: ` ${SECRET} ${end}` })).toBe(` ${SECRET} `)
    expect(await secretOf({ MERCHANT_AUTH_CLIENT_SECRET_FILE: `${file}${end}` })).toBe(` ${SECRET} `)
  })

  it('reads its variables by their names where listing is refused, as by Deno with --allow-env=NAMES', () => {
    const refuse = (): never => {
      throw new Error('Requires env access')
    }
    const listed = { ownKeys: refuse, getOwnPropertyDescriptor: refuse }
    expect(optionsFromEnv(new Proxy(GOOD, listed)).clientId).toBe('client-1')
    const { MERCHANT_AUTH_URL: _, ...rest } = GOOD
    expect(kindsOf(new Proxy(rest, listed))).toEqual([['MERCHANT_AUTH_URL', 'missing']])
  })

  it('reads variables of any case where the system ignores it, as Windows does', () => {
    const set = Object.entries(GOOD).map(([name, value]) => [name.toLowerCase(), value] as const)
    const env = new Proxy<Variables>(Object.fromEntries(set), {
      get: (target, name) => target[String(name).toLowerCase()],
    })
    expect(optionsFromEnv(env).clientId).toBe('client-1')
    expect(kindsOf(Object.fromEntries(set))).toContainEqual(['MERCHANT_AUTH_URL', 'missing'])
  })

  it('reads variables that an object inherits', () => {
    const env = Object.assign(Object.create(GOOD), { MERCHANT_AUTH_CLIENT_ID: 'client-2' }) as Variables
    expect(optionsFromEnv(env)).toMatchObject({
      clientId: 'client-2',
      environment: { audience: GOOD.MERCHANT_AUTH_AUDIENCE },
    })
  })

  it('does not take the variables of a Service of Kubernetes for misspelled ones', () => {
    const { MERCHANT_AUTH_URL: _, ...rest } = GOOD
    const ofKubernetes = { MERCHANT_AUTH_PORT: 'tcp://10.0.0.7:80', MERCHANT_AUTH_SERVICE_HOST: '10.0.0.7' }
    expect(reasonsOf({ ...rest, ...ofKubernetes })).toEqual(['is not set'])
  })

  describe.each(['MERCHANT_AUTH_CLIENT_SECRET_FILE', 'MERCHANT_AUTH_CLIENT_ASSERTION_FILE'])(
    '%s',
    (option) => {
      const problemsWith = (path: string) => {
        const { MERCHANT_AUTH_CLIENT_SECRET: _, ...rest } = GOOD
        return problemsIn(() => optionsFromEnv({ ...rest, [option]: path }))
      }

      it.each(UNUSABLE_PATHS)('is rejected if its value is %s', (path) => {
        expect(problemsWith(path)).toEqual([{ option, kind: 'invalid', reason: expect.any(String) }])
      })

      it('is a path, or a file URL', async () => {
        const file = join(folder, 'a secret$ 100%')
        await writeFile(file, SECRET)
        for (const path of [file, ` ${file}\n`, pathToFileURL(file).href])
          expect(problemsWith(path)).toEqual([])
      })

      it('is shown if the file cannot be read, unless it may be the secret itself', () => {
        const reasonFor = (path: string) => problemsWith(path)[0]?.reason
        const missing = join(folder, 'none', 'secret')
        expect(reasonFor(missing)).toBe(`names the file ${missing}, which cannot be read (ENOENT)`)
        expect(reasonFor('./no-such-file')).toBe(
          'names the file ./no-such-file, which cannot be read (ENOENT)',
        )
        for (const secret of ['/Sw0rdf1sh+of/base64==', 'Sw0rdf1sh/of/base64==', '/Sw0rdf1sh', 'Sw0rdf1sh'])
          expect(reasonFor(secret)).toBe('names a file that cannot be read (ENOENT)')
      })
    },
  )

  it('reads the assertion file again each time', async () => {
    const { MERCHANT_AUTH_CLIENT_SECRET: _, ...rest } = GOOD
    const file = join(folder, 'assertion')
    await writeFile(file, 'one.two.three\n')
    const options = optionsFromEnv({ ...rest, MERCHANT_AUTH_CLIENT_ASSERTION_FILE: file })
    const endpoint = { url: 'https://auth.example/oauth/token', clientId: 'client-1' }
    expect(await options.clientAssertion?.(endpoint)).toBe('one.two.three')
    await writeFile(file, 'four.five.six')
    expect(await options.clientAssertion?.(endpoint)).toBe('four.five.six')
  })

  it('reads additional token request fields, and rejects invalid ones', () => {
    const parametersOf = (text: string) =>
      optionsFromEnv({ ...GOOD, MERCHANT_AUTH_TOKEN_PARAMETERS: text }).tokenParameters
    expect(parametersOf(' , organization=org_1, resource = a=b,,empty=,')).toEqual({
      organization: 'org_1',
      resource: 'a=b',
      empty: '',
    })
    expect(parametersOf('organization=org_1\r\nlabel=two words\n')).toEqual({
      organization: 'org_1',
      label: 'two words',
    })
    const problemOf = (text: string) => kindsOf({ ...GOOD, MERCHANT_AUTH_TOKEN_PARAMETERS: text })[0]?.[0]
    for (const text of ['organization', '=x', 'organization=org_1,organization=org_2'])
      expect(problemOf(text)).toBe('MERCHANT_AUTH_TOKEN_PARAMETERS')
    expect(problemOf('audience=x')).toBe('MERCHANT_AUTH_TOKEN_PARAMETERS.audience')
  })

  it('returns options whose log output does not contain the secret', () => {
    const options = optionsFromEnv(GOOD)
    expect(inspect(options, { depth: 9 }) + JSON.stringify(options)).not.toContain(SECRET)
  })

  it('reads the secret file again before each token request, without byte order mark and line break', async () => {
    const file = join(folder, 'secret')
    await using sandbox = await startSandbox()
    const { environment, clientId, clientSecret } = sandbox.test
    await writeFile(file, `\uFEFF${clientSecret}\n`)
    const options = optionsFromEnv({
      MERCHANT_AUTH_URL: `${environment.authUrl}/oauth/token`,
      MERCHANT_AUTH_AUDIENCE: environment.audience,
      MERCHANT_AUTH_API_URLS: Object.values(environment.apiUrls).join(),
      MERCHANT_AUTH_CLIENT_ID: clientId,
      MERCHANT_AUTH_CLIENT_SECRET_FILE: file,
    })
    await using tokens = createTokenProvider(options)
    const first = await tokens.getToken()
    sandbox.test.acceptSecrets('the next one')
    await writeFile(file, 'the next one\r\n')
    expect((await tokens.renewToken(first))?.value).toMatch(/./)

    await writeFile(file, '')
    await using other = createTokenProvider({ ...options, retries: 0 })
    await expect(other.getToken()).rejects.toMatchObject({ code: 'ERR_CLIENT_SECRET' })
    await rm(file)
    await using another = createTokenProvider({ ...options, retries: 0 })
    await expect(another.getToken()).rejects.toMatchObject({
      code: 'ERR_CLIENT_SECRET',
      message: expect.stringMatching(
        /threw \(MERCHANT_AUTH_CLIENT_SECRET_FILE names the file .*ENOENT\)\), so/,
      ),
      cause: {
        message: `MERCHANT_AUTH_CLIENT_SECRET_FILE names the file ${file}, which cannot be read (ENOENT)`,
      },
    })
  })
})

describe('MERCHANT_AUTH_STORE', () => {
  const storeOf = (MERCHANT_AUTH_STORE: string) => optionsFromEnv({ ...GOOD, MERCHANT_AUTH_STORE }).store
  afterEach(() => void vi.restoreAllMocks())

  it.each<[kind: string, textFor: (directory: string) => string]>([
    ['a path', (directory) => directory],
    ['a relative path', () => ' ./tokens '],
    ['a relative path that begins with a name', () => 'tokens/'],
    ['a relative path after file:', () => 'file:./tokens'],
    ['a file URL', (directory) => pathToFileURL(directory).href],
  ])('is a directory, which is created: %s', async (_, textFor) => {
    const directory = join(folder, 'tokens')
    vi.spyOn(process, 'cwd').mockReturnValue(folder)
    const store = storeOf(textFor(directory))
    expect(await readdir(directory)).toEqual(['.gitignore'])
    vi.restoreAllMocks() // the working directory may change
    await store?.set('key', 'value', 60_000)
    expect(await readdir(directory)).toHaveLength(3)
    expect(await store?.get('key')).toMatchObject({ value: 'value' })
    const release = await store?.lease?.('key', 60_000)
    expect(await store?.lease?.('key', 60_000)).toBeUndefined()
    await release?.()
    expect(await store?.lease?.('key', 60_000)).toBeTypeOf('function')
  })

  it('shares the token between the providers of two processes', async () => {
    await using sandbox = await startSandbox()
    const variables = { ...sandbox.test.variables, MERCHANT_AUTH_STORE: join(folder, 'tokens') }
    await using first = createTokenProvider(optionsFromEnv(variables))
    const { value } = await first.getToken()
    await first.close() // it has written the token then
    await using second = createTokenProvider(optionsFromEnv(variables))
    expect((await second.getToken()).value).toBe(value)
    expect(sandbox.test.counts.token).toBe(1)
  })

  it.each([
    ...UNUSABLE_PATHS,
    'http://redis:6379',
    'localhost:6379',
    '127.0.0.1:6379',
    'redis:localhost',
    'redis://localhost/one',
    'REDIS_URL',
    'redis',
    'none',
    'false',
    'tokens',
  ])('is rejected if it is %s', async (MERCHANT_AUTH_STORE) => {
    vi.spyOn(process, 'cwd').mockReturnValue(folder)
    expect(kindsOf({ ...GOOD, MERCHANT_AUTH_STORE })).toEqual([['MERCHANT_AUTH_STORE', 'invalid']])
    expect(await readdir(folder)).toEqual([])
  })

  it.each(['pa/ss', 'pa#ss', 'pa?ss', '12#ss', '12/3?4', 'pa%ss', '100%', '%', '%E9'])(
    'is rejected if the password in the URL of Redis is %s, which is not percent-encoded',
    (password) => {
      for (const user of ['', 'user']) {
        const MERCHANT_AUTH_STORE = `rediss://${user}:${password}@redis.example:6379/0`
        const problems = problemsIn(() => optionsFromEnv({ ...GOOD, MERCHANT_AUTH_STORE }))
        expect(problems).toEqual([
          {
            option: 'MERCHANT_AUTH_STORE',
            kind: 'invalid',
            reason: expect.stringMatching(
              /^must be a URL whose user name and password are percent-encoded: /,
            ),
          },
        ])
        expect(JSON.stringify(problems)).not.toContain(`:${password}@`)
      }
      const encoded = `redis://:${encodeURIComponent(password)}@redis.example:6379`
      expect(kindsOf({ ...GOOD, MERCHANT_AUTH_STORE: encoded })).toEqual([])
    },
  )

  it.skipIf(isWindows)(
    'is rejected if others can write the directory, with all other problems (Windows has no modes)',
    async () => {
      await chmod(folder, 0o770)
      const variables = { ...GOOD, MERCHANT_AUTH_CLIENT_ID: '', MERCHANT_AUTH_STORE: folder }
      expect(problemsIn(() => optionsFromEnv(variables))).toMatchObject([
        {
          option: 'MERCHANT_AUTH_STORE',
          kind: 'insecure',
          reason: expect.stringContaining(
            `is ${folder}, and must be a directory that only its owner can write`,
          ),
        },
        { option: 'MERCHANT_AUTH_CLIENT_ID' },
      ])
    },
  )

  /** The token comes without the store, and these are the codes of the store's failures. */
  const codesOf = async (MERCHANT_AUTH_STORE: string) => {
    await using sandbox = await startSandbox()
    const codes: (string | undefined)[] = []
    const onEvent = (event: AuthEvent): void => void (event.type === 'store-failed' && codes.push(event.code))
    const options = optionsFromEnv({ ...sandbox.test.variables, MERCHANT_AUTH_STORE })
    await using tokens = createTokenProvider({ ...options, onEvent })
    expect((await tokens.getToken()).value).toMatch(/./)
    return codes
  }

  it('fails no call if the directory cannot be created', async () => {
    const file = join(folder, 'file')
    await writeFile(file, '')
    expect(await codesOf(join(file, 'tokens'))).toContain(NOT_A_DIRECTORY)
  })

  it.each(['redis://localhost:6379', 'rediss://user:word@redis.example:6380/1?family=6'])(
    'is the URL of a Redis, whose store fails until the service passes its own: %s',
    async (url) => {
      expect(new Set(await codesOf(url))).toEqual(new Set(['NO_REDIS_CLIENT']))
      await expect(storeOf(url)?.get('key')).rejects.toThrow('pass store: createRedisTokenStore(client)')
      await expect(storeOf(url)?.set('key', 'value', 1)).rejects.toThrow()
      const options = optionsFromEnv({ ...GOOD, MERCHANT_AUTH_STORE: url })
      expect(inspect(options, { depth: 9 }) + JSON.stringify(options)).not.toContain('word')
    },
  )

  it('needs encryptionKeys with an assertion', async () => {
    const { MERCHANT_AUTH_CLIENT_SECRET: _, ...rest } = GOOD
    const file = join(folder, 'assertion')
    await writeFile(file, 'one.two.three')
    const variables = {
      MERCHANT_AUTH_CLIENT_ASSERTION_FILE: file,
      MERCHANT_AUTH_STORE: join(folder, 'tokens'),
    }
    const options = optionsFromEnv({ ...rest, ...variables })
    expect(kinds(() => createTokenProvider(options))).toEqual([['encryptionKeys', 'missing']])
    await createTokenProvider({ ...options, encryptionKeys: ['k'.repeat(32)] }).close()
  })
})
