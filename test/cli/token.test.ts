// `token` prints the token, or nothing, on stdout, and shares it in a store.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { optionsFromEnv } from 'merchant-auth'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { kindsIn } from '../support/failures.ts'
import { NOT_A_DIRECTORY } from '../support/platform.ts'
import { problemsIn } from '../support/problems.ts'
import { noteSecret } from '../support/recorded.ts'
import { type RedisServer, redisMissing, startRedis } from '../support/redis-server.ts'
import { eachWithSandbox, folder, run, type Variables } from './rig.ts'

const at = eachWithSandbox()

const token = (args: readonly string[] = [], changed: Variables = {}) =>
  run(['token', ...args], { ...at.variables, ...changed })

/** The status that an API returns for a header line. */
async function statusFor(line: string): Promise<number> {
  const [, name = '', value = ''] = /^([^:]+): (.*)$/.exec(line) ?? []
  return (await fetch(`${at.test.merchantUrl}/orders`, { headers: { [name]: value } })).status
}

describe('token', () => {
  it('prints a token that the APIs accept, and a line break', async () => {
    const { code, stdout, stderr } = await token()
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/^[\w.-]+\n$/)
    expect(await statusFor(`Authorization: Bearer ${stdout.trim()}`)).toBe(200)
    expect(at.test.counts.token).toBe(1)
  })

  it('prints a header line that the APIs accept', async () => {
    const { stdout } = await token(['--header'])
    expect(stdout).toMatch(/^Authorization: Bearer [\w.-]+\n$/)
    expect(await statusFor(stdout.trim())).toBe(200)

    at.test.configure({ header: 'X-Token', scheme: '' })
    const own = await token(['--header-name', 'X-Token', '--scheme', ''])
    expect(own.stdout).toMatch(/^X-Token: [\w.-]+\n$/)
    expect(await statusFor(own.stdout.trim())).toBe(200)
  })

  it('prints JSON with the time of expiry', async () => {
    at.test.configure({ lifetimeSeconds: 600 })
    const before = Date.now()
    const { stdout } = await token(['--json'])
    const { accessToken, expiresAt, ...rest } = JSON.parse(stdout)
    expect(await statusFor(`Authorization: Bearer ${accessToken}`)).toBe(200)
    expect(expiresAt).toBeGreaterThanOrEqual(before + 600_000)
    expect(expiresAt).toBeLessThanOrEqual(Date.now() + 600_000)
    expect(rest).toEqual({ tokenType: 'Bearer', scope: 'merchant', expiresInSeconds: expect.any(Number) })
    expect(rest.expiresInSeconds).toBeGreaterThan(580)
    expect(rest.expiresInSeconds).toBeLessThanOrEqual(600)
    const help = await run(['token', '--help'])
    expect(help.stdout.replace(/\s+/g, ' ')).toContain('expiresAt (ms since 1970), expiresInSeconds')
  })

  it.each([
    ['CLIENT_SECRET', 'wrong horse', 5, / returned 401, invalid_client/],
    ['URL', 'https://auth.invalid', 4, /cannot resolve auth\.invalid/],
    ['URL', '', 3, /MERCHANT_AUTH_URL \(--auth-url\): is not set/],
    ['STORE', 'http://a', 3, /MERCHANT_AUTH_STORE \(--store\): must be/],
  ])('prints nothing on stdout if %s is %j', async (name, value, code, expected) => {
    noteSecret('wrong horse')
    const outcome = await token(['--timeout-ms', '60000'], { [`MERCHANT_AUTH_${name}`]: value })
    expect(outcome).toMatchObject({ code, stdout: '' })
    expect(outcome.stderr).toMatch(expected)
    expect(outcome.stderr).toMatch(/^merchant-auth: .*\n(?: {2}→ .*\n)?$/)
  })

  it.each(['50%off-12345', '100%', '%E9t%E9'])(
    'says as the service does that a %% in a password of Redis is %%25: %s',
    async (password) => {
      noteSecret(password)
      const MERCHANT_AUTH_STORE = `redis://:${password}@host`
      const { code, stderr } = await token([], { MERCHANT_AUTH_STORE })
      expect(code).toBe(3)
      const [problem] = problemsIn(() => optionsFromEnv({ ...at.variables, MERCHANT_AUTH_STORE }))
      expect(problem?.reason).toContain('% as %25')
      expect(stderr).toContain(problem?.reason)
    },
  )

  it('sends a form with --body-format form', async () => {
    expect(await token(['--body-format', 'form'])).toMatchObject({ code: 0 })
    expect(at.test.requests('token')[0]?.headers['content-type']).toMatch(
      /^application\/x-www-form-urlencoded/,
    )
  })
})

