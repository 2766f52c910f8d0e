/** `check` and `token` hide secrets in text from outside, but not in their own messages, even if a secret is a common word. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Fault } from 'merchant-auth/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { forget } from '../support/recorded.ts'
import { check, eachWithSandbox, folder, issue, jwt, run, type Variables } from './rig.ts'

const ORDINARY = 'an-ordinary-secret'
const WORDS = [
  ...['wrong', 'client', 'secret', 'e', 'a', 't', 'o', '[', 'hidden', 'ok', '1'],
  ...['ERR_TOKEN_STATUS', 'options', 'true'],
]

const at = eachWithSandbox()
beforeEach(() => void vi.spyOn(process, 'emitWarning').mockReturnValue())
afterEach(() => void vi.restoreAllMocks())
afterEach(forget) // common words may appear in any output

const call = (): string[] => ['--call', `${at.test.merchantUrl}/orders`]
const fail = (fault: Fault) => () => at.test.fail('token', fault)

interface Case {
  readonly arrange?: () => unknown
  readonly args?: () => string[]
  readonly changed?: Variables
}

const CASES: Record<string, Case> = {
  'everything is correct': {
    arrange: () => {
      issue(at, jwt({ iss: 'https://id.example', aud: 'x' }))
      at.test.fail('merchant', { kind: 'json', body: {} })
    },
    args: call,
  },
  'the token is not a JWT': { arrange: () => issue(at, 'a.plain.token'), args: call },
  'the secret is wrong': {},
  'the connection is reset': { arrange: fail({ kind: 'reset' }) },
  'fetch does not allow the port': { args: () => ['--auth-url', 'http://127.0.0.1:1'] },
  'the response has no token': { arrange: fail({ kind: 'text', body: 'hello' }) },
  'the token endpoint redirects': { arrange: fail({ kind: 'redirect', location: 'https://x.example' }) },
  'options are invalid': {
    args: () => ['--timeout-ms', 'soon'],
    changed: { MERCHANT_AUTH_CLIENT_ID: '' },
  },
}

describe.each(WORDS)('check and token with the secret %j', (secret) => {
  it.each(Object.keys(CASES))('have the same output as with another secret if %s', async (name) => {
    const { arrange, args = () => [], changed } = CASES[name] ?? {}
    const outcome = async (clientSecret: string): Promise<unknown> => {
      const variables = { ...at.variables, MERCHANT_AUTH_CLIENT_SECRET: clientSecret, ...changed }
      arrange?.()
      const { code, steps } = await check(at, args(), variables)
      const fields = steps.map(({ text: _, data: __, advice, ...codes }) => ({
        ...codes,
        advice: advice?.replace(/https?:[\w.:/-]+\w|127[\w.:]+\w|\[hidden\]/g, 'HOST'),
      }))
      arrange?.()
      const { stdout } = await run(['check', ...args()], variables)
      const lines = stdout.split('\n').flatMap((line) => /^\S .{11}/.exec(line)?.[0] ?? [])
      arrange?.()
      const tokenArgs = args === call ? [] : args()
      const token = await run(['token', '--timeout-ms', '60000', ...tokenArgs], variables)
      return { code, fields, lines, last: stdout.trim().split('\n').at(-1), tokenCode: token.code }
    }
    expect(await outcome(secret)).toEqual(await outcome(ORDINARY))
  })
})

describe('check does not show the secret', () => {
  const secret = 'swordfish7'
  const outputWithoutSecret = async (
    args: readonly string[] = [],
    changed: Variables = {},
  ): Promise<string> => {
    const variables = { ...at.variables, MERCHANT_AUTH_CLIENT_SECRET: secret, ...changed }
    const { stdout } = await run(['check', ...args], variables)
    const all = stdout + JSON.stringify((await check(at, args, variables)).steps)
    expect(all).not.toContain(secret)
    return all
  }

  it('in the settings', async () => {
    const { authUrl, apiUrls } = at.test.environment
    const file = join(folder(), secret)
    writeFileSync(file, secret)
    const all = await outputWithoutSecret(['--call', `${apiUrls.merchant}/${secret}`], {
      MERCHANT_AUTH_URL: `${authUrl}/${secret}`,
      MERCHANT_AUTH_CLIENT_ID: `id-${secret}`,
      MERCHANT_AUTH_AUDIENCE: `https://${secret}.example/${secret}`,
      MERCHANT_AUTH_API_URLS: `${apiUrls.merchant}/${secret}`,
      MERCHANT_AUTH_CLIENT_SECRET: undefined,
      MERCHANT_AUTH_CLIENT_SECRET_FILE: file,
    })
    expect(all).toContain('from the file ')
  })

  const tokenOf = (access_token: string, more = {}): Fault => ({
    kind: 'json',
    body: { access_token, expires_in: 9, token_type: 'Bearer', ...more },
  })
  const error = { error: secret, error_description: `no ${secret}` }
  const claims = { iss: `x${secret}`, aud: secret, exp: secret }
  it.each<[string, Fault]>([
    ['a host name', { kind: 'redirect', location: `https://${secret}.example/` }],
    ['an error', { kind: 'json', status: 400, body: error }],
    ['a token', tokenOf(secret)],
    ['a scope and claims', tokenOf(jwt(claims), { scope: `a ${secret}` })],
  ])('in %s from the token endpoint', async (_, fault) => {
    at.test.fail('token', fault, { times: 2 })
    await outputWithoutSecret()
  })

  it.each<[string, Fault]>([
    ['a challenge', { kind: 'status', status: 401, headers: { 'www-authenticate': `Bearer x="${secret}"` } }],
    ['Retry-After', { kind: 'status', status: 429, headers: { 'retry-after': secret } }],
    ['a redirect', { kind: 'redirect', location: `https://${secret}.example/${secret}` }],
  ])('in %s from the API', async (_, fault) => {
    at.test.fail('merchant', fault, { times: 2 })
    at.test.fail('token', tokenOf('a.plain.token'), { times: 2 })
    expect(await outputWithoutSecret(call())).toContain('"call"')
  })
})
