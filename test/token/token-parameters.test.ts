/** Extra fields of the token request. */
import { createTokenProvider } from 'merchant-auth'
import { describe, expect, it } from 'vitest'
import { Fleet } from '../store/fleet.ts'
import { problemsOf } from '../support/problems.ts'
import { ENVIRONMENT, rig, SECRET } from './harness.ts'

describe('tokenParameters', () => {
  const tokenParameters = { organization: 'org_1', resource: 'a b&c' }

  it.each(['json', 'form'] as const)(
    'are sent as extra fields of the token request: %s',
    async (bodyFormat) => {
      const { provider, endpoint } = rig([], { tokenParameters, bodyFormat })
      await provider.getToken()
      const body = String(endpoint.requests[0]?.init.body)
      const fields = bodyFormat === 'json' ? JSON.parse(body) : Object.fromEntries(new URLSearchParams(body))
      expect(fields).toEqual({
        client_id: 'client-1',
        client_secret: SECRET,
        audience: ENVIRONMENT.audience,
        grant_type: 'client_credentials',
        ...tokenParameters,
      })
    },
  )

  it('are copied when the provider is created', async () => {
    const given: Record<string, string> = { organization: 'org_1' }
    const { provider, endpoint } = rig([], { tokenParameters: given })
    given['organization'] = 'org_2'
    await provider.getToken()
    const body = JSON.parse(String(endpoint.requests[0]?.init.body))
    expect(body).toMatchObject({ organization: 'org_1' })
  })

  it('cannot set the fields that the provider sets, and must be strings', () => {
    const wrong = (tokenParameters: unknown) =>
      problemsOf(() =>
        createTokenProvider({
          environment: ENVIRONMENT,
          clientId: 'c',
          clientSecret: SECRET,
          tokenParameters: tokenParameters as Record<string, string>,
        }),
      )
    const own = [
      'client_id',
      'client_secret',
      'client_assertion',
      'client_assertion_type',
      'audience',
      'grant_type',
    ]
    expect(wrong(Object.fromEntries(own.map((name) => [name, 'x'])))).toEqual(
      own.map((name) => `tokenParameters.${name}`),
    )
    expect(wrong({ organization: 5 })).toEqual(['tokenParameters.organization'])
    expect(wrong('organization')).toEqual(['tokenParameters'])
    expect(wrong(['organization'])).toEqual(['tokenParameters'])
  })

  it('separate the tokens in a store, regardless of their order', async () => {
    const fleet = new Fleet()
    const [plain, one, other, same] = [
      await fleet.begin({}),
      await fleet.begin({ tokenParameters: { organization: 'org_1', b: 'c' } }),
      await fleet.begin({ tokenParameters: { organization: 'org_2', b: 'c' } }),
      await fleet.begin({ tokenParameters: { b: 'c', organization: 'org_1' } }),
    ]
    expect(new Set([plain.token, one.token, other.token]).size).toBe(3)
    expect(same.token).toBe(one.token)
    expect(fleet.endpoint.count).toBe(3)
  })
})
