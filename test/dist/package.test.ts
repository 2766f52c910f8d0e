/**
 * The installed package, with and without its optional peers: it loads no more than it needs. test/runtimes checks that
 * every entry works, by import and by require().
 */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { entriesOf, filesOf, output, root } from '../../scripts/packed.ts'
import { brokenLinks } from '../support/links.ts'
import { PEERS } from './installed.ts'

const extensions = { esm: 'mjs', commonjs: 'cjs' } as const
const kinds = ['esm', 'commonjs'] as const
const entries = entriesOf(packageJson).map((entry) => `merchant-auth${entry.slice(1)}`)
/** The entries that need their peer when they are loaded. */
const NEED_PEER: Readonly<Record<string, string>> = {
  'merchant-auth/axios': 'axios',
  'merchant-auth/opentelemetry': '@opentelemetry/api',
}

const folders = { alone: '', withPeers: '' }
let written = 0
beforeAll(async () => {
  for (const place of ['alone', 'withPeers'] as const)
    folders[place] = await mkdtemp(join(inject('installed')[place], 'programs-'))
})
afterAll(() =>
  Promise.all(Object.values(folders).map((folder) => rm(folder, { recursive: true, force: true }))),
)

async function outputOf(
  place: keyof typeof folders,
  kind: keyof typeof extensions,
  code: string,
): Promise<string> {
  const file = join(folders[place], `${written++}.${extensions[kind]}`)
  await writeFile(file, code)
  return await output(folders[place], [process.execPath, file])
}

describe('the installed package without its peers', () => {
  it('makes no async resource when it is loaded, which Jest might take for an open handle', async () => {
    const code = `
      const { AsyncResource, createHook } = require('node:async_hooks')
      const made = []
      createHook({ init: (...[, , , resource]) => void made.push(resource) }).enable()
      require('merchant-auth')
      const own = made.filter((resource) => resource instanceof AsyncResource)
      console.log(own.length)
    `
    expect(await outputOf('alone', 'commonjs', code)).toBe('0\n')
  })

  it('installs no peer', () => {
    const isInstalled = (name: string): boolean => existsSync(join(folders.alone, '../node_modules', name))
    expect(isInstalled('merchant-auth')).toBe(true)
    expect(Object.keys(PEERS)).toContain('axios')
    expect(Object.keys(PEERS).filter(isInstalled)).toEqual([])
  })

  it.each(kinds)('loads every entry from %s, except those that need a peer', async (kind) => {
    const loadable = entries.filter((entry) => !Object.hasOwn(NEED_PEER, entry))
    expect(loadable).toContain('merchant-auth')
    const load = kind === 'esm' ? 'await import(entry)' : 'require(entry)'
    const code = `
      async function main() {
        for (const entry of ${JSON.stringify(loadable)}) console.log(entry, Object.keys(${load}).length > 0)
      }
      main()
    `
    await expect(outputOf('alone', kind, code)).resolves.toBe(
      loadable.map((entry) => `${entry} true\n`).join(''),
    )
  })

  it.each(Object.entries(NEED_PEER))('fails to load %s with an error that names %s', async (entry, peer) => {
    await expect(outputOf('alone', 'esm', `import '${entry}'`)).rejects.toThrow(
      `Cannot find package '${peer}' imported from`,
    )
  })

  it('loads neither jose, node:crypto nor any client with the main entry and a store in files', async () => {
    await expect(outputOf('alone', 'esm', LOADED)).resolves.toBe('true false false false\n')
  })

  it.each(['without a store', 'with a store in files', 'with createFileTokenStore'])(
    'calls an API after its folder was removed from under the process, %s',
    async (kind) => {
      const folder = await mkdtemp(join(folders.alone, 'removed-'))
      const copy = join(folder, 'node_modules/merchant-auth')
      await cp(join(folders.alone, '../node_modules/merchant-auth'), copy, { recursive: true })
      const file = join(folder, 'service.mjs')
      await writeFile(file, REMOVED)
      await expect(output(folder, [process.execPath, file, copy, kind])).resolves.toBe('200 200 quota\n')
    },
  )

  it('shares a token through a store where Web Crypto is missing', async () => {
    await expect(outputOf('alone', 'esm', WITHOUT_WEB_CRYPTO)).resolves.toBe('1 token request, 0 failures\n')
  })
})

