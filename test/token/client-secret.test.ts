/** The client secret as a string or a function, also in processes that share a token. */
import { inspect } from 'node:util'
import type { TokenRequestError } from 'merchant-auth'
import { describe, expect, it, vi } from 'vitest'
import { Fleet, failuresOf, quiet } from '../store/fleet.ts'
import { settled } from '../support/clock.ts'
import {
  type Answer,
  failed,
  granted,
  rejection,
  rig,
  SECRET,
  status,
  TOKEN_ENDPOINT,
  withoutJitter,
} from './harness.ts'

withoutJitter()

/** A function that returns these secrets in order, then the last one again. */
const yielding = (...secrets: string[]) => {
  const ask = vi.fn(async () => secrets.at(-1) ?? '')
  for (const secret of secrets.slice(0, -1)) ask.mockResolvedValueOnce(secret)
  return ask
}
const hangs = (): Promise<string> => new Promise(() => {})
const throws = (): never => {
  throw new Error('the vault is shut')
}

const failing503 = status(503)
const REJECTIONS: [string, Answer][] = [
  ['401', status(401)],
  ['invalid_client', status(400, { error: 'invalid_client' })],
  ['access_denied', status(403, { error: 'access_denied' })],
]

describe('a clientSecret function', () => {
  /** It returns the secrets in `yields`, of which the first `sent` are sent; it is called `asked` times. */
  type Row = [name: string, yields: string, answers: Answer[], sent: number, asked: number, error?: object]
  const [[, rejected401]] = REJECTIONS as [[string, Answer]]
  it.each<Row>([
    ['is called before every attempt', 'one two three', [failing503, failing503], 3, 3],
    ...REJECTIONS.flatMap(([name, rejected]): Row[] => [
      [`replaces a secret rejected with ${name}`, 'one two', [rejected], 2, 2],
      [
        `replaces only one secret rejected with ${name}`,
        'one two three',
        [rejected, rejected],
        2,
        2,
        { attempts: 2, retryable: false },
      ],
      [
        `that returns the same secret after ${name} causes no retry`,
        'one one',
        [rejected],
        1,
        2,
        { attempts: 1 },
      ],
      [
        `that fails after ${name} does not replace that error`,
        'one ',
        [rejected],
        1,
        2,
        { code: 'ERR_TOKEN_STATUS' },
      ],
    ]),
    [
      'does not use up a retry when it replaces a secret',
      'one two three four',
      [rejected401, failing503, failing503],
      4,
      4,
    ],
    [
      'replaces only one rejected secret, even with a retry in between',
      'a b c d',
      [rejected401, failing503, rejected401],
      3,
      3,
      { status: 401 },
    ],
    [
      'is not called again after any other 400',
      'a b',
      [status(400, { error: 'invalid_request' })],
      1,
      1,
      { attempts: 1 },
    ],
  ])('%s', async (_, yields, answers, sent, asked, error) => {
    const secrets = yields.split(' ')
    const clientSecret = yielding(...secrets)
    const { provider, endpoint, clock } = rig(answers, { clientSecret })
    expect(clientSecret).not.toHaveBeenCalled()
    const outcome = error === undefined ? provider.getToken() : rejection(provider.getToken())
    await clock.advance(0)
    expect(await outcome).toMatchObject(error ? { attempts: sent, ...error } : { tokenType: 'Bearer' })
    const bodies = endpoint.requests.map(({ init }) => JSON.parse(String(init.body)))
    expect(bodies.map(({ client_secret }) => client_secret)).toEqual(secrets.slice(0, sent))
    expect(clientSecret).toHaveBeenCalledTimes(asked)
  })

  it('returns a secret that is sent unchanged, including whitespace', async () => {
    const { provider, endpoint } = rig([], { clientSecret: () => ' a secret \n' })
    await provider.getToken()
    const body = JSON.parse(String(endpoint.requests[0]?.init.body))
    expect(body).toMatchObject({ client_secret: ' a secret \n' })
  })

  it('replaces a rejected secret even with retries: 0', async () => {
    const { provider, endpoint } = rig([rejected401], { clientSecret: yielding('one', 'two'), retries: 0 })
    await expect(provider.getToken()).resolves.toBeDefined()
    expect(endpoint.count).toBe(2)
  })

  it('replaces a rejected secret in a background renewal, too', async () => {
    const clientSecret = yielding('one', 'one', 'two')
    const { provider, endpoint, clock } = rig([granted(), status(401)], { clientSecret })
    const token = await provider.getToken()
    await clock.advance(900_000)
    expect(provider.currentToken()).toBe(token)
    await settled()
    expect(provider.currentToken()?.value).not.toBe(token.value)
    expect([endpoint.count, clientSecret.mock.calls.length]).toEqual([3, 3])
  })

  it('that throws has its error as the cause, with secrets that it returned earlier hidden', async () => {
    const shut = Object.assign(new Error('the lease of secret-no-1 has ended'), { code: 'EVAULT' })
    const clientSecret = yielding('secret-no-1')
      .mockResolvedValueOnce('secret-no-1')
      .mockRejectedValueOnce(shut)
    const made = rig([], { clientSecret, retries: 0 })
    await made.provider.getToken()
    await made.clock.advance(1_000_000)
    const error = await failed(made)
    expect(error).toMatchObject({ code: 'ERR_CLIENT_SECRET' })
    expect(error.cause).toMatchObject({ message: 'the lease of [hidden] has ended', code: 'EVAULT' })
    expect(inspect(error, { depth: 9 })).not.toContain('secret-no-1')
  })
})

