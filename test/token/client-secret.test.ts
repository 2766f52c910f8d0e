import { inspect } from 'node:util'
import { TokenRequestError } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { granted, rejection, rig, type ScriptedEndpoint, status } from './harness.ts'

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0))
afterEach(() => void vi.restoreAllMocks())

const secretsSent = (endpoint: ScriptedEndpoint): string[] =>
  endpoint.requests.map(({ init }) => JSON.parse(String(init.body)).client_secret)

/** A secret that is another one at each question. */
const rotating = () => {
  const ask = vi.fn<() => string>()
  for (let n = 1; n < 9; n += 1) ask.mockReturnValueOnce(`secret-no-${n}`)
  return ask
}

describe('a clientSecret function', () => {
  it('is not asked before a token is needed', () => {
    const clientSecret = rotating()
    rig([], { clientSecret })
    expect(clientSecret).not.toHaveBeenCalled()
  })

  it('is asked before every attempt', async () => {
    const clientSecret = rotating()
    const { provider, endpoint, clock } = rig([status(503), status(503)], { clientSecret })
    const waiting = provider.getToken()
    await clock.advance(0)
    await waiting
    expect(secretsSent(endpoint)).toEqual(['secret-no-1', 'secret-no-2', 'secret-no-3'])
  })

  it('may answer later', async () => {
    const { provider, endpoint } = rig([], { clientSecret: async () => 'from-the-vault' })
    await provider.getToken()
    expect(secretsSent(endpoint)).toEqual(['from-the-vault'])
  })

  it.each([
    ['throws', () => Promise.reject(new Error('the vault is shut'))],
    ['throws what is no error', () => Promise.reject(undefined)],
    ['yields undefined', () => undefined],
    ['yields an empty string', () => ''],
    ['yields a number', () => 5],
  ])('that %s is a failed attempt with a code of its own', async (_, clientSecret) => {
    const ask = vi.fn(clientSecret)
    const { provider, endpoint, clock } = rig([], { clientSecret: ask as unknown as () => string })
    const waiting = rejection<TokenRequestError>(provider.getToken())
    await clock.advance(0)
    const error = await waiting
    expect(error).toBeInstanceOf(TokenRequestError)
    expect(error).toMatchObject({ code: 'ERR_CLIENT_SECRET', attempts: 3 })
    expect(error.message).toContain('clientSecret')
    expect([ask.mock.calls.length, endpoint.count]).toEqual([3, 0])
  })

  it('that throws leaves its error as the cause', async () => {
    const { provider } = rig([], {
      clientSecret: () => Promise.reject(Object.assign(new Error('shut'), { code: 'EVAULT' })),
      retries: 0,
    })
    const { cause } = await rejection<TokenRequestError>(provider.getToken())
    expect(cause).toMatchObject({ message: 'shut', code: 'EVAULT' })
  })

  it('that fails once is asked again', async () => {
    const clientSecret = vi.fn<() => string>().mockReturnValueOnce('').mockReturnValueOnce('secret-no-2')
    const { provider, endpoint, clock } = rig([], { clientSecret })
    const waiting = provider.getToken()
    await clock.advance(0)
    await expect(waiting).resolves.toBeDefined()
    expect(secretsSent(endpoint)).toEqual(['secret-no-2'])
  })

  it('that hangs ends after half of timeoutMs, and the whole after all of it', async () => {
    const clientSecret = vi.fn(() => new Promise<string>(() => {}))
    const { provider, endpoint, clock } = rig([], { clientSecret })
    const waiting = rejection(provider.getToken())
    await clock.advance(5_000)
    expect(clientSecret).toHaveBeenCalledTimes(2)
    await clock.advance(5_000)
    expect(await waiting).toMatchObject({ code: 'ERR_CLIENT_SECRET' })
    expect(endpoint.count).toBe(0)
  })
})

describe.each([
  ['401', status(401)],
  ['invalid_client', status(400, { error: 'invalid_client' })],
  ['access_denied', status(403, { error: 'access_denied' })],
])('a secret refused by %s', (_, refused) => {
  it.each([0, 2])(
    'is replaced once by another that the function yields, with retries: %i',
    async (retries) => {
      const { provider, endpoint } = rig([refused], { clientSecret: rotating(), retries })
      await expect(provider.getToken()).resolves.toBeDefined()
      expect(secretsSent(endpoint)).toEqual(['secret-no-1', 'secret-no-2'])
    },
  )

  it('is replaced only once', async () => {
    const { provider, endpoint } = rig([refused, refused], { clientSecret: rotating() })
    await expect(provider.getToken()).rejects.toMatchObject({ attempts: 2, retryable: false })
    expect(endpoint.count).toBe(2)
  })

  it('is not sent again where the function yields the same', async () => {
    const clientSecret = vi.fn(() => 'the-same-secret')
    const { provider, endpoint } = rig([refused], { clientSecret })
    await expect(provider.getToken()).rejects.toMatchObject({ attempts: 1 })
    expect([clientSecret.mock.calls.length, endpoint.count]).toEqual([2, 1])
  })

  it('is the failure, where the function then fails', async () => {
    const clientSecret = vi.fn<() => string>().mockReturnValueOnce('secret-no-1').mockReturnValueOnce('')
    const { provider, endpoint } = rig([refused], { clientSecret })
    await expect(provider.getToken()).rejects.toMatchObject({ code: 'ERR_TOKEN_STATUS', attempts: 1 })
    expect(endpoint.count).toBe(1)
  })

  it('that is a string is not sent again', async () => {
    const { provider, endpoint } = rig([refused])
    await expect(provider.getToken()).rejects.toMatchObject({ attempts: 1 })
    expect(endpoint.count).toBe(1)
  })
})

it('a secret replaced during the request does not use up its retries', async () => {
  const answers = [status(401), status(503), status(503), granted()]
  const { provider, endpoint, clock } = rig(answers, { clientSecret: rotating(), retries: 2 })
  const waiting = provider.getToken()
  await clock.advance(0)
  await expect(waiting).resolves.toBeDefined()
  expect(endpoint.count).toBe(4)
})

it('a secret that is refused again in a later attempt is not asked for once more', async () => {
  const clientSecret = rotating()
  const answers = [status(401), status(503), status(401), granted()]
  const { provider, endpoint, clock } = rig(answers, { clientSecret, retries: 2 })
  const waiting = rejection(provider.getToken())
  await clock.advance(0)
  expect(await waiting).toMatchObject({ status: 401, attempts: 3 })
  expect(endpoint.count).toBe(3)
  expect(clientSecret).toHaveBeenCalledTimes(3)
})

it('a 400 without a word about the client does not ask for another secret', async () => {
  const clientSecret = rotating()
  const { provider } = rig([status(400, { error: 'invalid_request' })], { clientSecret })
  await expect(provider.getToken()).rejects.toMatchObject({ error: 'invalid_request' })
  expect(clientSecret).toHaveBeenCalledTimes(1)
})

it('a function that throws with a secret which it yielded earlier shows nothing of it', async () => {
  const clientSecret = vi
    .fn<() => Promise<string>>()
    .mockResolvedValueOnce('secret-no-1')
    .mockRejectedValueOnce(new Error('the lease of secret-no-1 has ended'))
  const { provider, clock } = rig([], { clientSecret, retries: 0 })
  await provider.getToken()
  await clock.advance(1_000_000)
  const error = await rejection(provider.getToken())
  expect(error).toMatchObject({ code: 'ERR_CLIENT_SECRET' })
  expect(inspect(error, { depth: 9 })).not.toContain('secret-no-1')
})
