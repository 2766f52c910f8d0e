/** `check` and `token` with secrets that are ordinary words: what the command says itself stays whole. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { forget } from '../support/recorded.ts'
import { check, eachWithSandbox, giveOut, jwt } from './check-rig.ts'
import { run, type Variables } from './rig.ts'

const ORDINARY = 'an-ordinary-secret'
const ODD = [
  ...['wrong', 'client', 'secret', 'e', 'a', 't', 'o', ' ', '[', 'hidden', 'ok', '1'],
  ...['invalid_client', 'ERR_TOKEN_STATUS', 'options', 'ECONNRESET', 'true', '\n'],
]

const at = eachWithSandbox()
beforeEach(() => void vi.spyOn(process, 'emitWarning').mockReturnValue())
afterEach(() => void vi.restoreAllMocks())
afterEach(forget) // the words are secrets that may appear

const call = (): string[] => ['--call', `${at.sandbox.test.merchantUrl}/orders`]

const OUTCOMES: [name: string, arrange: () => void, args: () => string[], changed?: Variables][] = [
  ['all is good', () => giveOut(at, jwt({ iss: 'https://id.example', aud: 'x', exp: 1 })), call],
  ['there is no JWT', () => giveOut(at, 'a.plain.token'), call],
  ['the secret is wrong', () => {}, () => []],
  ['the connection is cut', () => at.sandbox.test.fail('token', { kind: 'reset' }), () => []],
  ['there is no token', () => at.sandbox.test.fail('token', { kind: 'text', body: 'hello' }), () => []],
  [
    'it redirects',
    () => at.sandbox.test.fail('token', { kind: 'redirect', location: 'https://x.example' }),
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
      const advice = steps.map((step) => step.advice?.replace(/127\S+|\[hidden\]/g, 'HOST'))
      arrange()
      const token = await run(['token', '--timeout-ms', '900', ...args().filter(isOfToken)], {
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

function isOfToken(arg: string): boolean {
  return arg !== '--call' && !arg.startsWith('http')
}
