/** The declarations of the installed package compile for TypeScript callers of both module systems, with various settings. */
import { execFile } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { entriesOf, root } from '../../scripts/packed.ts'

type Place = 'alone' | 'withPeers'
type Options = Readonly<Record<string, unknown>>

const run = promisify(execFile)
const tsc = join(root, 'node_modules/typescript/bin/tsc')
const entries = entriesOf(packageJson)

/** The only entry whose declarations import types of its peer; the others describe their clients structurally. */
const IMPORTS_PEER = './opentelemetry'

/** A CommonJS caller with `import = require`. */
const REQUIRING_CALLER = `
import axios = require('axios')
import auth = require('merchant-auth')
import authAxios = require('merchant-auth/axios')
import authFile = require('merchant-auth/file')
import authRedis = require('merchant-auth/redis')
import ioredis = require('ioredis')
declare const options: auth.TokenProviderOptions
const api: axios.AxiosInstance = axios.create()
api.interceptors.request.use(authAxios.createAuthInterceptor(options))
authAxios.attachAuth(api, auth.createTokenProvider(options))
auth.createTokenProvider({ ...options, store: authFile.createFileTokenStore('/var/lib/my-service/tokens') })
auth.createTokenProvider({ ...options, store: authRedis.createRedisTokenStore(new ioredis.Redis()) })
`

/** A caller whose runtime adds to `fetch`, as Bun's types do: a function without those members is a fetch, too. */
const CALLER_WITH_EXTENDED_FETCH = `
import { createAuthFetch, createTokenProvider, type Environment } from 'merchant-auth'
declare global {
  namespace fetch {
    function preconnect(url: string): void
  }
}
declare const environment: Environment
const proxied = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => fetch(input, init)
// @ts-expect-error what the runtime adds
export const whole: typeof fetch = proxied
const credentials = { clientId: 'id', clientSecret: 'secret' }
export const tokens = createTokenProvider({ environment, ...credentials, fetch: proxied })
createTokenProvider({ environment, ...credentials, fetch })
export const authFetch: typeof fetch = createAuthFetch(tokens, { fetch: proxied })
createAuthFetch(tokens, { fetch })
`

// `typeRoots` decides whether the types of Node.js are found: the folders that are compiled have none of their own.
const NODE = {
  lib: ['es2024', 'esnext.disposable'],
  types: ['node'],
  typeRoots: [join(root, 'node_modules/@types')],
}
const DOM = { lib: ['es2024', 'esnext.disposable', 'dom', 'dom.iterable'], types: [], typeRoots: [] }
/** As services of some years have it: there, for example, TypeScript knows no `cause` of an error. */
const NODE_ES2020 = { ...NODE, target: 'es2020', lib: ['es2020'] }
const TYPES = {
  Node: NODE,
  'Node and ES2020': NODE_ES2020,
  DOM,
  both: { ...NODE, lib: DOM.lib },
} as const

const MODULES = {
  nodenext: { module: 'nodenext' },
  bundler: { module: 'esnext', moduleResolution: 'bundler' },
} as const

/** Every setting once; they do not depend on each other. */
const SETTINGS = [
  { types: 'Node', modules: 'nodenext', exact: true, place: 'alone' },
  { types: 'Node and ES2020', modules: 'nodenext', exact: false, place: 'withPeers' },
  { types: 'DOM', modules: 'nodenext', exact: false, place: 'alone' },
  { types: 'both', modules: 'bundler', exact: true, place: 'alone' },
  { types: 'DOM', modules: 'bundler', exact: true, place: 'withPeers' },
] as const

