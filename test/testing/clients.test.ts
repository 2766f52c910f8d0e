/** What the sandbox's token endpoint enforces if a test configures it: quotas, assertions and additional fields. */
import { exportSPKI, generateKeyPair, SignJWT } from 'jose'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { configurationError, goodFields, requestToken, useSandbox } from './calls.ts'

const use = useSandbox()

const statusAndQuota = async (): Promise<[number, string | null]> => {
  const response = await requestToken(use.env)
  return [response.status, response.headers.get('auth0-client-quota-limit')]
}

describe('a quota of the sandbox', () => {
  it('counts all token requests, including failed ones, and is in every response', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 1_000_000 })
    onTestFinished(() => void vi.useRealTimers())
    use.env.configure({ quota: '3/h,50/d' })
    use.env.fail('token', { kind: 'status', status: 503 })
    expect(await statusAndQuota()).toEqual([503, 'b=per_hour;q=3;r=2;t=3600,b=per_day;q=50;r=49;t=86400'])
    vi.setSystemTime(1_000_000 + 60_000)
    expect(await statusAndQuota()).toEqual([200, 'b=per_hour;q=3;r=1;t=3540,b=per_day;q=50;r=48;t=86340'])
    expect(await statusAndQuota()).toEqual([200, 'b=per_hour;q=3;r=0;t=3540,b=per_day;q=50;r=47;t=86340'])
    expect(await statusAndQuota()).toEqual([429, 'b=per_hour;q=3;r=0;t=3540,b=per_day;q=50;r=47;t=86340'])
    vi.setSystemTime(1_000_000 + 3_600_000)
    expect(await statusAndQuota()).toEqual([200, 'b=per_hour;q=3;r=2;t=3600,b=per_day;q=50;r=46;t=82800'])
  })

  it('is absent by default, and restarts when it is changed', async () => {
    expect(await statusAndQuota()).toEqual([200, null])
    use.env.configure({ quota: '1/m' })
    expect((await statusAndQuota())[0]).toBe(200)
    expect((await statusAndQuota())[0]).toBe(429)
    use.env.configure({ quota: '2/m' })
    expect((await statusAndQuota())[0]).toBe(200)
  })

  it('counts refused requests in a sliding window if quotaCountsRefused is true', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 1_000_000 })
    onTestFinished(() => void vi.useRealTimers())
    use.env.configure({ quota: '2/h', quotaCountsRefused: true })
    const statusAfter = async (ms: number) => {
      vi.setSystemTime(Date.now() + ms)
      return await statusAndQuota()
    }
    expect(await statusAfter(0)).toEqual([200, 'b=per_hour;q=2;r=1;t=3600'])
    expect((await statusAfter(0))[0]).toBe(200)
    // Two requests an hour, refused ones included, keep it spent.
    for (let times = 0; times < 4; times += 1)
      expect(await statusAfter(1_790_000)).toEqual([429, 'b=per_hour;q=2;r=0;t=3600'])
    expect((await statusAfter(1_811_000))[0]).toBe(200)
  })
})

describe('a client assertion sent to the sandbox', () => {
  const claims = () => ({
    iss: use.env.clientId,
    sub: use.env.clientId,
    aud: use.env.environment.authUrl,
    jti: 'j-1',
  })
  const answerTo = async (client_assertion: string, more: object = {}) => {
    const { client_secret: _, ...fields } = goodFields(use.env)
    const client_assertion_type = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
    const body = JSON.stringify({ ...fields, client_assertion_type, client_assertion, ...more })
    const headers = { 'content-type': 'application/json' }
    const url = `${use.env.environment.authUrl}/oauth/token`
    const response = await fetch(url, { method: 'POST', headers, body })
    const { error_description } = (await response.json()) as { error_description?: string }
    return [response.status, error_description]
  }
  const keys = generateKeyPair('ES256')
  const signed = async (changes: object = {}, exp: string | number = '1 min') =>
    await new SignJWT({ ...claims(), ...changes })
      .setProtectedHeader({ alg: 'ES256' })
      .setExpirationTime(exp)
      .sign((await keys).privateKey)
  const configure = async () => use.env.configure({ assertionKey: await exportSPKI((await keys).publicKey) })

  it('is accepted once, instead of the secret', async () => {
    await configure()
    expect(await answerTo(await signed())).toEqual([200, undefined])
    expect(await answerTo(await signed())).toEqual([401, 'The assertion was used before'])
    const aud = `${use.env.environment.authUrl}/oauth/token`
    expect(await answerTo(await signed({ jti: 'j-2', aud }))).toEqual([200, undefined])
    expect((await requestToken(use.env)).status).toBe(200)
    expect(JSON.stringify(use.env.requests('token'))).not.toContain(await signed())
  })

  it.each([
    ['another issuer', { iss: 'someone' }, 'The claim iss of the assertion is wrong'],
    ['no id', { jti: undefined }, 'The claim jti of the assertion is wrong'],
  ])('with %s is rejected', async (_, changes, description) => {
    await configure()
    expect(await answerTo(await signed(changes))).toEqual([401, description])
  })

  it('is rejected if it has expired, is signed by another key, or no key is configured', async () => {
    expect(await answerTo(await signed())).toEqual([400, 'client_secret is missing'])
    await configure()
    expect(await answerTo(await signed({}, 1))).toEqual([401, 'The claim exp of the assertion is wrong'])
    const other = await new SignJWT(claims())
      .setProtectedHeader({ alg: 'ES256' })
      .setExpirationTime('1 min')
      .sign((await generateKeyPair('ES256')).privateKey)
    expect(await answerTo(other)).toEqual([401, 'The signature of the assertion is wrong'])
    expect(await answerTo(await signed(), { client_assertion_type: 'jwt' })).toEqual([
      401,
      'The client_assertion_type is unknown',
    ])
    expect(() => use.env.configure({ assertionKey: 'swordfish' })).toThrow(configurationError('assertionKey'))
  })
})

it('an additional token request field is accepted only if tokenParameters names it', async () => {
  const response = (organization: string) =>
    requestToken(use.env, { fields: { ...goodFields(use.env), organization } })
  expect((await response('org_1')).status).toBe(400)
  use.env.configure({ tokenParameters: ['organization'] })
  expect((await response('org_1')).status).toBe(200)
  expect(use.env.requests('token').at(-1)?.fields).toMatchObject({ organization: 'org_1' })
})
