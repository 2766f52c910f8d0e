// `check` shows the client secret nowhere, wherever settings and responses contain it.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Fault } from 'merchant-auth/testing'
import { describe, expect, it } from 'vitest'
import { check, eachWithSandbox, folder, jwt, run, type Variables } from './rig.ts'

const SECRET = 'Swordfish7'
const at = eachWithSandbox()
const call = (): string[] => ['--call', `${at.test.merchantUrl}/orders`]

describe('check does not show the secret', () => {
  const outputWithoutSecret = async (
    args: readonly string[] = [],
    changed: Variables = {},
  ): Promise<string> => {
    const variables = { ...at.variables, MERCHANT_AUTH_CLIENT_SECRET: SECRET, ...changed }
    const { stdout } = await run(['check', ...args], variables)
    const all = stdout + JSON.stringify((await check(at, args, variables)).steps)
    expect(all).not.toContain(SECRET)
    return all
  }

  it('in the settings', async () => {
    const { authUrl, apiUrls } = at.test.environment
    const file = join(folder(), SECRET)
    writeFileSync(file, SECRET)
    const all = await outputWithoutSecret(['--call', `${apiUrls.merchant}/${SECRET}`], {
      MERCHANT_AUTH_URL: `${authUrl}/${SECRET}`,
      MERCHANT_AUTH_CLIENT_ID: `id-${SECRET}`,
      MERCHANT_AUTH_AUDIENCE: `https://a.example/${SECRET}`,
      MERCHANT_AUTH_API_URLS: `${apiUrls.merchant}/${SECRET}`,
      MERCHANT_AUTH_CLIENT_SECRET: undefined,
      MERCHANT_AUTH_CLIENT_SECRET_FILE: file,
    })
    expect(all).toContain('from the file ')
  })

  it('that a form-only server decodes from JSON, and echoes', async () => {
    const secret = `Sword+fish%2B7${SECRET}%3D`
    const echo = `The client_secret "${new URLSearchParams(`s=${secret}`).get('s')}" is not known`
    at.test.fail('token', { kind: 'status', status: 400, body: { error_description: echo } }, { times: 2 })
    const all = await outputWithoutSecret([], { MERCHANT_AUTH_CLIENT_SECRET: secret })
    expect(all).toContain('The client_secret "[hidden]" is not known')
  })

  const tokenOf = (access_token: string, more = {}): Fault => ({
    kind: 'json',
    body: { access_token, expires_in: 9, token_type: 'Bearer', ...more },
  })
  const claims = { iss: `x${SECRET}`, aud: SECRET, exp: SECRET }
  it.each<[string, Fault]>([
    ['an error', { kind: 'json', status: 400, body: { error: SECRET, error_description: `no ${SECRET}` } }],
    ['a token', tokenOf(SECRET)],
    ['a scope and claims', tokenOf(jwt(claims), { scope: `a ${SECRET}` })],
  ])('in %s from the token endpoint', async (_, fault) => {
    at.test.fail('token', fault, { times: 2 })
    await outputWithoutSecret()
  })

  it.each<[string, Fault]>([
    ['Retry-After', { kind: 'status', status: 429, headers: { 'retry-after': SECRET } }],
  ])('in %s from the API', async (_, fault) => {
    at.test.fail('merchant', fault, { times: 2 })
    at.test.fail('token', tokenOf('a.plain.token'), { times: 2 })
    expect(await outputWithoutSecret(call())).toContain('"call"')
  })
})
