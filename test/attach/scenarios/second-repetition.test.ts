// The calls of every client that are rejected with a second token, too: one that this process still had, or that the store has.
import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { MemoryStore } from '../../store/memory-store.ts'
import { StandingClock } from '../../support/clock.ts'
import { until, useGround } from '../../support/ground.ts'
import { CLIENTS, UNDICI } from '../conform.ts'
import { type Client, type Driver, FETCH } from '../drivers.ts'

const ground = useGround()
/** All but undici, which takes neither forms nor URLSearchParams. */
const WITH_FORMS = CLIENTS.filter((client) => client !== UNDICI)

/** The numbers of the tokens, in the order of their issue, that requests to this path carried. */
function sendsOf(path: string): readonly number[] {
  const issued = ground.env.requests('token').map(({ jti }) => jti)
  return ground
    .sent()
    .filter((request) => request.path === path)
    .map(({ jti }) => issued.indexOf(jti) + 1)
}

/** Makes so many calls at once. Resolves with their statuses, and with the tokens that each was sent with. */
async function callsAtOnce(send: Client, count: number) {
  const paths = Array.from({ length: count }, (_, nth) => `/orders/${nth}`)
  const answers = await Promise.all(paths.map((path) => send({ url: ground.env.merchantUrl + path })))
  const sends = paths.map((path) => sendsOf(`/merchant${path}`).join())
  return { statuses: new Set(answers.map(({ status }) => status)), sends: new Set(sends) }
}

/** A client whose first token was renewed on schedule; since then it has called one of two APIs, not the merchant API. */
async function renewedOnSchedule({ create }: Driver): Promise<Client> {
  ground.env.configure({ lifetimeSeconds: 3_600 })
  const clock = new StandingClock()
  const tokens = ground.provider({ clock, refreshAheadMs: 600_000 })
  const send = create(tokens)
  const { value: first } = await tokens.getToken()
  clock.advance(3_300_000)
  await until(() => tokens.currentToken()?.value !== first)
  expect((await send({ url: ground.env.inStoreUrl })).status).toBe(200)
  expect(ground.env.counts.token).toBe(2)
  return send
}

/** Each call with the token in use, with the one before, and with the one that was requested for it; late ones get that at once. */
function expectSends(sends: ReadonlySet<string>): void {
  expect(sends).toContain('2,1,3')
  expect(['2,1,3', '2,3']).toEqual(expect.arrayContaining([...sends]))
}

describe.each(CLIENTS)('$name: a token that was renewed on schedule', (client) => {
  it('costs no call and one token request where all are revoked before an API was called with it', async () => {
    const send = await renewedOnSchedule(client)
    ground.env.revoke()
    const { statuses, sends } = await callsAtOnce(send, 30)
    expect(statuses).toEqual(new Set([200]))
    expectSends(sends)
    expect(ground.env.counts.token).toBe(3)
  })

  it('leads to three sends at most where the API rejects every token', async () => {
    const send = await renewedOnSchedule(client)
    ground.env.configure({ rejectAllTokens: ['merchant'] })
    const { statuses, sends } = await callsAtOnce(send, 30)
    expect(statuses).toEqual(new Set([401]))
    expectSends(sends)
    expect(ground.env.counts.token).toBe(3)
  })

  it('leads to one send of a stream, and the next call is repeated', async () => {
    const send = await renewedOnSchedule(client)
    ground.env.revoke()
    const url = `${ground.env.merchantUrl}/orders`
    const stream = Readable.from([Buffer.from('one, two')])
    expect((await send({ url, method: 'POST', body: stream })).status).toBe(401)
    expect(sendsOf('/merchant/orders')).toEqual([2])
    expect((await send({ url })).status).toBe(200)
    expect(sendsOf('/merchant/orders')).toEqual([2, 1, 2, 3])
  })
})

const form = (): FormData => {
  const data = new FormData()
  data.append('receipt', new File(['a body'], 'receipt.txt'))
  return data
}

/** A body, and the clients that take it. Each is sent with the text 'a body' in it. */
const BODIES: readonly (readonly [string, readonly Driver[], () => unknown])[] = [
  ['a string', CLIENTS, () => 'a body'],
  ['a Buffer', CLIENTS, () => Buffer.from('a body')],
  ['a Blob', CLIENTS, () => new Blob(['a body'])],
  ['URLSearchParams', WITH_FORMS, () => new URLSearchParams({ 'a body': '' })],
  ['a form', WITH_FORMS, form],
]

