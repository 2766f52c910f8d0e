// The step `store` of `check`: which store it is, whether it can be written, and what it holds for the client.
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { isOfKind } from '../support/failures.ts'
import { isWindows } from '../support/platform.ts'
import { noteSecret } from '../support/recorded.ts'
import { type RedisServer, redisMissing, startRedis } from '../support/redis-server.ts'
import { listening } from '../testing/calls.ts'
import { assertionsFor, check, eachWithSandbox, folder, run, type Variables } from './rig.ts'

const at = eachWithSandbox()

/** Runs `check` with a store. The rest passes, whatever becomes of the store. */
async function checked(store: string, changed: Variables = {}) {
  const { code, steps } = await check(at, ['--store', store], changed)
  expect(code).toBe(0)
  return steps.filter(({ step }) => step === 'store')
}

/** Puts a token into the store, with the command `token`. */
async function fill(store: string): Promise<string> {
  const { code, stdout } = await run(['token', '--store', store], at.variables)
  expect(code).toBe(0)
  return stdout.trim()
}

const pathsIn = (directory: string, extension: string) =>
  readdirSync(directory)
    .filter((name) => name.endsWith(extension))
    .map((name) => join(directory, name))

function beUser(id: number): void {
  const user = vi.spyOn(process, 'getuid').mockReturnValue(id)
  onTestFinished(() => user.mockRestore())
}

const HOLDS_NONE = 'it holds no token for this client and this client secret'

describe('check without a store', () => {
  it('reports nothing about it', async () => {
    const { steps } = await check(at)
    expect(steps.map(({ step }) => step)).not.toContain('store')
    expect(await checked('', { MERCHANT_AUTH_STORE: folder() })).toEqual([])
  })
})

