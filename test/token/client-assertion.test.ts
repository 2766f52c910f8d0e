/** Signed assertions instead of a client secret (RFC 7523). */
import { createTokenProvider } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import type { WithClientAssertion } from '../../src/options/options.ts'
import { MemoryStore } from '../store/memory-store.ts'
import { ManualClock } from '../support/clock.ts'
import { problemsOf } from '../support/problems.ts'
import {
  type Answer,
  acquired,
  ENVIRONMENT,
  failed,
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

  it('has its assertion sent without a byte order mark and a trailing line break', async () => {
    const made = withAssertion([], () => '\ufeffhead.body.signature\r\n')
    await made.provider.getToken()
    expect(bodiesOf(made)[0]).toMatchObject({ client_assertion: 'head.body.signature' })
  })

  it('may be short: the warning about a short client secret is not for it', async () => {
    const emitWarning = vi.spyOn(process, 'emitWarning').mockReturnValue()
    await withAssertion([], () => 'a.b.c').provider.getToken()
    expect(emitWarning).not.toHaveBeenCalled()
    emitWarning.mockRestore()
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

it('a background renewal sends only one assertion, even after a 401', async () => {
  const made = withAssertion([], signing())
  await acquired(made)
  made.endpoint.otherwise = status(401)
  await made.clock.advance(800_000)
  made.provider.currentToken()
  await made.clock.advance(1_000)
  expect(made.endpoint.count).toBe(2)
})
