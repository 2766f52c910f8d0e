/** `check` and `token` with secrets that are ordinary words: what the command says itself stays whole. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Fault } from 'merchant-auth/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { forget } from '../support/recorded.ts'
import { check, eachWithSandbox, issue, jwt, run, type Variables } from './rig.ts'

const ORDINARY = 'an-ordinary-secret'
const ODD = [
  ...['wrong', 'client', 'secret', 'e', 'a', 't', 'o', ' ', '[', 'hidden', 'ok', '1'],
  ...['invalid_client', 'ERR_TOKEN_STATUS', 'options', 'ECONNRESET', 'true', '\n'],
]

const at = eachWithSandbox()
beforeEach(() => void vi.spyOn(process, 'emitWarning').mockReturnValue())
afterEach(() => void vi.restoreAllMocks())
afterEach(forget) // the words are secrets that may appear

const call = (): string[] => ['--call', `${at.test.merchantUrl}/orders`]

const OUTCOMES: [name: string, arrange: () => void, args: () => string[], changed?: Variables][] = [
  [
    'all is good',
    () => {
      issue(at, jwt({ iss: 'https://id.example', aud: 'x' }))
      at.test.fail('merchant', { kind: 'json', body: {} })
    },
    call,
  ],
  ['there is no JWT', () => issue(at, 'a.plain.token'), call],
  ['the secret is wrong', () => {}, () => []],
  ['the connection is cut', () => at.test.fail('token', { kind: 'reset' }), () => []],
  ['the port is not for fetch', () => {}, () => ['--auth-url', 'http://127.0.0.1:1']],
  ['there is no token', () => at.test.fail('token', { kind: 'text', body: 'hello' }), () => []],
  [
    'it redirects',
    () => at.test.fail('token', { kind: 'redirect', location: 'https://x.example' }),
    () => [],
  ],
  ['options are wrong', () => {}, () => ['--timeout-ms', 'soon'], { MERCHANT_AUTH_CLIENT_ID: '' }],
]

describe.each(ODD)('check with the secret %j', (secret) => {
  it.each(OUTCOMES)('says what it says with any other where %s', async (_, arrange, args, changed) => {
    const own = async (clientSecret: string): Promise<unknown> => {
      const variables = { MERCHANT_AUTH_CLIENT_SECRET: clientSecret, ...changed }
      arrange()
      const { code, steps } = await check(at, args(), variables)
      const fields = steps.map(({ step, result, code, cause, status, error }) => ({
        ...{ step, result, code, cause, status, error },
      }))
      arrange()
      const { stdout } = await run(['check', ...args()], { ...at.variables, ...variables })
      const lines = stdout.split('\n').flatMap((line) => /^\S .{11}/.exec(line)?.[0] ?? [])
      const last = stdout.trim().split('\n').at(-1)
      const advice = steps.map((step) =>
        step.advice?.replace(/https?:[\w.:/-]+\w|127[\w.:]+\w|\[hidden\]/g, 'HOST'),
      )
      arrange()
      const token = await run(['token', '--timeout-ms', '60000', ...args().filter(isOfToken)], {
        ...at.variables,
        ...variables,
      })
      return { code, fields, lines, last, advice, tokenCode: token.code }
    }
    // A line break at its end is a warning, and so is a blank.
    const ordinary = /^\s$/.test(secret) ? `${ORDINARY} ` : ORDINARY
    expect(await own(secret)).toEqual(await own(ordinary))
  })
})

describe.each(['Swordfish7', 'Zq7'])('check shows nothing of the secret %s', (secret) => {
  const shown = async (args: readonly string[], changed: Variables): Promise<string> => {
    const variables = { ...at.variables, MERCHANT_AUTH_CLIENT_SECRET: secret, ...changed }
    const { stdout } = await run(['check', ...args], variables)
    const { steps } = await check(at, args, variables)
    return stdout + JSON.stringify(steps)
  }

  it('in the settings', async () => {
    const { authUrl, apiUrls } = at.test.environment
    const folder = await mkdtemp(join(tmpdir(), 'merchant-auth-check-'))
    const file = join(folder, secret)
    await writeFile(file, secret)
    const said = await shown(['--call', `${apiUrls[0]}/${secret}`], {
      MERCHANT_AUTH_URL: `${authUrl}/${secret}`,
      MERCHANT_AUTH_CLIENT_ID: `id-${secret}`,
      MERCHANT_AUTH_AUDIENCE: `https://${secret}.example/${secret}`,
      MERCHANT_AUTH_API_URLS: `${apiUrls[0]}/${secret}`,
      MERCHANT_AUTH_CLIENT_SECRET: undefined,
      MERCHANT_AUTH_CLIENT_SECRET_FILE: file,
    })
    await rm(folder, { recursive: true })
    expect(said).toContain('from the file ')
    expect(said.toLowerCase()).not.toContain(secret.toLowerCase())
  })

  it.each<[string, Fault]>([
    ['a name of a host', { kind: 'redirect', location: `https://${secret}.example/` }],
    [
      'an error',
      { kind: 'json', status: 400, body: { error: secret, error_description: `no ${secret.toUpperCase()}` } },
    ],
    ['a token', { kind: 'json', body: { access_token: secret, expires_in: 9, token_type: 'Bearer' } }],
    [
      'a scope and claims',
      {
        kind: 'json',
        body: {
          access_token: jwt({ iss: `x${secret}`, aud: secret, exp: secret }),
          expires_in: 9,
          token_type: 'Bearer',
          scope: `a ${secret}`,
        },
      },
    ],
  ])('in %s of the token endpoint', async (_, fault) => {
    at.test.fail('token', fault, { times: 2 })
    expect((await shown([], {})).toLowerCase()).not.toContain(secret.toLowerCase())
  })

  it.each<[string, Fault]>([
    ['a challenge', { kind: 'status', status: 401, headers: { 'www-authenticate': `Bearer x="${secret}"` } }],
    ['Retry-After', { kind: 'status', status: 429, headers: { 'retry-after': secret } }],
    ['a redirect', { kind: 'redirect', location: `https://${secret}.example/${secret}` }],
  ])('in %s of the API', async (_, fault) => {
    at.test.fail('merchant', fault, { times: 2 })
    issue(at, 'a.plain.token')
    issue(at, 'a.plain.token')
    const said = await shown(call(), {})
    expect(said).toContain('"call"')
    expect(said.toLowerCase()).not.toContain(secret.toLowerCase())
  })
})

function isOfToken(arg: string): boolean {
  return arg !== '--call' && !arg.startsWith('http')
}