describe('check with a directory', () => {
  it('reports that it can be written and is empty, requests a token, and does not store it', async () => {
    const directory = folder()
    for (const _ of [1, 2])
      expect(await checked(directory)).toEqual([
        {
          step: 'store',
          result: 'ok',
          text: `the directory ${directory} can be written\n${HOLDS_NONE}`,
          data: { kind: 'directory', place: directory, writable: true, token: null },
        },
      ])
    expect(at.test.counts.token).toBe(2)
    expect(pathsIn(directory, '.entry')).toHaveLength(1) // that of the check itself
  })

  it('says on Windows that it is outside of the user’s profile, where others may write', async () => {
    const { platform } = process
    onTestFinished(() => {
      Object.defineProperty(process, 'platform', { value: platform })
      vi.unstubAllEnvs()
    })
    const directory = folder()
    const profile = (path: string) => {
      for (const name of ['HOME', 'USERPROFILE']) vi.stubEnv(name, path)
    }
    Object.defineProperty(process, 'platform', { value: 'win32' })
    profile(join(directory, 'profile'))
    expect(await checked(directory)).toMatchObject([
      { result: 'info', advice: expect.toSatisfy(isOfKind('outside-profile')) },
    ])
    profile(dirname(directory))
    expect(await checked(directory)).toMatchObject([{ result: 'ok' }])
  })

  it('reports how long its token is valid, and does not show or renew it', async () => {
    const directory = folder()
    const token = await fill(directory)
    const before = pathsIn(directory, '.entry').map((path) => readFileSync(path, 'utf8'))
    at.test.configure({ lifetimeSeconds: 60 })
    const found = await checked(directory, { MERCHANT_AUTH_STORE: 'redis://127.0.0.1:1' })
    expect(found).toMatchObject([
      { result: 'ok', data: { token: { remainsMs: expect.any(Number), expiresAt: expect.any(Number) } } },
    ])
    const [{ text = '', data = {} } = {}] = found
    expect(text).toMatch(
      /^the directory \S+ can be written\nits token for this client is valid for 3[56]\d\d s, until 20\S+Z$/,
    )
    const { remainsMs } = data['token'] as { remainsMs: number }
    expect(remainsMs).toBeGreaterThan(3_500_000)
    expect(remainsMs).toBeLessThanOrEqual(3_600_000)
    expect(JSON.stringify(found)).not.toContain(token)
    const after = pathsIn(directory, '.entry').map((path) => readFileSync(path, 'utf8'))
    expect(after).toEqual(expect.arrayContaining(before))
  })

  it('finds no token of another secret or another client', async () => {
    noteSecret('the next secret')
    const directory = folder()
    await fill(directory)
    at.test.acceptSecrets('the next secret')
    const [found] = await checked(directory, { MERCHANT_AUTH_CLIENT_SECRET: 'the next secret' })
    expect(found?.text).toContain(HOLDS_NONE)
  })

  it.each([
    ['is damaged', () => '{'],
    ['was written by another program', (entry: object) => JSON.stringify({ ...entry, value: 'a.b.c.d.e' })],
  ])('warns about an entry that %s', async (_, contentOf) => {
    const directory = folder()
    await fill(directory)
    for (const path of pathsIn(directory, '.entry'))
      writeFileSync(path, contentOf(JSON.parse(readFileSync(path, 'utf8'))))
    expect(await checked(directory)).toMatchObject([
      {
        result: 'warning',
        text: `the directory ${directory} can be written\nits entry for this client cannot be decrypted`,
        advice: expect.toSatisfy(isOfKind('damaged-entry')),
        data: { writable: true },
      },
    ])
  })

  it.skipIf(process.getuid?.() !== 0)('writes no entry and no lease into one of another user', async () => {
    const directory = folder()
    chownSync(directory, 65_534, 65_534)
    expect(await checked(directory)).toMatchObject([
      {
        result: 'warning',
        text: `the directory ${directory} belongs to another user, so it was not tried`,
        advice: expect.toSatisfy(isOfKind('not-this-user')),
        data: { kind: 'directory', place: directory }, // not known
      },
    ])
    expect(readdirSync(directory)).toEqual([])
  })

  it('creates none, and reports that the service will', async () => {
    if (!isWindows) beUser(1_000)
    const directory = join(folder(), 'var', 'tokens')
    expect(await checked(directory)).toEqual([
      {
        step: 'store',
        result: 'ok',
        text: `the directory ${directory} does not exist yet: the first process that needs a token creates it`,
        data: { kind: 'directory', place: directory, writable: true, token: null },
      },
    ])
    expect(existsSync(join(directory, '..'))).toBe(false)
  })

  it.skipIf(isWindows)('creates none for root, who may not run the service (Windows has none)', async () => {
    beUser(0)
    const directory = join(folder(), 'tokens')
    expect(await checked(directory)).toMatchObject([
      {
        result: 'info',
        advice: expect.toSatisfy(isOfKind('not-this-user')),
        data: { kind: 'directory', place: directory, token: null }, // whether it is writable is not known
      },
    ])
    expect(existsSync(directory)).toBe(false)
  })

  it('warns about one that cannot be created', async () => {
    const file = join(folder(), 'file')
    writeFileSync(file, '')
    expect(await checked(join(file, 'tokens'))).toMatchObject([
      {
        result: 'warning',
        text: expect.stringContaining(`the directory ${join(file, 'tokens')} cannot be created (ENOTDIR)\n`),
        advice: expect.toSatisfy(isOfKind('no-directory')),
        cause: 'ENOTDIR',
        data: { writable: false },
      },
    ])
  })

  it.skipIf(isWindows || process.getuid?.() === 0)(
    'warns about one that this user may not create (Windows has no modes)',
    async () => {
      const parent = folder()
      chmodSync(parent, 0o500)
      expect(await checked(join(parent, 'tokens'))).toMatchObject([
        { result: 'warning', text: expect.stringContaining('cannot be created (EACCES)') },
      ])
      chmodSync(parent, 0o700)
    },
  )

  it('warns about one in which an entry cannot be written', async () => {
    const directory = folder()
    await checked(directory)
    for (const path of pathsIn(directory, '.entry')) {
      rmSync(path)
      mkdirSync(join(path, 'not empty'), { recursive: true })
    }
    expect(await checked(directory)).toMatchObject([
      { result: 'warning', text: expect.stringMatching(/cannot be written \([A-Z]+\)$/m) },
    ])
  })

  it('leaves nothing that grows, and no lease that blocks', async () => {
    const directory = folder()
    for (const _ of [1, 2, 3]) await checked(directory)
    expect(readdirSync(directory)).toHaveLength(3) // .gitignore, an entry and a folder
    const leases = pathsIn(pathsIn(directory, '.lock')[0] ?? '', '.lease')
    expect(leases).toHaveLength(1)
    for (const path of leases) expect(readFileSync(path, 'utf8')).toMatch(/^released/)
  })

  it.skipIf(isWindows)('rejects one that others can write (Windows has no modes)', async () => {
    const directory = folder()
    chmodSync(directory, 0o777)
    const { code, last } = await check(at, [], { MERCHANT_AUTH_STORE: directory })
    expect(code).toBe(3)
    expect(last).toMatchObject({
      step: 'options',
      text: expect.stringMatching(
        /^MERCHANT_AUTH_STORE \(--store\): is \/.*, and must be .* only its owner can write/,
      ),
    })
    expect(at.test.counts.token).toBe(0)
  })

  it('needs a client secret', async () => {
    const sign = await assertionsFor(at)
    const file = join(folder(), 'assertion')
    writeFileSync(file, await sign())
    const args = ['check', '--client-assertion-file', file]
    const variables = { ...at.variables, MERCHANT_AUTH_STORE: folder() }
    expect(await run(args, variables)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('A store needs a client secret'),
    })
    expect(at.test.counts.token).toBe(0)
    expect(await run([...args, '--store', ''], variables)).toMatchObject({ code: 0 })
  })
})

