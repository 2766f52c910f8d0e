/**
 * The package as its users have it installed, without its optional peers and with them: it loads no more than it needs.
 * That every entry works, by import and by require(), is a matter of test/runtimes.
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

async function runs(
  place: keyof typeof folders,
  kind: keyof typeof extensions,
  code: string,
): Promise<string> {
  const file = join(folders[place], `${written++}.${extensions[kind]}`)
  await writeFile(file, code)
  return await output(folders[place], [process.execPath, file])
}

describe('the installed package without its peers', () => {
  it('brings none of them along', () => {
    const isThere = (name: string): boolean => existsSync(join(folders.alone, '../node_modules', name))
    expect(isThere('merchant-auth')).toBe(true)
    expect(Object.keys(PEERS)).toContain('axios')
    expect(Object.keys(PEERS).filter(isThere)).toEqual([])
  })

  it.each(kinds)('has entries that can be loaded from %s, but those that need a peer', async (kind) => {
    const loadable = entries.filter((entry) => !Object.hasOwn(NEED_PEER, entry))
    expect(loadable).toContain('merchant-auth')
    const load = kind === 'esm' ? 'await import(entry)' : 'require(entry)'
    const code = `
      async function main() {
        for (const entry of ${JSON.stringify(loadable)}) console.log(entry, Object.keys(${load}).length > 0)
      }
      main()
    `
    await expect(runs('alone', kind, code)).resolves.toBe(loadable.map((entry) => `${entry} true\n`).join(''))
  })

  it.each(Object.entries(NEED_PEER))('%s says when it is loaded that %s is missing', async (entry, peer) => {
    await expect(runs('alone', 'esm', `import '${entry}'`)).rejects.toThrow(
      `Cannot find package '${peer}' imported from`,
    )
  })

  it.each(kinds)('loads what a store needs when one is given and used, and not before: %s', async (kind) => {
    await expect(runs('alone', kind, LOADED_BY[kind])).resolves.toBe(
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
  await expect(runs('withPeers', 'commonjs', code)).resolves.toBe('0 true\n')
})

/**
 * What is loaded by a token request without a store, and then by one with it: whether the package itself, the library that
 * encrypts, node:crypto and any client were; and whether a store loads more of the package than there was before.
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
    const store = { get: async () => undefined, set: async () => {}, delete: async () => {} }
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
