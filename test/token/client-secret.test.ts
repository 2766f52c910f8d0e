/** The client secret: given, or asked of a function, also by processes that share a token. */
import { inspect } from 'node:util'
import { ProviderClosedError, TokenRequestError } from 'merchant-auth'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Fleet, failuresOf, quiet } from '../store/fleet.ts'
import { granted, hang, rejection, rig, type ScriptedEndpoint, SECRET, status } from './harness.ts'

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
])('a secret rejected by %s', (_, rejected) => {
  it.each([0, 2])(
    'is replaced once by another that the function yields, with retries: %i',
    async (retries) => {
      const { provider, endpoint } = rig([rejected], { clientSecret: rotating(), retries })
      await expect(provider.getToken()).resolves.toBeDefined()
      expect(secretsSent(endpoint)).toEqual(['secret-no-1', 'secret-no-2'])
    },
  )

  it('is replaced only once', async () => {
    const { provider, endpoint } = rig([rejected, rejected], { clientSecret: rotating() })
    await expect(provider.getToken()).rejects.toMatchObject({ attempts: 2, retryable: false })
    expect(endpoint.count).toBe(2)
  })

  it('is not sent again where the function yields the same', async () => {
    const clientSecret = vi.fn(() => 'the-same-secret')
    const { provider, endpoint } = rig([rejected], { clientSecret })
    await expect(provider.getToken()).rejects.toMatchObject({ attempts: 1 })
    expect([clientSecret.mock.calls.length, endpoint.count]).toEqual([2, 1])
  })

  it('is the failure, where the function then fails', async () => {
    const clientSecret = vi.fn<() => string>().mockReturnValueOnce('secret-no-1').mockReturnValueOnce('')
    const { provider, endpoint } = rig([rejected], { clientSecret })
    await expect(provider.getToken()).rejects.toMatchObject({ code: 'ERR_TOKEN_STATUS', attempts: 1 })
    expect(endpoint.count).toBe(1)
  })

  it('that is a string is not sent again', async () => {
    const { provider, endpoint } = rig([rejected])
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

it('a secret that is rejected again in a later attempt is not asked for once more', async () => {
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

const encryptionKeys = ['a key of at least thirty-two bytes']

describe('a client secret', () => {
  it('encrypts where no keys are given: processes with another one share nothing with it', async () => {
    const fleet = new Fleet()
    const one = await fleet.begin({ clientSecret: 'secret-no-1' })
    const two = await fleet.begin({ clientSecret: 'secret-no-2' })
    expect(one.token).not.toBe(two.token)
    for (const { clientSecret, token } of [
      { ...one, clientSecret: 'secret-no-1' },
      { ...two, clientSecret: async () => 'secret-no-2' },
    ])
      expect((await fleet.begin({ clientSecret })).token).toBe(token)
    expect([fleet.endpoint.count, fleet.store.keys.length]).toEqual([2, 2])
  })

  it('that a function replaces leads to entries under the new one', async () => {
    const fleet = new Fleet()
    let secret = 'secret-no-1'
    const { provider } = await fleet.begin({ clientSecret: () => secret })
    secret = 'secret-no-2'
    await fleet.skip(1_000_000)
    const { value } = await provider.getToken()
    await quiet()
    expect((await fleet.begin({ clientSecret: 'secret-no-2' })).token).toBe(value)
    expect((await fleet.begin({ clientSecret: 'secret-no-1' })).token).not.toBe(value)
  })

  it('is asked for once for the look and the request', async () => {
    const fleet = new Fleet()
    const clientSecret = vi.fn(() => SECRET)
    await fleet.begin({ clientSecret })
    expect(clientSecret).toHaveBeenCalledTimes(1)
  })

  it('that was replaced between the look and the request yields nothing for those who have the old one', async () => {
    const fleet = new Fleet()
    const clientSecret = vi.fn(() => 'secret-no-2').mockImplementationOnce(() => 'secret-no-1')
    fleet.endpoint.answers.push(status(401))
    const { token } = await fleet.begin({ clientSecret })
    expect([clientSecret.mock.calls.length, fleet.store.keys]).toEqual([2, []])
    expect((await fleet.begin({ clientSecret: 'secret-no-1' })).token).not.toBe(token)
  })

  it('that cannot be had any more still opens what another process has put there', async () => {
    const fleet = new Fleet()
    const clientSecret = vi.fn(() => SECRET)
    const { provider } = await fleet.begin({ clientSecret })
    clientSecret.mockImplementation(() => {
      throw new Error('the vault is shut')
    })
    await fleet.skip(1_000_000)
    const { token } = await fleet.begin()
    expect((await provider.getToken()).value).toBe(token)
  })

  it('is asked for once where a token is acquired from the store, and not at all with keys', async () => {
    const fleet = new Fleet()
    const clientSecret = vi.fn(async () => SECRET)
    await fleet.begin()
    await fleet.begin({ clientSecret })
    expect(clientSecret).toHaveBeenCalledTimes(1)
    await fleet.begin({ encryptionKeys })
    await fleet.begin({ clientSecret, encryptionKeys })
    expect(clientSecret).toHaveBeenCalledTimes(1)
    expect(fleet.endpoint.count).toBe(2)
  })
})

describe('a clientSecret function', () => {
  it.each([
    ['throws', () => Promise.reject(new Error('the vault is shut'))],
    ['yields undefined', () => undefined],
    ['yields an empty text', () => ''],
  ])('that %s fails the token request as without a store, which is not used', async (_, clientSecret) => {
    const fleet = new Fleet()
    const { provider, events } = fleet.start({ clientSecret: clientSecret as () => string })
    const failing = rejection(provider.getToken())
    await fleet.tookMs(failing)
    expect(await failing).toMatchObject({ code: 'ERR_CLIENT_SECRET', attempts: 3 })
    expect([fleet.store.asked, fleet.endpoint.count, failuresOf(events)]).toEqual([[], 0, []])
  })

  it('that hangs fails it within timeoutMs', async () => {
    const fleet = new Fleet()
    const failing = rejection(
      fleet.start({ clientSecret: () => new Promise<string>(() => {}) }).provider.getToken(),
    )
    expect(await fleet.tookMs(failing)).toBe(10_000)
    expect(await failing).toMatchObject({ code: 'ERR_CLIENT_SECRET' })
    expect([fleet.store.asked, fleet.clock.sleeping]).toEqual([[], 0])
  })

  it.each([
    ['hangs', () => new Promise<string>(() => {})],
    ['throws', () => Promise.reject(new Error('the vault is shut'))],
  ])('that %s keeps nobody from a token in the store, where there are keys', async (_, clientSecret) => {
    const fleet = new Fleet()
    const { token } = await fleet.begin({ encryptionKeys })
    const { provider } = fleet.start({ clientSecret, encryptionKeys })
    expect((await provider.getToken()).value).toBe(token)
  })

  it('that hangs while the lease is held has it released in the end', async () => {
    const fleet = new Fleet()
    const clientSecret = (): Promise<string> => new Promise(() => {})
    const failing = rejection(fleet.start({ clientSecret, encryptionKeys }).provider.getToken())
    expect(await fleet.tookMs(failing)).toBe(10_000)
    expect(await failing).toMatchObject({ code: 'ERR_CLIENT_SECRET', attempts: 2 })
    await quiet()
    expect([fleet.store.leased, fleet.clock.sleeping]).toEqual([0, 0])
  })

  it('that hangs before the look is left at once by close()', async () => {
    const fleet = new Fleet()
    const { provider } = fleet.start({ clientSecret: () => new Promise<string>(() => {}) })
    const waiting = rejection(provider.getToken())
    await quiet()
    await provider.close()
    expect(await waiting).toBeInstanceOf(ProviderClosedError)
    expect([fleet.store.asked, fleet.clock.sleeping, fleet.endpoint.count]).toEqual([[], 0, 0])
  })

  it('that takes its time leaves the token request what remains of timeoutMs', async () => {
    const fleet = new Fleet()
    fleet.endpoint.otherwise = hang
    const clientSecret = async (): Promise<string> => {
      await fleet.clock.sleep(2_000)
      return SECRET
    }
    const failing = rejection(fleet.start({ clientSecret }).provider.getToken())
    expect(await fleet.tookMs(failing)).toBe(10_000)
    expect(await failing).toMatchObject({ code: 'ERR_TOKEN_TIMEOUT' })
    expect(fleet.store.operations).toContain('get')
  })

  it('that throws once is a failed attempt, and the token stays with the process', async () => {
    const fleet = new Fleet()
    const clientSecret = vi
      .fn<() => string>()
      .mockReturnValue(SECRET)
      .mockImplementationOnce(() => {
        throw new Error('the vault is shut')
      })
    const { provider, events } = fleet.start({ clientSecret })
    const waiting = provider.getToken()
    await fleet.tookMs(waiting)
    await expect(waiting).resolves.toBeDefined()
    await quiet()
    expect([fleet.store.asked, failuresOf(events)]).toEqual([[], []])
    await fleet.skip(1_000_000)
    await provider.getToken()
    await quiet()
    expect(fleet.store.operations).toEqual(['get', 'lease', 'get', 'set', 'release'])
  })
})
