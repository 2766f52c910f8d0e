/** Signed assertions instead of a client secret (RFC 7523), and extra fields of the token request. */
import { createAuthFetch, createTokenProvider } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import type { WithClientAssertion } from '../../src/options.ts'
import { Fleet } from '../store/fleet.ts'
import { MemoryStore } from '../store/memory-store.ts'
import { ManualClock } from '../support/clock.ts'
import { problemsOf } from '../support/problems.ts'
import { noteSecret } from '../support/recorded.ts'
import {
  type Answer,
  acquired,
  ENVIRONMENT,
  failed,
  granted,
  rig,
  SECRET,
  status,
  TOKEN_ENDPOINT,
  withoutJitter,
} from './harness.ts'

withoutJitter()

const TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

/** A function that returns a new assertion each time. */
const signing = () => {
  let jti = 0
  return vi.fn(
    async (_endpoint: { url: string; clientId: string }) => `head.claims-of-jti-${++jti}.signature`,
  )
}

const bodiesOf = ({ endpoint }: ReturnType<typeof rig>) =>
  endpoint.requests.map(({ init }) => JSON.parse(String(init.body)))

const withAssertion = (answers: Answer[], clientAssertion: WithClientAssertion['clientAssertion']) =>
  rig(answers, { clientSecret: undefined, clientAssertion })

describe('a clientAssertion function', () => {
  it('is called before every attempt, and its assertion replaces the secret', async () => {
    const clientAssertion = signing()
    const made = withAssertion([status(503), status(503)], clientAssertion)
    await acquired(made)
    expect(clientAssertion.mock.calls).toEqual(Array(3).fill([{ url: TOKEN_ENDPOINT, clientId: 'client-1' }]))
    expect(bodiesOf(made)).toEqual(
      [1, 2, 3].map((jti) => ({
        client_id: 'client-1',
        client_assertion_type: TYPE,
        client_assertion: `head.claims-of-jti-${jti}.signature`,
        audience: ENVIRONMENT.audience,
        grant_type: 'client_credentials',
      })),
    )
  })

  it.each([status(401), status(400, { error: 'invalid_client' }), status(403, { error: 'access_denied' })])(
    'is called once more after a rejection (%#)',
    async (rejected) => {
      const made = withAssertion([rejected, rejected], signing())
      expect(await failed(made)).toMatchObject({ attempts: 2 })
      expect(bodiesOf(made).map(({ client_assertion }) => client_assertion.split('-').at(-1))).toEqual([
        '1.signature',
        '2.signature',
      ])
    },
  )

  it.each<[string, () => string | Promise<string>]>([
    ['threw', () => Promise.reject(new Error('the key is gone'))],
    ['returned nothing', () => ' \n'],
  ])('that %s fails the attempt with ERR_CLIENT_ASSERTION', async (how, clientAssertion) => {
    const made = withAssertion([], clientAssertion)
    const error = await failed(made)
    expect(error).toMatchObject({ code: 'ERR_CLIENT_ASSERTION', retryable: true })
    expect(error.message).toContain(`The clientAssertion function ${how}`)
    expect(made.endpoint.count).toBe(0)
  })

  it('that throws an error quoting an assertion has the assertion hidden', async () => {
    const assertion = 'eyJoZWFkIjp7fX0.eyJib2R5Ijp7fX0.c2lnbmF0dXJl'
    noteSecret(assertion)
    const error = await failed(
      withAssertion([], () => {
        throw new Error(`The vault does not take ${assertion}, sorry`)
      }),
    )
    expect((error.cause as Error).message).toBe('The vault does not take [hidden], sorry')
  })

  it('has its assertion sent without a byte order mark and a trailing line break', async () => {
    const made = withAssertion([], () => '\ufeffhead.body.signature\r\n')
    await made.provider.getToken()
    expect(bodiesOf(made)[0]).toMatchObject({ client_assertion: 'head.body.signature' })
  })

  it('excludes clientSecret, must be a function, and requires encryptionKeys with a store', () => {
    const wrong = (more: object) =>
      problemsOf(() => createTokenProvider({ environment: ENVIRONMENT, clientId: 'c', ...more } as never))
    const clientAssertion = signing()
    const store = new MemoryStore(new ManualClock())
    expect(wrong({})).toEqual(['clientSecret'])
    expect(wrong({ clientSecret: SECRET, clientAssertion })).toEqual(['clientAssertion'])
    expect(wrong({ clientAssertion: 'a.b.c' })).toEqual(['clientAssertion'])
    expect(wrong({ clientAssertion, store })).toEqual(['encryptionKeys'])
    expect(wrong({ clientAssertion, store, encryptionKeys: ['a key of at least thirty-two bytes'] })).toEqual(
      [],
    )
  })
})

describe('tokenParameters', () => {
  const tokenParameters = { organization: 'org_1', resource: 'a b&c' }

  it.each(['json', 'form'] as const)(
    'are sent as extra fields of the token request: %s',
    async (bodyFormat) => {
      const made = rig([], { tokenParameters, bodyFormat })
      await made.provider.getToken()
      const body = String(made.endpoint.requests[0]?.init.body)
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
    const made = rig([], { tokenParameters: given })
    given['organization'] = 'org_2'
    await made.provider.getToken()
    expect(bodiesOf(made)[0]).toMatchObject({ organization: 'org_1' })
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
    expect(wrong(new Map([['organization', 'org_1']]))).toEqual(['tokenParameters'])
    expect(wrong(Promise.resolve({ organization: 'org_1' }))).toEqual(['tokenParameters'])
    expect(wrong(Object.assign(Object.create(null), { organization: 'org_1' }))).toEqual([])
    expect(wrong({ '': 'org_1' })).toEqual(['tokenParameters.'])
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

describe('the token-withheld event', () => {
  it('hides the cached token after any number of assertions', async () => {
    const made = withAssertion([granted({ expires_in: 86_400 })], signing())
    const { value } = await made.provider.getToken()
    made.endpoint.otherwise = status(503)
    await made.clock.advance((86_400 - 3_600) * 1_000)
    for (let minute = 0; minute < 59; minute += 1) {
      await made.clock.advance(60_000)
      made.provider.currentToken()
    }
    expect(made.endpoint.count).toBeGreaterThan(17)
    const send = createAuthFetch(made.provider, { fetch: async () => new Response() })
    await send(`https://elsewhere.example/${value}`)
    expect(made.events.at(-1)).toMatchObject({ type: 'token-withheld' })
    expect(JSON.stringify(made.events)).not.toContain(value)
  })

  it('hides a secret that was never sent', async () => {
    const { provider, events } = rig()
    const send = createAuthFetch(provider, { fetch: async () => new Response() })
    await send(`https://elsewhere.example/${encodeURIComponent(SECRET)}`)
    expect(events).toMatchObject([{ type: 'token-withheld', url: 'https://elsewhere.example/[hidden]' }])
  })
})

it('a background renewal sends only one assertion, even after a 401', async () => {
  const made = withAssertion([], signing())
  await acquired(made)
  made.endpoint.otherwise = status(401)
  await made.clock.advance(800_000)
  made.provider.currentToken()
  await made.clock.advance(1_000)
  expect(made.endpoint.count).toBe(2)
})