describe.concurrent('the declarations', () => {
  const folders = { alone: '', withPeers: '' }
  let projects = 0

  beforeAll(() => {
    for (const place of ['alone', 'withPeers'] as const) {
      folders[place] = mkdtempSync(join(inject('installed')[place], 'types-'))
      for (const kind of ['mts', 'cts']) {
        for (const caller of ['caller', 'plain-caller']) {
          const source = fileURLToPath(new URL(`${caller}.mts`, import.meta.url))
          copyFileSync(source, join(folders[place], `${caller}.${kind}`))
        }
        for (const entry of entries) writeFileSync(join(folders[place], fileOf(entry, kind)), importOf(entry))
      }
    }
  })

  afterAll(() => {
    for (const folder of Object.values(folders)) rmSync(folder, { recursive: true, force: true })
  })

  /** Returns the errors of the compiler; '' if there are none. */
  const compile = async (place: Place, files: readonly string[], options: Options): Promise<string> => {
    const compilerOptions = {
      target: 'es2023',
      strict: true,
      isolatedModules: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck: false,
      noEmit: true,
      ...options,
    }
    const project = join(folders[place], `tsconfig-${projects++}.json`)
    writeFileSync(project, JSON.stringify({ compilerOptions, files }))
    try {
      const { stdout } = await run(process.execPath, [tsc, '--pretty', 'false', '-p', project])
      return stdout
    } catch (error) {
      return (error as { stdout: string }).stdout || String(error)
    }
  }

  it.each(SETTINGS)(
    'compile with the types of $types, $modules, exactOptionalPropertyTypes $exact, $place',
    async ({ types, modules, exact, place }) => {
      const kinds = ['mts', 'cts']
      const files = kinds.flatMap((kind) => [
        ...entries.flatMap((entry) =>
          place === 'withPeers' || entry !== IMPORTS_PEER ? fileOf(entry, kind) : [],
        ),
        `plain-caller.${kind}`,
      ])
      const options = { ...TYPES[types], ...MODULES[modules], exactOptionalPropertyTypes: exact }
      await expect(compile(place, files, options)).resolves.toBe('')
    },
  )

  it('compile for callers with axios, redis and ioredis', async () => {
    const files = ['caller.mts', 'caller.cts']
    await expect(compile('withPeers', files, { ...NODE, ...MODULES.nodenext })).resolves.toBe('')
  })

  it.each(['Node', 'DOM'] as const)('compile where a runtime adds to the fetch of %s', async (types) => {
    writeFileSync(join(folders.alone, 'extended-fetch.mts'), CALLER_WITH_EXTENDED_FETCH)
    const options = { ...TYPES[types], ...MODULES.nodenext }
    await expect(compile('alone', ['extended-fetch.mts'], options)).resolves.toBe('')
  })

  it('compile for a CommonJS caller on module node20 who writes import = require', async () => {
    writeFileSync(join(folders.withPeers, 'requiring.cts'), REQUIRING_CALLER)
    const options = { ...NODE, module: 'node20' }
    await expect(compile('withPeers', ['requiring.cts'], options)).resolves.toBe('')
  })

  it('do not compile for a caller that imports an unknown name', async () => {
    const code = "import { noSuchName } from 'merchant-auth'\nnoSuchName()\n"
    writeFileSync(join(folders.alone, 'wrong.mts'), code)
    await expect(compile('alone', ['wrong.mts'], { ...NODE, ...MODULES.nodenext })).resolves.toContain(
      "no exported member 'noSuchName'",
    )
  })

  it.each([
    ['Node', 'document'],
    ['DOM', 'process'],
  ] as const)('are compiled only with the types of %s, without %s', async (types, missing) => {
    writeFileSync(join(folders.alone, `${missing}.mts`), `${missing}.title\nexport {}\n`)
    const output = await compile('alone', [`${missing}.mts`], { ...TYPES[types], ...MODULES.nodenext })
    expect(output).toContain(`'${missing}'`)
  })
})

const fileOf = (entry: string, kind: string): string => `entry${entry.replace(/\W+/g, '-')}.${kind}`

const importOf = (entry: string): string =>
  `import * as entry from 'merchant-auth${entry.slice(1)}'\nexport const names: string[] = Object.keys(entry)\n`