it.each(REJECTIONS)('a clientSecret string is not sent again after %s', async (_, rejected) => {
  const made = rig([rejected])
  expect(await failed(made)).toMatchObject({ attempts: 1 })
  expect(made.endpoint.count).toBe(1)
})

const encryptionKeys = ['a key of at least thirty-two bytes']

describe('a client secret', () => {
  it('is the encryption key without encryptionKeys: processes with another secret share no token', async () => {
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

  it('encrypts new entries as soon as the function returns it', async () => {
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

  it('that was rotated during the token request encrypts the entry: processes that have it find the token', async () => {
    const fleet = new Fleet()
    const clientSecret = yielding('secret-no-1', 'secret-no-2')
    fleet.endpoint.answers.push(status(401))
    const { token } = await fleet.begin({ clientSecret })
    expect(clientSecret).toHaveBeenCalledTimes(2)
    expect((await fleet.begin({ clientSecret: 'secret-no-2' })).token).toBe(token)
    expect((await fleet.begin({ clientSecret: 'secret-no-1' })).token).not.toBe(token)
  })

  it('that was rotated during the token request does not change the entry with encryptionKeys', async () => {
    const fleet = new Fleet()
    const clientSecret = yielding('secret-no-1', 'secret-no-2')
    fleet.endpoint.answers.push(status(401))
    const { token } = await fleet.begin({ clientSecret, encryptionKeys })
    expect(await fleet.tokenOf({ encryptionKeys })).toBe(token)
  })

  it('is read from the function once per acquisition, and not for a stored token with encryptionKeys', async () => {
    const fleet = new Fleet()
    const clientSecret = vi.fn(async () => SECRET)
    for (const calls of [1, 2]) {
      await fleet.begin({ clientSecret })
      expect(clientSecret).toHaveBeenCalledTimes(calls)
    }
    await fleet.begin({ encryptionKeys })
    await fleet.begin({ clientSecret, encryptionKeys })
    expect(clientSecret).toHaveBeenCalledTimes(2)
    expect(fleet.endpoint.count).toBe(2)
  })
})

describe('a clientSecret function of a process with a store', () => {
  it.each<[string, () => unknown, number]>([
    ['threw', throws, 3],
    ['threw', () => Promise.reject(undefined), 3],
    ['threw', () => Promise.reject(Object.assign(new Error('x'), { code: 'a new secret' })), 3],
    [
      'threw (ECONNREFUSED)', // the code of what fetch throws; its text may contain a secret that is not known yet
      () =>
        Promise.reject(
          new TypeError('no vault', { cause: Object.assign(new Error('x'), { code: 'ECONNREFUSED' }) }),
        ),
      3,
    ],
    ['returned nothing', () => undefined, 3],
    ['returned nothing', () => '', 3],
    ['returned no string', () => 5, 3],
    ['did not answer in time', hangs, 1], // before the look at the store, which needs a key
  ])('that %s fails the attempt, and the store is not used', async (how, yields, attempts) => {
    const fleet = new Fleet()
    const ask = vi.fn(yields)
    const { provider, events } = fleet.start({ clientSecret: ask as () => string })
    const failing = rejection<TokenRequestError>(provider.getToken())
    await fleet.tookMs(failing)
    const error = await failing
    expect(error).toMatchObject({ code: 'ERR_CLIENT_SECRET', attempts, retryable: true })
    expect(error.message).toBe(
      `The clientSecret function ${how}, so no token was requested at ${TOKEN_ENDPOINT}.`,
    )
    expect(ask).toHaveBeenCalledTimes(attempts)
    expect([fleet.store.asked, fleet.endpoint.count, failuresOf(events)]).toEqual([[], 0, []])
  })

  it.each([
    ['hangs', hangs],
    ['throws', throws],
  ])('that %s does not prevent acquiring a stored token with encryptionKeys', async (_, clientSecret) => {
    const fleet = new Fleet()
    const { token } = await fleet.begin({ encryptionKeys })
    const { provider } = fleet.start({ clientSecret, encryptionKeys })
    expect((await provider.getToken()).value).toBe(token)
  })
})