describe('the packed files', () => {
  const folder = () => join(folders.alone, '../node_modules/merchant-auth')
  const packed = () => filesOf(folder())

  it('are the build, the manual, the examples, and what every package has', () => {
    const known = /^dist\/.+\.(?:c?js|d\.c?ts)$|^docs\/[^/]+\.(?:md|svg)$|^examples\/.+\.(?:ts|yaml)$/
    expect(packed().filter((path) => !known.test(path))).toEqual([
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'SECURITY.md',
      'dist/THIRD-PARTY-LICENSES.md',
      'dist/sbom.cdx.json',
      'llms.txt',
      'package.json',
    ])
  })

  it('take at most 1.5 MB on the disk', () => {
    const sizes = packed().map((path) => statSync(join(folder(), path)).size)
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(1_500_000)
  })

  it('name no source map, as there is none', () => {
    const code = packed().filter((path) => /^dist\/.+s$/.test(path))
    expect(code).toContain('dist/index.d.cts')
    const naming = code.filter((path) =>
      readFileSync(join(folder(), path), 'utf8').includes('sourceMappingURL'),
    )
    expect(naming).toEqual([])
  })

  it('link only to packed files and their headings', () => {
    const files = packed()
    const pages = files.filter((path) => /\.(?:md|txt)$/.test(path) && !path.startsWith('dist/'))
    expect(pages.flatMap((page) => brokenLinks(folder(), page, (path) => files.includes(path)))).toEqual([])
  })

  it('install no other package', async () => {
    const installed = await readdir(join(folders.alone, '../node_modules'))
    expect(installed.filter((name) => !name.startsWith('.'))).toEqual(['merchant-auth'])
  })
})

it('inlinedDependencies in package.json are the packages whose code is in dist', async () => {
  const { components } = JSON.parse(await readFile(join(root, 'dist/sbom.cdx.json'), 'utf8')) as {
    components: readonly { name: string; version: string }[]
  }
  expect(Object.fromEntries(components.map(({ name, version }) => [name, version]))).toEqual(
    packageJson.inlinedDependencies,
  )
})

it('the installed package loads no peer with the main entry', async () => {
  const code = `
    require('merchant-auth')
    const loaded = Object.keys(require.cache)
    const peers = ${JSON.stringify(['@redis', ...Object.keys(PEERS)])}
    const isPeer = (path) => peers.some((name) => path.replaceAll('\\\\', '/').includes('node_modules/' + name + '/'))
    console.log(loaded.filter(isPeer).length, loaded.some((path) => path.includes('merchant-auth')))
  `
  await expect(outputOf('withPeers', 'commonjs', code)).resolves.toBe('0 true\n')
})

/** Says whether files of the package were loaded, whether any is jose or of a client, and whether node:crypto was. */
const LOADED = `
  import { registerHooks } from 'node:module'
  const loaded = []
  registerHooks({
    load(url, context, next) {
      loaded.push(url)
      return next(url, context)
    },
  })
  await import('merchant-auth')
  await import('merchant-auth/file')
  console.log(
    loaded.some((url) => url.includes('/merchant-auth/dist/')),
    loaded.some((url) => /\\bjose\\b/.test(url)),
    loaded.some((url) => /\\/node_modules\\/(?:@?redis|ioredis|axios|undici)\\//.test(url)),
    process.moduleLoadList.includes('NativeModule crypto'),
  )
`

/** A service that makes its first call when the package's folder is gone, and one after a 401. */
const REMOVED = `
  import { rmSync } from 'node:fs'
  import { join } from 'node:path'
  import { createAuthFetch, createTokenProvider, optionsFromEnv } from 'merchant-auth'
  import { createFileTokenStore } from 'merchant-auth/file'
  import { startSandbox } from 'merchant-auth/testing'
  const [folder, kind] = process.argv.slice(2)
  const { test, close } = await startSandbox()
  test.configure({ quota: '10/h' })
  const events = []
  const directory = join(process.cwd(), 'tokens')
  const tokens = createTokenProvider({
    ...optionsFromEnv({ ...test.variables, ...(kind === 'with a store in files' && { MERCHANT_AUTH_STORE: directory }) }),
    ...(kind === 'with createFileTokenStore' && { store: createFileTokenStore(directory) }),
    onEvent: (event) => events.push(event),
  })
  const authFetch = createAuthFetch(tokens)
  rmSync(folder, { recursive: true })
  const before = await authFetch(test.merchantUrl)
  test.revoke()
  const after = await authFetch(test.merchantUrl)
  const failed = events.filter(({ type }) => type === 'store-failed').map(({ code }) => code)
  const hasQuota = events.some(({ type, quota }) => type === 'token-acquired' && quota?.length > 0)
  console.log(before.status, after.status, ...failed, hasQuota ? 'quota' : '')
  await tokens.close()
  await close()
`

const WITHOUT_WEB_CRYPTO = `
  import { createTokenProvider } from 'merchant-auth'
  import { createFileTokenStore } from 'merchant-auth/file'
  Object.defineProperty(globalThis, 'crypto', { value: {} })
  let [requests, failures] = [0, 0]
  for (let nth = 0; nth < 3; nth += 1) {
    const tokens = createTokenProvider({
      environment: { authUrl: 'https://a.example', audience: 'b', apiUrls: ['https://c.example'] },
      clientId: 'id',
      clientSecret: 'a-client-secret',
      store: createFileTokenStore('without-web-crypto'),
      onEvent: ({ type }) => (failures += type === 'store-failed'),
      fetch: async () => {
        requests += 1
        return Response.json({ access_token: 'a.b.c', expires_in: 3600, token_type: 'Bearer' })
      },
    })
    await tokens.getToken()
    await tokens.close()
  }
  console.log(requests + ' token request, ' + failures + ' failures')
`