describe('token --store', () => {
  it('shares the token in a directory, encrypted', async () => {
    const directory = join(folder(), 'tokens')
    const first = await token(['--store', directory])
    expect(first).toMatchObject({ code: 0, stderr: '' })
    expect(await token([], { MERCHANT_AUTH_STORE: `file:${directory}` })).toEqual(first)
    expect(at.test.counts.token).toBe(1)
    const entries = readdirSync(directory).filter((name) => name.endsWith('.entry'))
    expect(entries).not.toEqual([])
    const files = entries.map((name) => readFileSync(join(directory, name), 'utf8'))
    expect(files.join()).not.toContain(first.stdout.trim())
  })

  it('replaces the token in the directory with --refresh', async () => {
    const store = ['--store', join(folder(), 'tokens')]
    const first = await token(store)
    const second = await token([...store, '--refresh'])
    expect(second).toMatchObject({ code: 0, stderr: '' })
    expect(second.stdout).not.toBe(first.stdout)
    expect(await token(store)).toEqual(second)
    expect(at.test.counts.token).toBe(2)
  })

  it('warns that --refresh without a store replaces nothing', async () => {
    expect(await token(['--refresh'])).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('no store is set'),
    })
  })

  it('leaves the token in the directory if --refresh gets no other one', async () => {
    const store = ['--store', join(folder(), 'tokens')]
    const first = await token(store)
    at.test.fail('token', { kind: 'status', status: 400 })
    expect(await token([...store, '--refresh'])).toMatchObject({ code: 5, stdout: '' })
    expect(await token(store)).toEqual(first)
  })

  it('says by its exit code that --refresh could not replace the token in the store', async () => {
    const file = join(folder(), 'file')
    writeFileSync(file, '')
    const { code, stdout, stderr } = await token(['--store', join(file, 'tokens'), '--refresh'])
    expect(code).toBe(8)
    expect(stdout).toMatch(/^[\w.-]+\n$/)
    const [line, advice = ''] = stderr.split('\n')
    expect(line).toBe(
      `merchant-auth: the store failed (${NOT_A_DIRECTORY}); this token is not shared, and the store may still have the one before`,
    )
    expect(kindsIn(advice)).toEqual(['no-directory'])
  })

  it('shares a token in the place of a damaged entry, and reports nothing', async () => {
    const directory = join(folder(), 'tokens')
    const store = ['--store', directory]
    await token(store)
    const [entry = ''] = readdirSync(directory).filter((name) => name.endsWith('.entry'))
    writeFileSync(join(directory, entry), 'damaged')
    const second = await token(store)
    expect(second).toMatchObject({ code: 0, stderr: '' })
    expect(await token(store)).toEqual(second)
  })

  it('prints a token if the directory cannot be used, and reports that', async () => {
    const file = join(folder(), 'file')
    writeFileSync(file, '')
    const { code, stdout, stderr } = await token(['--store', join(file, 'tokens')])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^[\w.-]+\n$/)
    expect(stderr).toContain(
      `merchant-auth: the store failed (${NOT_A_DIRECTORY}); this token is not shared\n`,
    )
  })

  it('prints a token if Redis cannot be reached, and reports that without the password', async () => {
    noteSecret('redis horse')
    const url = 'redis://user:redis%20horse@127.0.0.1:1'
    const { code, stdout, stderr } = await token([], { MERCHANT_AUTH_STORE: url })
    expect(code).toBe(0)
    expect(stdout).toMatch(/^[\w.-]+\n$/)
    expect(stderr).toContain('merchant-auth: the store failed (ECONNREFUSED); this token is not shared\n')
    expect(stderr).not.toContain('horse')
  })

  describe.skipIf(redisMissing() !== undefined)('with a Redis', () => {
    let redis: RedisServer
    beforeAll(async () => {
      redis = await startRedis()
    })
    afterAll(() => redis[Symbol.asyncDispose]())

    it('requests one token in five runs, and stores it encrypted', async () => {
      const first = await token(['--store', redis.url])
      for (let times = 1; times < 5; times += 1) {
        expect(await token([], { MERCHANT_AUTH_STORE: redis.url })).toEqual(first)
      }
      expect(at.test.counts.token).toBe(1)
      const keys = (await redis.command('keys', '*')).split('\n')
      const values = await Promise.all(keys.map((key) => redis.command('get', key)))
      expect(values.join()).not.toContain(first.stdout.trim())
    })

    it('uses ioredis if redis is not installed', async () => {
      vi.doMock('redis', () => {
        throw new Error('Cannot find package')
      })
      onTestFinished(() => void vi.doUnmock('redis'))
      at.test.configure({ lifetimeSeconds: 600 })
      const first = await token(['--store', redis.url])
      expect(first).toMatchObject({ code: 0, stderr: '' })
      expect(await token(['--store', redis.url])).toEqual(first)
      expect(at.test.counts.token).toBe(1)
      const { code, stderr } = await token(['--store', 'redis://127.0.0.1:1'])
      expect(code).toBe(0)
      expect(stderr).toContain('(ECONNREFUSED)')
    })

    /** Lets an entry be so many seconds older, as far as Redis says. It lives for 6 h, longer than the token in it. */
    const age = async (seconds: number): Promise<void> => {
      for (const key of (await redis.command('keys', '*')).split('\n'))
        await redis.command('pexpire', key, String((6 * 3_600 - seconds) * 1_000))
    }

    it.each<[state: string, lifetime: number, remains: number, args: string[], requests: number]>([
      ['is valid for less than a minute', 600, 50, [], 2],
      ['is valid for a minute', 600, 70, [], 1],
      ['is valid for half of its short lifetime', 60, 35, [], 1],
      ['is valid for less than --min-validity', 600, 250, ['--min-validity', '299'], 2],
      ['is valid for --min-validity', 600, 15, ['--min-validity', '9'], 1],
    ])('renews a token from the store if it is due: it %s', async (_, lifetime, remains, more, requests) => {
      at.test.configure({ lifetimeSeconds: lifetime })
      const args = ['--store', redis.url, '--json', ...more]
      await token(args)
      await age(lifetime - remains)
      const { code, stdout } = await token(args)
      expect(code).toBe(0)
      expect(at.test.counts.token).toBe(requests)
      const least = requests === 2 ? lifetime - 30 : 0
      expect(JSON.parse(stdout).expiresInSeconds).toBeGreaterThan(least)
    })

    it('renews a token from the store as often as it is due', async () => {
      at.test.configure({ lifetimeSeconds: 600 })
      const printed = new Set<string>()
      for (let times = 0; times < 12; times += 1) {
        printed.add((await token(['--store', redis.url])).stdout)
        await age(550)
      }
      expect(printed.size).toBe(12)
      expect(at.test.counts.token).toBe(12)
    })

    it('replaces the token with --refresh', async () => {
      const first = await token(['--store', redis.url])
      const second = await token(['--store', redis.url, '--refresh'])
      expect(second).toMatchObject({ code: 0, stderr: '' })
      expect(second.stdout).not.toBe(first.stdout)
      expect(await token(['--store', redis.url])).toEqual(second)
    })

    it('prints a token from the store that cannot be renewed', async () => {
      at.test.configure({ lifetimeSeconds: 600 })
      const args = ['--store', redis.url]
      const first = await token(args)
      await age(550)
      at.test.fail('token', { kind: 'status', status: 400 })
      expect(await token(args)).toEqual(first)
      expect(at.test.counts.token).toBe(2)
    })

    it('reports only once that every operation of the store fails', async () => {
      await redis.command('acl', 'setuser', 'reader', 'on', '>right', '~*', '+@connection')
      const url = redis.url.replace('redis://', 'redis://reader:right@')
      expect(await token([], { MERCHANT_AUTH_STORE: url })).toMatchObject({
        code: 0,
        stderr: expect.stringMatching(/^merchant-auth: the store failed \(NOPERM\).*\n.*\n$/),
      })
    })
  })
})
