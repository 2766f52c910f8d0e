/** The packed tarball in an empty folder, as its users have it: what it holds, and that it works from ESM and CommonJS. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }

const root = fileURLToPath(new URL('../../', import.meta.url))
// The Node.js of this process comes first for npm, too, whatever the machine's own is.
const env = { ...process.env, PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH']}` }
const run = promisify(execFile)

async function output(folder: string, command: string, ...args: string[]): Promise<string> {
  const { stdout } = await run(command, args, { cwd: folder, env, timeout: 120_000 })
  return stdout
}

const install = (folder: string, ...packages: string[]): Promise<string> =>
  output(folder, 'npm', 'install', '--prefer-offline', '--no-audit', '--no-fund', ...packages)

const IMPORTS = {
  esm: `
    import { createAuthFetch, createTokenProvider } from 'merchant-auth'
    import { startSandbox } from 'merchant-auth/testing'
  `,
  commonjs: `
    const { createAuthFetch, createTokenProvider } = require('merchant-auth')
    const { startSandbox } = require('merchant-auth/testing')
  `,
}

const FETCH_CALL = `
  async function main() {
    const sandbox = await startSandbox()
    const { environment, clientId, clientSecret, merchantUrl } = sandbox.test
    const tokens = createTokenProvider({ environment, clientId, clientSecret })
    const response = await createAuthFetch(tokens)(merchantUrl + '/orders')
    const { path, jti } = await response.json()
    console.log(response.status, path, typeof jti, sandbox.test.counts.token)
    await tokens.close()
    await sandbox.close()
  }
  main()
`

const REDIS_IMPORT = {
  esm: "import { createRedisTokenStore } from 'merchant-auth/redis'",
  commonjs: "const { createRedisTokenStore } = require('merchant-auth/redis')",
}

/** Two processes share a token by a client that is no more than the shape of one. */
const REDIS_CALL = `
  const entries = new Map()
  const client = {
    isOpen: true,
    sendCommand() {},
    async eval(script, { keys: [key], arguments: args }) {
      if (script.includes("'NX'")) return 1 // the lease
      const value = args.find((arg) => arg.startsWith('ey'))
      if (value !== undefined) entries.set(key, value)
      return [entries.get(key) ?? null, 60_000]
    },
  }
  async function main() {
    const sandbox = await startSandbox()
    const { environment, clientId, clientSecret } = sandbox.test
    const values = []
    for (let time = 0; time < 2; time += 1) {
      const store = createRedisTokenStore(client)
      const tokens = createTokenProvider({ environment, clientId, clientSecret, store })
      values.push((await tokens.getToken()).value)
      await tokens.close()
    }
    const [key] = entries.keys()
    console.log(values[0] === values[1], sandbox.test.counts.token, key.startsWith('merchant-auth:{v1.token.'))
    await sandbox.close()
  }
  main()
`

/** What is loaded by a token request without a store, and then by one with it. */
const LOADED = (load: string) => `
  const loaded = []
  registerHooks({
    load(url, context, next) {
      loaded.push(url)
      return next(url, context)
    },
  })
  const ofStores = () => [
    loaded.some((url) => url.includes('/merchant-auth/dist/store/')),
    loaded.some((url) => url.includes('/node_modules/jose/')),
    loaded.includes('node:crypto'),
    loaded.some((url) => /\\/node_modules\\/(?:@?redis|ioredis|axios)\\//.test(url)),
  ]
  async function main() {
    const { createTokenProvider } = ${load}
    const environment = { authUrl: 'https://a.example', audience: 'b', apiUrls: ['https://c.example'] }
    const answer = { access_token: 'a.b.c', expires_in: 60, token_type: 'Bearer' }
    const options = { environment, clientId: 'id', clientSecret: 'swordfish', fetch: async () => Response.json(answer) }
    const alone = createTokenProvider(options)
    await alone.renewToken(await alone.getToken())
    console.log(loaded.some((url) => url.includes('/merchant-auth/dist/token/')), ...ofStores())
    const store = { get: async () => undefined, set: async () => {}, delete: async () => {} }
    const shared = createTokenProvider({ ...options, store })
    await shared.getToken()
    await shared.close()
    console.log(...ofStores())
  }
  main()
`
const LOADED_BY = {
  esm: `import { registerHooks } from 'node:module'\n${LOADED("await import('merchant-auth')")}`,
  commonjs: `const { registerHooks } = require('node:module')\n${LOADED("require('merchant-auth')")}`,
}

const AXIOS_IMPORTS = {
  esm: `
    import axios, { AxiosError } from 'axios'
    import { attachAuth } from 'merchant-auth/axios'
  `,
  commonjs: `
    const axios = require('axios')
    const { AxiosError } = axios
    const { attachAuth } = require('merchant-auth/axios')
  `,
}

const AXIOS_CALLS = `
  async function main() {
    const sandbox = await startSandbox()
    const { environment, clientId, clientSecret, merchantUrl } = sandbox.test
    const tokens = createTokenProvider({ environment, clientId, clientSecret })
    const api = axios.create({ baseURL: merchantUrl })
    attachAuth(api, tokens)
    console.log((await api.get('/orders')).status)
    sandbox.test.fail('merchant', { kind: 'status', status: 500 })
    const failed = await api.get('/orders').catch((error) => error)
    console.log(failed instanceof AxiosError, failed.response.status)
    sandbox.test.fail('merchant', { kind: 'hang' })
    const late = await api.get('/orders', { timeout: 50 }).catch((error) => error)
    console.log(late instanceof AxiosError, late.code)
    sandbox.test.configure({ tokenLatencyMs: 60_000, rejectAllTokens: true })
    const waiting = await api.get('/orders', { timeout: 200 }).catch((error) => error)
    console.log(waiting instanceof AxiosError, waiting.code)
    await tokens.close()
    await sandbox.close()
  }
  main()
`