describe('check with a Redis', () => {
  const CLOSED = 'redis://user:redis%20horse@127.0.0.1:1/0?family=4'

  it('warns that it cannot be reached, without its password', async () => {
    noteSecret('redis horse')
    expect(await checked(CLOSED)).toEqual([
      {
        step: 'store',
        result: 'warning',
        text: expect.stringMatching(/^redis:\/\/127\.0\.0\.1:1\/0 cannot be used \(ECONNREFUSED\)$/m),
        advice: expect.toSatisfy(isOfKind('no-redis')),
        cause: 'ECONNREFUSED',
        data: { kind: 'redis', place: 'redis://127.0.0.1:1/0', writable: false },
      },
    ])
  })

  it('warns about a cluster, which services can use', async () => {
    const server = createServer((socket) => {
      socket.on('data', (data) => {
        for (const [, name = ''] of String(data).matchAll(/^\*\d+\r\n\$\d+\r\n(\w+)/gm))
          socket.write(/^(?:eval|get)/i.test(name) ? '-MOVED 1 127.0.0.1:1\r\n' : '+OK\r\n')
      })
    })
    expect(await checked(`redis://127.0.0.1:${await listening(server)}`)).toMatchObject([
      { result: 'warning', cause: 'MOVED', advice: expect.toSatisfy(isOfKind('cluster')) },
    ])
  })

  it('warns if no client is installed', async () => {
    for (const name of ['redis', 'ioredis']) {
      vi.doMock(name, () => {
        throw new Error('Cannot find package')
      })
      onTestFinished(() => void vi.doUnmock(name))
    }
    expect(await checked(CLOSED)).toMatchObject([
      {
        result: 'warning',
        text: 'redis://127.0.0.1:1/0 cannot be checked: it needs a client',
        advice: 'npm install redis',
      },
    ])
  })

  describe.skipIf(redisMissing() !== undefined)('that runs', () => {
    let redis: RedisServer
    beforeAll(async () => {
      redis = await startRedis()
    })
    afterAll(() => redis[Symbol.asyncDispose]())

    it('works with the oldest node-redis, too', async () => {
      vi.doMock('redis', () => import('redis-4'))
      onTestFinished(() => void vi.doUnmock('redis'))
      expect(await checked(redis.url)).toMatchObject([{ result: 'ok' }])
    })

    it('reports what it holds', async () => {
      expect((await checked(redis.url))[0]?.text).toBe(`${redis.url} can be written\n${HOLDS_NONE}`)
      await fill(redis.url)
      const [found] = await checked(redis.url)
      expect(found).toMatchObject({ result: 'ok', data: { kind: 'redis', writable: true } })
      expect(found?.text).toContain('its token for this client is valid for 3')
    })

    it('warns if its user may not write', async () => {
      await redis.command('acl', 'setuser', 'reader', 'on', '>right', '~*', '+@all', '-set')
      const url = redis.url.replace('redis://', 'redis://reader:right@')
      expect(await checked(url)).toMatchObject([
        {
          result: 'warning',
          text: expect.stringMatching(/^redis:\/\/127\S+ cannot be written \([A-Z]+\)$/m),
        },
      ])
    })
  })
})