/** The bodies that were sent, without the boundaries of a form, which differ in each send. */
const bodiesSent = () => ground.sent().map(({ body }) => String(body).replaceAll(/^--\S+/gm, '--'))

describe.each(BODIES)('%s', (_, clients, make) => {
  it.each(clients)('is sent a third time whole: $name', async (client) => {
    const send = await renewedOnSchedule(client)
    ground.env.revoke()
    const { status } = await send({ url: ground.env.merchantUrl, method: 'POST', body: make() })
    expect([status, sendsOf('/merchant')]).toEqual([200, [2, 1, 3]])
    const [first, ...others] = bodiesSent()
    expect(first?.replace('+', ' ')).toContain('a body')
    expect(others).toEqual([first, first])
  })
})

it('the body of a Request is sent a third time whole', async () => {
  const send = await renewedOnSchedule(FETCH)
  ground.env.revoke()
  const url = new Request(ground.env.merchantUrl, { method: 'POST', body: 'a body' })
  expect((await send({ url })).status).toBe(200)
  expect(bodiesSent()).toEqual(['a body', 'a body', 'a body'])
})

describe.each(CLIENTS)('$name: processes with a store', ({ create }) => {
  /** `start` starts a process that shares a store with the others. */
  function fleet() {
    const clock = new StandingClock()
    const store = new MemoryStore(clock)
    const start = () => {
      const tokens = ground.provider({ clock, store })
      return { tokens, send: create(tokens) }
    }
    return { clock, start }
  }

  it('lose no call, and request one token, where that of this process and a newer one of the store are revoked', async () => {
    const { clock, start } = fleet()
    const { send } = start()
    await send({ url: ground.env.merchantUrl })
    clock.advance(1_000)
    await start().tokens.getToken({ forceRefresh: true })
    ground.env.revoke()
    const { statuses, sends } = await callsAtOnce(send, 50)
    expect(statuses).toEqual(new Set([200]))
    expect(sends).toContain('1,2,3')
    expect(['1,2,3', '1,3']).toEqual(expect.arrayContaining([...sends]))
    expect(ground.env.counts.token).toBe(3)
  })

  describe('in doubt, where n is 16,', () => {
    const N = 16

    /** Processes that have accepted calls since. Those for `/unknown` get a 401 of their own. */
    async function inDoubt(count: number) {
      const { clock, start } = fleet()
      const path = '/merchant/unknown'
      ground.env.fail('merchant', { kind: 'status', status: 401 }, { path, times: Infinity })
      const { send } = start()
      const isAccepted = async (send: Client, path = ''): Promise<boolean> =>
        (await send({ url: ground.env.merchantUrl + path })).status === 200
      for (const n of [1, N / 4, N / 2]) {
        for (let nth = 0; nth < n; nth += 1) expect(await isAccepted(send, '/unknown')).toBe(false)
        clock.advance(N * 1_000)
      }
      expect(ground.env.counts.token).toBe(4)
      const clients = [send, ...Array.from({ length: count - 1 }, () => start().send)]
      for (const each of clients) expect(await isAccepted(each)).toBe(true)
      return { start, clients, isAccepted }
    }

    it('lose fewer than 2n calls of one that finds a newer token in the store, where both are revoked', async () => {
      const { start, clients, isAccepted } = await inDoubt(1)
      await start().tokens.getToken({ forceRefresh: true })
      ground.env.revoke()
      let lost = 0
      while (!(await isAccepted(clients[0] as Client))) lost += 1
      expect(lost).toBeGreaterThanOrEqual(N)
      expect(lost).toBeLessThan(2 * N)
      expect(ground.env.counts.token).toBe(6)
    })

    it('lose fewer than 4n calls of four, where their token is revoked', async () => {
      const { clients, isAccepted } = await inDoubt(4)
      ground.env.revoke()
      let lost = 0
      for (let round = 0; round < 2 * N; round += 1)
        for (const each of clients) if (!(await isAccepted(each))) lost += 1
      expect(lost).toBeLessThan(4 * N)
      expect(ground.env.counts.token).toBe(5)
    })
  })
})