const extensions = { esm: 'mjs', commonjs: 'cjs' } as const
const kinds = ['esm', 'commonjs'] as const

describe('the packed package', { timeout: 180_000 }, () => {
  let folder = ''
  let tarball = ''
  let packed: string[] = []

  beforeAll(async () => {
    expect(existsSync(join(root, 'dist/index.js')), 'dist is missing: npm run build makes it').toBe(true)
    folder = await mkdtemp(join(tmpdir(), 'merchant-auth-dist-'))
    // Without scripts: prepack would build anew, under the feet of tests that run at the same time.
    const told = await output(root, 'npm', 'pack', '--json', '--ignore-scripts', '--pack-destination', folder)
    const listed: unknown = JSON.parse(told)
    // npm 12 names each package, npm before lists them.
    const [first] = Object.values(listed as Record<string, { filename: string; files: { path: string }[] }>)
    tarball = join(folder, String(first?.filename))
    packed = first?.files.map(({ path }) => path) ?? []
    await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'caller', private: true }))
    await install(folder, tarball)
  }, 180_000)

  afterAll(() => rm(folder, { recursive: true, force: true }))

  const runCaller = async (name: string, kind: keyof typeof extensions, code: string): Promise<string> => {
    const file = join(folder, `${name}.${extensions[kind]}`)
    await writeFile(file, code)
    return await output(folder, process.execPath, file)
  }

  it('holds dist, package.json, README.md and LICENSE, and nothing else', () => {
    const tops = new Set(packed.map((path) => path.split('/')[0]))
    expect([...tops].sort()).toEqual(['LICENSE', 'README.md', 'dist', 'package.json'])
    expect(packed.filter((path) => path.startsWith('dist/') && !/\.(?:js|d\.ts)$/.test(path))).toEqual([])
  })

  it('holds what every entry of exports names', () => {
    const named = Object.values(packageJson.exports).flatMap((entry) =>
      typeof entry === 'string' ? entry : Object.values(entry),
    )
    expect(named.map((path) => path.replace('./', '')).filter((path) => !packed.includes(path))).toEqual([])
  })

  it('passes publint --strict', async () => {
    const publint = join(root, 'node_modules/publint/src/cli.js')
    await expect(output(root, process.execPath, publint, 'run', tarball, '--strict')).resolves.toContain(
      'good',
    )
  })

  describe('without axios', () => {
    it('brings no axios along', () => {
      expect(existsSync(join(folder, 'node_modules/axios'))).toBe(false)
    })

    it.each(kinds)('makes a call by fetch from %s', async (kind) => {
      await expect(runCaller('fetch', kind, IMPORTS[kind] + FETCH_CALL)).resolves.toBe(
        '200 /merchant/orders string 1\n',
      )
    })

    it.each(kinds)(
      'shares a token by merchant-auth/redis from %s, with no client of Redis installed',
      async (kind) => {
        expect(['redis', 'ioredis'].map((name) => existsSync(join(folder, 'node_modules', name)))).toEqual([
          false,
          false,
        ])
        await expect(
          runCaller('redis', kind, `${IMPORTS[kind]}${REDIS_IMPORT[kind]}${REDIS_CALL}`),
        ).resolves.toBe('true 1 true\n')
      },
    )

    it.each(kinds)(
      'loads what a store needs when one is given and used, and not before: %s',
      async (kind) => {
        await expect(runCaller('loaded', kind, LOADED_BY[kind])).resolves.toBe(
          'true false false false false\ntrue true true false\n',
        )
      },
    )

    it('says of merchant-auth/axios, and of nothing else, that axios is missing', async () => {
      const code =
        "import 'merchant-auth'\nimport 'merchant-auth/testing'\nawait import('merchant-auth/axios')"
      await expect(runCaller('missing', 'esm', code)).rejects.toThrow(
        /Cannot find package 'axios' imported from/,
      )
    })
  })

  describe('with axios', () => {
    beforeAll(async () => {
      await install(folder, `axios@${packageJson.devDependencies.axios}`)
    }, 180_000)

    it('loads no axios with the main entry', async () => {
      const code = `
        require('merchant-auth')
        const loaded = Object.keys(require.cache).filter((path) => path.includes('node_modules/axios'))
        console.log(loaded.length, Object.keys(require.cache).some((path) => path.includes('merchant-auth')))
      `
      await expect(runCaller('cache', 'commonjs', code)).resolves.toBe('0 true\n')
    })

    it.each(kinds)("gives %s callers AxiosErrors of their own axios' copy", async (kind) => {
      await expect(runCaller('axios', kind, IMPORTS[kind] + AXIOS_IMPORTS[kind] + AXIOS_CALLS)).resolves.toBe(
        '200\ntrue 500\ntrue ECONNABORTED\ntrue ECONNABORTED\n',
      )
    })
  })
})
