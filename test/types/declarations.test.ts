/** The built declarations, as TypeScript callers of both module systems see them. */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../../', import.meta.url))
const caller = fileURLToPath(new URL('caller.mts', import.meta.url))
const tsc = join(root, 'node_modules/typescript/bin/tsc')

/** A CommonJS caller with `import = require`. */
const REQUIRING_CALLER = `
import axios = require('axios')
import auth = require('merchant-auth')
import authAxios = require('merchant-auth/axios')
import authRedis = require('merchant-auth/redis')
import ioredis = require('ioredis')
declare const options: auth.TokenProviderOptions
const api: axios.AxiosInstance = axios.create()
api.interceptors.request.use(authAxios.createAuthInterceptor(options))
authAxios.attachAuth(api, auth.createTokenProvider(options))
auth.createTokenProvider({ ...options, store: authRedis.createRedisTokenStore(new ioredis.Redis()) })
`

const compilerOptions = {
  target: 'es2023',
  lib: ['es2024', 'esnext.disposable'],
  module: 'nodenext',
  types: ['node'],
  strict: true,
  exactOptionalPropertyTypes: true,
  skipLibCheck: false,
  noEmit: true,
}

describe('the built declarations', () => {
  let folder = ''

  beforeAll(() => {
    expect(existsSync(join(root, 'dist/index.d.ts')), 'dist is missing: npm run build makes it').toBe(true)
    folder = mkdtempSync(join(tmpdir(), 'merchant-auth-types-'))
    mkdirSync(join(folder, 'node_modules'))
    symlinkSync(root, join(folder, 'node_modules/merchant-auth'), 'junction')
    for (const name of ['axios', 'ioredis', 'redis', '@types']) {
      symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name), 'junction')
    }
  })

  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  const compile = (file: string, changes: Record<string, unknown> = {}): string => {
    const project = join(folder, `${file}.json`)
    writeFileSync(
      project,
      JSON.stringify({ compilerOptions: { ...compilerOptions, ...changes }, files: [file] }),
    )
    try {
      return execFileSync(process.execPath, [tsc, '-p', project], { encoding: 'utf8', stdio: 'pipe' })
    } catch (error) {
      return (error as { stdout: string }).stdout
    }
  }

  it.each(['esm.mts', 'commonjs.cts'])('compile for the strict caller %s', (file) => {
    cpSync(caller, join(folder, file))
    expect(compile(file)).toBe('')
  })

  it('compile for a CommonJS caller on module node20 who writes import = require', () => {
    writeFileSync(join(folder, 'requiring.cts'), REQUIRING_CALLER)
    expect(compile('requiring.cts', { module: 'node20' })).toBe('')
  })

  it('do not compile for a caller with a mistake', () => {
    writeFileSync(join(folder, 'wrong.mts'), "import { noSuchName } from 'merchant-auth'\nnoSuchName()\n")
    expect(compile('wrong.mts')).toContain('noSuchName')
  })
})
