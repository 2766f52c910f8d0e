/** The package as its users have it installed: it works from ESM and CommonJS, and loads no more than it needs. */
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { entriesOf, output } from '../../scripts/check-package/packed.ts'
import { type Installed, installed, PEERS } from './installed.ts'
import {
  AXIOS_CALLS,
  AXIOS_IMPORTS,
  FETCH_CALL,
  IMPORTS,
  LOADED_BY,
  REDIS_CALL,
  REDIS_IMPORT,
} from './programs.ts'

const extensions = { esm: 'mjs', commonjs: 'cjs' } as const
const kinds = ['esm', 'commonjs'] as const
const entries = entriesOf(packageJson).map((entry) => `merchant-auth${entry.slice(1)}`)
/** The entries that need their peer when they are loaded. */
const NEED_PEER: Readonly<Record<string, string>> = {
  'merchant-auth/axios': 'axios',
  'merchant-auth/opentelemetry': '@opentelemetry/api',
}

let made: Installed
beforeAll(async () => {
  made = await installed()
}, 180_000)

describe.each(['alone', 'withPeers'] as const)('the installed package, %s', (place) => {
  let folder = ''
  let written = 0

  beforeAll(async () => {
    folder = await mkdtemp(join(made[place], 'programs-'))
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  const runs = async (kind: keyof typeof extensions, code: string): Promise<string> => {
    const file = join(folder, `${written++}.${extensions[kind]}`)
    await writeFile(file, code)
    return await output(folder, [process.execPath, file])
  }

  if (place === 'alone') {
    it('brings none of the optional peers along', () => {
      expect(Object.keys(PEERS)).toContain('axios')
      expect(Object.keys(PEERS).filter((name) => existsSync(join(made.alone, 'node_modules', name)))).toEqual(
        [],
      )
    })

    it.each(kinds)('makes a call by fetch from %s', async (kind) => {
      await expect(runs(kind, IMPORTS[kind] + FETCH_CALL)).resolves.toBe('200 /merchant/orders string 1\n')
    })

    it.each(kinds)('shares a token by merchant-auth/redis from %s', async (kind) => {
      await expect(runs(kind, `${IMPORTS[kind]}${REDIS_IMPORT[kind]}${REDIS_CALL}`)).resolves.toBe(
        'true 1 true\n',
      )
    })

    it.each(kinds)(
      'loads what a store needs when one is given and used, and not before: %s',
      async (kind) => {
        await expect(runs(kind, LOADED_BY[kind])).resolves.toBe(
          'true false false false\ntrue true true false\n',
        )
      },
    )

    it.each(Object.entries(NEED_PEER))(
      '%s says when it is loaded that %s is missing',
      async (entry, peer) => {
        await expect(runs('esm', `import '${entry}'`)).rejects.toThrow(
          `Cannot find package '${peer}' imported from`,
        )
      },
    )
  } else {
    it('loads no peer with the main entry', async () => {
      const code = `
        require('merchant-auth')
        const loaded = Object.keys(require.cache)
        const peers = ${JSON.stringify(['@redis', ...Object.keys(PEERS)])}
        const isPeer = (path) => peers.some((name) => path.replaceAll('\\\\', '/').includes('node_modules/' + name + '/'))
        console.log(loaded.filter(isPeer).length, loaded.some((path) => path.includes('merchant-auth')))
      `
      await expect(runs('commonjs', code)).resolves.toBe('0 true\n')
    })

    it.each(kinds)("gives %s callers AxiosErrors of their own axios' copy", async (kind) => {
      await expect(runs(kind, IMPORTS[kind] + AXIOS_IMPORTS[kind] + AXIOS_CALLS)).resolves.toBe(
        '200\ntrue 500\ntrue ECONNABORTED\ntrue ECONNABORTED\n',
      )
    })
  }

  it.each(kinds)('has entries that can all be loaded from %s, each with names of its own', async (kind) => {
    const loadable = entries.filter((entry) => place === 'withPeers' || !Object.hasOwn(NEED_PEER, entry))
    expect(loadable).toContain('merchant-auth')
    const load = kind === 'esm' ? 'await import(entry)' : 'require(entry)'
    const code = `
      async function main() {
        for (const entry of ${JSON.stringify(loadable)}) console.log(entry, Object.keys(${load}).length > 0)
      }
      main()
    `
    await expect(runs(kind, code)).resolves.toBe(loadable.map((entry) => `${entry} true\n`).join(''))
  })
})
