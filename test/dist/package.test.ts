/**
 * The installed package, with and without its optional peers: it loads no more than it needs. test/runtimes checks that
 * every entry works, by import and by require().
 */
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { entriesOf, output } from '../../scripts/check-package/packed.ts'
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

  it.each(kinds)('loads the code for stores only when a store is used: %s', async (kind) => {
    await expect(outputOf('alone', kind, LOADED_BY[kind])).resolves.toBe(
      'true false false false\ntrue true true false\n',
    )
  })
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

/**
 * A program that prints a line after a token request without a store, and one after a request with a store. The first column
 * says whether the request loaded files of the package; the others whether jose, node:crypto and any client are loaded.
 */
const LOADED = (load: string) => `
  const loaded = []
  registerHooks({
    load(url, context, next) {
      loaded.push(url)
      return next(url, context)
    },
  })
  const own = () => loaded.filter((url) => url.includes('/merchant-auth/dist/')).length
  const ofStores = () => [
    loaded.some((url) => url.includes('/node_modules/jose/')),
    loaded.includes('node:crypto'),
    loaded.some((url) => /\\/node_modules\\/(?:@?redis|ioredis|axios|undici)\\//.test(url)),
  ]
  async function main() {
    const { createTokenProvider } = ${load}
    const environment = { authUrl: 'https://a.example', audience: 'b', apiUrls: ['https://c.example'] }
    const answer = { access_token: 'a.b.c', expires_in: 60, token_type: 'Bearer' }
    const options = { environment, clientId: 'id', clientSecret: 'swordfish', fetch: async () => Response.json(answer) }
    const alone = createTokenProvider(options)
    await alone.renewToken(await alone.getToken())
    const before = own()
    console.log(before > 0, ...ofStores())
    const store = { get: async () => undefined, set: async () => {} }
    const shared = createTokenProvider({ ...options, store })
    await shared.getToken()
    await shared.close()
    console.log(own() > before, ...ofStores())
  }
  main()
`
const LOADED_BY = {
  esm: `import { registerHooks } from 'node:module'\n${LOADED("await import('merchant-auth')")}`,
  commonjs: `const { registerHooks } = require('node:module')\n${LOADED("require('merchant-auth')")}`,
}
